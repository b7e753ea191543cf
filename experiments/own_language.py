"""Which kind and size of tokenizer suits which language? One line of JSON a language, kind and size.

    python own_language.py HELP OUT --languages de el en-US fi ja ru tr zh-CN

HELP: folder with LibreOffice's help by language, `/usr/share/libreoffice/help` after `apt install libreoffice-help-de …` (Debian).
The same pages in all languages: a line is a paragraph, the first of equal ones only; every tenth page is measured, the others are
trained on. Lower-cased, with accents. Lines that OUT has already are left out.
"""
import argparse, json
import electra_nb.lab.register # as `pretrain` has the kinds
from electra_nb.lab.language.survey import character_facts, try_vocabulary
from html.parser import HTMLParser
from pathlib import Path

class Paragraphs(HTMLParser):
    "Collects the text of paragraphs and headings."
    def __init__(self): self.lines,self.inside = [],False; super().__init__()
    def handle_starttag(self, tag, attrs):
        if tag in ('p','h1','h2','h3','h4','h5','h6'): self.inside = True; self.lines.append('')
    def handle_endtag(self, tag):
        if tag in ('p','h1','h2','h3','h4','h5','h6'): self.inside = False
    def handle_data(self, data):
        if self.inside: self.lines[-1] += data

def pages(folder, n_chars):
    "Pages of a language until there are so many characters; each paragraph once."
    seen,n = set(),0
    for path in sorted(folder.rglob('*.html')):
        reader = Paragraphs()
        reader.feed(path.read_text(encoding='utf-8'))
        lines = [l for l in (' '.join(l.split()) for l in reader.lines) if l and not (l in seen or seen.add(l))]
        if lines: yield '\n'.join(lines)
        n += sum(map(len, lines))
        if n>=n_chars: return

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('help','out'): ask.add_argument(word)
    ask.add_argument('--languages', nargs='+', default='de el en-US fi ja ru tr zh-CN'.split())
    ask.add_argument('--sizes', nargs='+', type=int, default=[4096,8192,16384])
    ask.add_argument('--n_chars', type=int, default=2_000_000)
    a = ask.parse_args()
    out = Path(a.out)
    done = [json.loads(l) for l in out.read_text().splitlines()] if out.exists() else []
    for lang in a.languages:
        docs = list(pages(Path(a.help)/lang, a.n_chars))
        texts,unseen = [d for i,d in enumerate(docs) if i%10],docs[::10]
        facts = {k:v for k,v in character_facts(docs).items() if k in ('letters','capitals','marks','unspaced')}
        for size in a.sizes:
            for kind in ('wordpiece','unigram','bpe'):
                if any((r['language'],r['kind'],r['vocab_size'])==(lang,kind,size) for r in done): continue
                found = try_vocabulary(kind, texts, unseen, size, lower=True, strip_accents=False)
                line = dict(language=lang, characters=sum(map(len, docs)), **facts, **found)
                line = {k:round(v, 4) if isinstance(v, float) else v for k,v in line.items()}
                with open(out, 'a') as f: f.write(json.dumps(line)+'\n')
