"""How much text does a vocabulary need? One line of JSON a text, size and sample.

    python vocabulary_sample.py OUT --texts wiki=FOLDER gutenberg=FOLDER

Vocabularies of WordPiece are trained on samples of so many characters for each piece, and on 100 million. Measured on a fiftieth of the
documents that the training does not see; also on the built-in text (`docs`). Lines that OUT has already are left out.
"""
import argparse, json, time
from electra_nb.text.corpus import Corpus, get_corpus, is_held_out
from electra_nb.text.docstrings import library_docs
from electra_nb.text.tokenizer import VocabConfig, line_encoder, train_tokenizer
from pathlib import Path

whole = 100_000_000 # characters at most

def halves(source):
    "A corpus without a fiftieth of its documents; lines of those."
    docs = [doc for _,doc in library_docs()] if source is None else list(get_corpus(source))
    train,valid = ([d for d in docs if is_held_out(d, .02)==held] for held in (False,True))
    lines = [l for d in valid for l in d.split('\n') if l.strip()]
    return Corpus('train', lambda: iter(train), '', sum(len(d.encode()) for d in train)),lines[:20_000]

def measure(corpus, lines, size, per):
    "Train one vocabulary: CPU seconds, and how many pieces a word has."
    began = time.process_time()
    tok = train_tokenizer(corpus, VocabConfig(vocab_size=size), n_chars=whole if per is None else size*per)
    seconds,words = time.process_time()-began,sum(len(l.split()) for l in lines)
    pieces = sum(map(len, line_encoder(tok)(lines)))
    return dict(pieces=len(tok), seconds=round(seconds, 2), pieces_per_word=round(pieces/words, 4))

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ask.add_argument('out', type=Path)
    ask.add_argument('--texts', nargs='*', default=[], help='name=folder')
    ask.add_argument('--sizes', nargs='+', type=int, default=[4096,8192,30522])
    a = ask.parse_args()
    done = [json.loads(l) for l in a.out.read_text().splitlines()] if a.out.exists() else []
    for name,source in {'docs':None, **dict(t.split('=', 1) for t in a.texts)}.items():
        corpus,lines = halves(source)
        for size,per in [(size,per) for size in a.sizes for per in (250,500,1000,2000,None)]:
            case = dict(text=name, megabytes=round(corpus.n_bytes/1e6, 1), vocab_size=size, characters_per_piece=per)
            if any(case.items()<=r.items() for r in done) or per and size*per>corpus.n_bytes: continue
            with open(a.out, 'a') as f: f.write(json.dumps({**case, **measure(corpus, lines, size, per)})+'\n')
