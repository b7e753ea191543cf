"""How long a run takes to start, and to start again, on a text of many gigabytes.

    python long_text_start.py TEXT OUT --times 150 --home FOLDER

TEXT is written TIMES times into one file. It is packed once, and its packed rows are repeated as often, since packing
itself is not what is measured. Then three processes train a few steps each, one after the other. The seconds are those
from the start of a process to its first batch; the first process reads text and rows once to hash them, and the other
two resume its run.
"""
import argparse, json, numpy as np, os, shutil, subprocess, sys, time
from electra_nb.lab.bench.measure import commit
from electra_nb.core.files import atomic_file, atomic_folder
from electra_nb.recipe import make_recipe
from electra_nb.text.corpus import get_corpus
from electra_nb.text.examples import examples_folder
from electra_nb.text.prepare import prepare
from electra_nb.text.rows import Examples
from electra_nb.training.folder import versions
from pathlib import Path

child = """
import sys, time
began,corpus,home = float(sys.argv[1]),sys.argv[2],sys.argv[3]
import os, signal, torch
from electra_nb import pretrain
from fastai.callback.core import Callback
imported = time.time()-began

class Clock(Callback):
    order = -100
    n = 0
    def before_batch(self):
        if self.n==0: print('seconds', imported, time.time()-began, time.process_time(), self.learn.steps.done, flush=True)
        self.n += 1
        if self.n==25: os.kill(os.getpid(), signal.SIGTERM)

pretrain(corpus=corpus, tokenizer=home+'/tokenizer', out=home+'/run', steps=100_000, device='cpu', threads=1, cbs=[Clock()])
"""

def repeat(path, text, times):
    "A file with a text several times."
    with open(path, 'wb') as f:
        for _ in range(times): f.write(text)

def repeat_rows(once, times, fingerprint):
    "Writes the packed rows of a text as often as the text is repeated."
    def write(tmp):
        header = dict(once.header, corpus='long', corpus_fingerprint=fingerprint)
        for split in ('train','valid'):
            rows = Examples(once.path, split)
            lens = np.diff(rows.offsets)
            with open(tmp/f'{split}.ids', 'wb') as f:
                for _ in range(times): f.write(rows.ids.tobytes())
            np.concatenate([[0],np.cumsum(np.tile(lens, times))]).astype(np.uint64).tofile(tmp/f'{split}.offsets')
            np.tile(rows.n_a, times).tofile(tmp/f'{split}.n_a')
            header['report'][split] = {k:v*times for k,v in header['report'][split].items()}
        shutil.copy(once.path/'unigram', tmp/'unigram')
        (tmp/'header.json').write_text(json.dumps(header))
    return write

def start(corpus, home):
    "Seconds from the start of a process to its first batch, and the step at which it goes on."
    began = time.time()
    p = subprocess.run([sys.executable, '-c', child, str(began), str(corpus), str(home)], capture_output=True, text=True)
    found = [l.split()[1:] for l in p.stdout.splitlines() if l.startswith('seconds')]
    if not found: raise RuntimeError(p.stderr[-2000:])
    imported,first,cpu,done = map(float, found[0])
    return dict(step=int(done), imports=round(imported, 1), to_first_batch=round(first, 1), cpu_seconds=round(cpu, 1))

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('text','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--times', type=int, default=150)
    ask.add_argument('--home', type=Path, required=True)
    args = ask.parse_args()
    args.home.mkdir(parents=True, exist_ok=True)
    os.environ['ELECTRA_NB_CACHE'] = str(args.home/'cache')
    recipe = make_recipe('tiny')
    tok,train,valid,_ = prepare(get_corpus(str(args.text)), None, recipe.vocab, recipe.packing, recipe.model.max_positions)
    tok.save_pretrained(args.home/'tokenizer')
    path = args.home/'long.txt'
    repeat(path, args.text.read_bytes().rstrip(b'\n')+b'\n\n', args.times)
    time.sleep(3) # a file that has just been written is hashed again
    corpus = get_corpus(str(path))
    tok = prepare(get_corpus(str(args.text)), str(args.home/'tokenizer'), recipe.vocab, recipe.packing, recipe.model.max_positions)[0]
    folder = examples_folder(corpus.fingerprint, tok, recipe.packing)
    folder.parent.mkdir(parents=True, exist_ok=True)
    atomic_folder(folder, repeat_rows(train, args.times, corpus.fingerprint))
    shutil.rmtree(args.home/'cache'/'hashes')
    starts = [start(path, args.home) for _ in range(3)]
    record = dict(what='seconds from the start of a process to its first batch', text_bytes=path.stat().st_size,
        rows_bytes=sum(p.stat().st_size for p in folder.iterdir()), rows=len(Examples(folder)), starts=starts, size='tiny', commit=commit(),
        date=time.strftime('%Y-%m-%d'), device='2 CPU cores (shared), one thread', load=round(os.getloadavg()[0], 1), versions=versions())
    atomic_file(args.out, json.dumps(record, indent=1)+'\n')
    print(json.dumps(record))
