"""Which of two sentences is right, by n-grams of the text that the encoders read: pairs of the pages slips, first_minutes and one_hour.

    python ngram_pairs.py DATA OUT

DATA as for one_hour.py, whose ten million words are written to OUT. For docstrings the n-grams are counted in those that
`pretrain()` reads, and asked about held-out ones; for Zorro and BLiMP they are counted in the ten million words. OUT gets
ngram_pairs.json.
"""
import argparse, json, time
import numpy as np
from electra_nb.lab.bench.measure import commit
from electra_nb.lab.own_data.builtin import most
from electra_nb.lab.rivals.ngrams import NGrams, cut_sentences, word_logp
from electra_nb.lab.scoring.pairs import pair_table
from electra_nb.lab.tags.clusters import text_words
from electra_nb.text.corpus import is_held_out
from electra_nb.text.docstrings import builtin_docs, split_sentences
from electra_nb.text.lines import read_lines
from electra_nb.training.folder import versions
from one_hour import write_text
from paper_tables import some_pairs
from pathlib import Path
from synthetic_errors import error_pairs

def count(lines):
    "A model of n-grams; CPU seconds it took, and how many words there are."
    began,rows = time.process_time(),[text_words(l) for l in lines]
    model = NGrams(cut_sentences(rows))
    return model,dict(cpu_seconds=round(time.process_time()-began), words=sum(map(len, rows)))

def ask(model, pairs):
    "Right pairs in percent by phenomenon, with intervals; the last row is their mean."
    good,bad = (np.array([p.sum() for p in word_logp(model, [text_words(getattr(p, k)) for p in pairs])]) for k in ('good','bad'))
    wins = (1.*(good>bad)+(good>=bad))/2
    table = pair_table([p.phenomenon for p in pairs], np.stack([wins,wins], 1))
    return table[['phenomenon','pairs','accuracy','low','high']].round(2).to_dict('records')

if __name__=='__main__':
    parse = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('data','out'): parse.add_argument(word, type=Path)
    a = parse.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    found = dict(what=__doc__.split('\n')[0], commit=commit(), date=time.strftime('%Y-%m-%d'), versions=versions(), order=4)
    docs = [(d,is_held_out(d, most)) for d in builtin_docs()]
    model,took = count(l for d,held_out in docs if not held_out for l in d.split('\n'))
    sentences = list(dict.fromkeys(s for d,held_out in docs if held_out for s in split_sentences(d)))
    everything = [p for p in error_pairs(sentences) if p.phenomenon=='order']
    found['docstrings'] = dict(took, order_of_all=ask(model, everything)[0], first_sentences=ask(model, error_pairs(sentences[:1000]))[:-1])
    model,took = count(l for path in write_text(a.data, a.out) for l in read_lines(path) if l.strip())
    found['ten million words'] = dict(took, **{name:ask(model, some_pairs(a.data/f'grammar/{name}.jsonl.xz', 300)) for name in ('zorro','blimp')})
    (a.out/'ngram_pairs.json').write_text(json.dumps(found, indent=1)+'\n')
