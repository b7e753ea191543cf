"""How fast fine-tuning is on rows of GLUE: `electra_nb` beside a plain script, with the shape of ELECTRA-Small.

    python finetuning_speed.py DATA OUT

DATA has glue/. `runs` of the JSON file OUT is measured anew, what else it has stays. Weights are random and the
vocabulary is made of the rows, since neither changes the time of a pass.
"""
import argparse, json, torch
import numpy as np
from bench_pages import run_page
from datetime import date
from electra_nb.lab.bench.measure import commit, machine
from electra_nb.core.files import atomic_file
from electra_nb.model.towers import ModelConfig, get_models
from electra_nb.glue.features import Features
from electra_nb.glue.loading import load_files
from electra_nb.text.tokenizer import wordpiece
from pathlib import Path

bench_finetuning = run_page('finetuning', '## Several runs', {})['bench_finetuning'] # a function of that page
n_rows = dict(cola=1024, rte=384, sst2=1024) # training rows, drawn at random

def one_task(name, folder):
    "One task, all variants in turn."
    data = load_files(name, str(folder))
    rows = data.splits['train']
    tok = wordpiece([*rows.text_a, *(rows.text_b or ())], 8000)
    def some(split, n):
        rows = data.splits[split]
        order = np.random.default_rng(42).permutation(len(rows))
        return Features(rows.take(np.isin(np.arange(len(rows)), order[:n])), tok, 128)
    feats = dict(train=some('train', n_rows[name]), dev=some('dev', 64))
    torch.manual_seed(42)
    return bench_finetuning(data, feats, get_models(ModelConfig(), len(tok))[1].electra, rounds=3)

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('data','out'): ask.add_argument(word, type=Path)
    a = ask.parse_args()
    torch.set_num_threads(1)
    found = json.loads(a.out.read_text()) if a.out.exists() else {}
    about = dict(what='one pass over some rows, ELECTRA-Small, random weights: electra_nb beside transformers.Trainer, '
        'processor seconds of one thread, variants in turn', commit=commit(), date=str(date.today()), machine=machine())
    found.pop('device', None)
    runs = [one_task(name, a.data/'glue') for name in n_rows]
    atomic_file(a.out, json.dumps({**found, **about, 'runs':runs}, indent=1))
