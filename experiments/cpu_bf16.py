"""Mixed precision on a CPU: training with numbers of 32 bits and with bf16 products, in turns, each run a process with one thread.

    python cpu_bf16.py TEXT GLUE OUT --home FOLDER

TEXT: a text file. GLUE: a folder with CoLA/ in its original layout. The processor must have instructions for bf16. OUT gets
the tokens a second of each pre-training (the median of the lines of its log but the first), the seconds a step of each
fine-tuning, and the milliseconds of one product of matrices. Runs that OUT has already are left out.
"""
import argparse, json, os, shutil, subprocess, sys, time, torch
from datetime import date
from electra_nb.lab.bench.measure import commit, machine
from electra_nb.core.files import atomic_file
from electra_nb.training.folder import versions
from electra_nb.training.device import cpu_has_bf16
from pathlib import Path
from statistics import median
from torch import nn

sizes = { # options of the pre-training, epochs of the fine-tuning
    'tiny':(dict(steps=600), .5), 'hour':(dict(steps=240), .5), 'small':(dict(steps=32, bs=16, warmup=8), .2)}
precisions = 'fp32','bf16'

def call(code):
    "Run Python code in a process of its own."
    env = {**os.environ, 'OMP_NUM_THREADS':'1', 'TQDM_DISABLE':'1'}
    subprocess.run([sys.executable,'-c',code], check=True, env=env, stdout=subprocess.DEVNULL)

def pretraining(a, size, precision):
    "Real tokens a second."
    run,options = a.home/f'{size}-{precision}',sizes[size][0]
    shutil.rmtree(run, ignore_errors=True)
    n = options['steps']
    given = dict(corpus=a.text, out=str(run), cache=str(a.home/'cache'), eval_every=n, log_every=n//8, threads=1, precision=precision, **options)
    call(f'from electra_nb import pretrain; pretrain({size!r}, **{given!r})')
    lines = [json.loads(l) for l in (run/'log.jsonl').read_text().splitlines()]
    return median([l['tokens_per_s'] for l in lines if 'tokens_per_s' in l][1:])

def finetuning(a, size, precision):
    "Seconds a step, on CoLA."
    out = a.home/f'study-{size}-{precision}'
    shutil.rmtree(out, ignore_errors=True)
    given = dict(runs=1, glue_dir=a.glue, out=str(out), baseline=False, threads=1, epochs=sizes[size][1], precision=precision)
    call(f"from electra_nb import finetune; finetune({str(a.home/f'{size}-fp32')!r}, 'cola', **{given!r})")
    line = json.loads((out/'results.jsonl').read_text().splitlines()[-1])
    return line['seconds']/line['steps']

def product_ms(n=200):
    "The first product of the feed-forward part of size `hour`, 1,024 tokens: by MKL, by oneDNN, and by oneDNN with bf16."
    torch.set_num_threads(1)
    x,w = torch.randn(1024, 128),torch.randn(512, 128)
    half = x.bfloat16(),w.bfloat16()
    ways = {'MKL, 32 bits':lambda: nn.functional.linear(x, w), 'bf16':lambda: nn.functional.linear(*half),
        'oneDNN, 32 bits':lambda: torch.ops.mkldnn._linear_pointwise(x, w, None, 'none', [], '')}
    took = {k:[] for k in ways}
    for _ in range(n):
        for k,f in ways.items():
            start = time.perf_counter()
            f()
            took[k].append(1e3*(time.perf_counter()-start))
    return {k:round(median(v), 4) for k,v in took.items()}

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ask.add_argument('text')
    ask.add_argument('glue')
    ask.add_argument('out', type=Path)
    ask.add_argument('--home', type=Path, default=Path('cpu_bf16_runs'), help='folder for runs under way')
    ask.add_argument('--rounds', type=int, default=3)
    a = ask.parse_args()
    if not cpu_has_bf16(): sys.exit('this processor has no instructions for bf16')
    about = dict(what=__doc__.split('\n')[0], commit=commit(), date=str(date.today()), machine=machine(), versions=versions(),
        options={k:v[0] for k,v in sizes.items()}, product_ms=product_ms())
    res = json.loads(a.out.read_text()) if a.out.exists() else about
    for what,measure in dict(tokens_per_second=pretraining, seconds_per_finetuning_step=finetuning).items():
        for i in range(a.rounds):
            for size in sizes:
                for precision in precisions:
                    found = res.setdefault(what, {}).setdefault(size, {}).setdefault(precision, [])
                    if len(found)>i: continue
                    found.append(round(measure(a, size, precision), 5))
                    atomic_file(a.out, json.dumps(res, indent=1)+'\n')
                    print(what, size, precision, found[-1], flush=True)
