"""What do new words bring? A small masked language model of docstrings of Python goes on with those of scikit-learn, once as it is and once with
`add_words=`, for the same steps and seeds. It is then asked for hidden words of other docstrings of scikit-learn: common words, none of them new, at
the same places for both; and the new words themselves, which the plain model has to guess in pieces, all of them hidden. Takes five minutes.

    python experiments/new_words.py OUT [--write results/new_words.json]
"""
import argparse, datetime, json, math, os, subprocess, torch
from collections import Counter
from pathlib import Path
from statistics import fmean

os.environ['TQDM_DISABLE'] = '1'
p = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
p.add_argument('out', type=Path, help='a new folder for the runs')
p.add_argument('--words', type=int, default=200, help='new words')
p.add_argument('--first', type=int, default=1500, help='steps on docstrings of Python')
p.add_argument('--steps', type=int, default=150, help='steps on those of scikit-learn')
p.add_argument('--seeds', type=int, default=3)
p.add_argument('--write', type=Path, help='file for the figures')

python = 'asyncio email http logging unittest argparse xml json multiprocessing concurrent urllib importlib ctypes tkinter'.split()

def hidden(line, tok, wanted):
    "A line with up to one word in six hidden, and the hidden words, of those that are wanted."
    backend,out,words,last = tok.backend_tokenizer,[],[],-6
    line = backend.normalizer.normalize_str(line)
    found = backend.pre_tokenizer.pre_tokenize_str(line)
    for i,(word,(a,b)) in reversed([*enumerate(found)]):
        beside = line[max(0, a-1):a]+line[b:b+1]
        if not wanted(word) or '_' in beside or words and last-i<6: continue
        last = i
        words.insert(0, word)
        line = f'{line[:a]}\0{line[b:]}'
    return line,words

@torch.no_grad()
def loss_of(run, lines):
    "Nats for each hidden word: the sum over its pieces, all of them hidden."
    from transformers import AutoModelForMaskedLM, AutoTokenizer
    model,tok = (c.from_pretrained(run/'encoder') for c in (AutoModelForMaskedLM,AutoTokenizer))
    total,n = 0.,0
    for line,words in lines:
        pieces = [tok(w, add_special_tokens=False).input_ids for w in words]
        for ids in pieces: line = line.replace('\0', ' '.join(['[MASK]']*len(ids)), 1)
        enc = tok(line, return_tensors='pt')
        if enc['input_ids'].shape[1]>64: continue
        at = enc['input_ids'][0]==tok.mask_token_id
        logits = model.eval()(**enc).logits[0,at]
        total += torch.nn.functional.cross_entropy(logits, torch.tensor(sum(pieces, [])), reduction='sum').item()
        n += len(words)
    return total/n,n

def counted(docs, tok):
    "A function that gives the loss of hidden words by their frequency in documents."
    backend = tok.backend_tokenizer
    counts = Counter(w for d in docs for w,_ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(d)))
    def loss(lines): return fmean(math.log((counts.total()+len(counts))/(counts[w]+1)) for _,words in lines for w in words)
    return loss

def main(a):
    from electra_nb import pretrain
    from electra_nb.core.messages import logger
    from electra_nb.text.docstrings import library_docs
    from transformers import AutoTokenizer
    logger.setLevel('WARNING')
    usual = dict(objective='mlm', mask_unit='word', device='cpu', threads=1, probe=False, general=False)
    pretrain(corpus=[d for _,d in library_docs(python)], steps=a.first, vocab_size=2000, out=a.out/'first', **usual)
    docs = [d for _,d in library_docs(('sklearn',))]
    train,test = [d for i,d in enumerate(docs) if i%6],docs[::6]
    old = AutoTokenizer.from_pretrained(a.out/'first'/'encoder')
    rows = []
    for seed in range(a.seeds):
        runs = {n:a.out/f'{n}-{seed}' for n in ('plain','grown')}
        for name,run in runs.items():
            pretrain(corpus=train, start=a.out/'first', add_words=a.words if name=='grown' else None, steps=a.steps, seed=seed, out=run, **usual)
        new = set(AutoTokenizer.from_pretrained(runs['grown']/'encoder').get_vocab())-set(old.get_vocab())
        lines = [l for d in test for l in d.split('\n') if 6<len(l.split())<25]
        common = [hidden(l, old, lambda w: w.isalpha() and len(w)>3 and w in old.get_vocab()) for l in lines]
        own = [hidden(l, old, new.__contains__) for l in lines]
        common,own = ([pair for pair in pairs if pair[1] and len(old(pair[0]).input_ids)<40] for pairs in (common,own))
        by_frequency = counted(train, old)
        row = dict(seed=seed, common_frequency=by_frequency(common), new_frequency=by_frequency(own), common_before=loss_of(a.out/'first', common)[0])
        for name,run in runs.items(): row |= {f'common_{name}':loss_of(run, common)[0], f'new_{name}':loss_of(run, own)[0]}
        rows.append(row | dict(n_common=loss_of(runs['plain'], common)[1], n_new=loss_of(runs['plain'], own)[1]))
        print(rows[-1], flush=True)
    info = json.loads((runs['grown']/'recipe.json').read_text())
    commit = subprocess.run(['git','rev-parse','--short','HEAD'], capture_output=True, text=True).stdout.strip()
    means = {k:round(fmean(r[k] for r in rows), 4) for k in rows[0] if k!='seed'}
    found = dict(what='nats for a hidden word of docstrings of scikit-learn, with and without new words (experiments/new_words.py)', commit=commit,
        date=str(datetime.date.today()), words=info['start']['words'], first=a.first, steps=a.steps, means=means, seeds=rows)
    if a.write: a.write.write_text(json.dumps(found, indent=1, ensure_ascii=False)+'\n')
    print(means)

if __name__=='__main__': main(p.parse_args())
