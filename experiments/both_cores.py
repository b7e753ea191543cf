"""A training on both cores of a machine: one thread, two threads, or two processes started by torchrun.

    python both_cores.py TEXT OUT --home FOLDER

TEXT: a text file. Each run is a command of its own, and the variants take turns. OUT gets the tokens a second of each run,
the median of the lines of its log but the first; what else it has stays.
"""
import argparse, json, os, shutil, subprocess, sys
from datetime import date
from electra_nb.lab.bench.measure import commit
from electra_nb.core.files import atomic_file
from electra_nb.training.folder import versions
from pathlib import Path
from statistics import median

steps = dict(tiny=1200, hour=240)
command = [sys.executable,'-c','from electra_nb.lab.register import cli; cli()']
variants = { # name -> how it is started, and its threads
    'one thread':([],1), 'two threads':([],2),
    'two processes':([sys.executable,'-m','torch.distributed.run','--standalone','--nproc-per-node','2','--no-python'],2)}

def speed(size, variant, text, home):
    "Tokens a second of one run."
    launcher,threads = variants[variant]
    run = home/f'{size}-{variant}'.replace(' ', '-')
    shutil.rmtree(run, ignore_errors=True)
    options = dict(corpus=text, out=run, cache=home/'cache', steps=steps[size], eval_every=steps[size]//2, log_every=30, threads=threads)
    given = [f'--{k}={v}' for k,v in options.items()]
    env = {**os.environ, 'OMP_NUM_THREADS':str(threads if not launcher else 1)}
    subprocess.run([*launcher,*command,size,*given], check=True, env=env, stdout=subprocess.DEVNULL)
    lines = [json.loads(l) for l in (run/'log.jsonl').read_text().splitlines()]
    return median([l['tokens_per_s'] for l in lines if 'tokens_per_s' in l][1:])

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ask.add_argument('text')
    ask.add_argument('out', type=Path)
    ask.add_argument('--home', type=Path, default=Path('both_cores_runs'), help='folder for runs under way')
    ask.add_argument('--rounds', type=int, default=3)
    a = ask.parse_args()
    found = {size:{v:[] for v in variants} for size in steps}
    for size in steps:
        for _ in range(a.rounds):
            for v,speeds in found[size].items(): speeds.append(speed(size, v, a.text, a.home))
    before = json.loads(a.out.read_text()) if a.out.exists() else {}
    about = dict(what='A training on two cores of a CPU: one thread, two threads, two processes by torchrun. Tokens a second of each run, '
        'the median of the lines of its log but the first.', commit=commit(), date=str(date.today()), device='2 CPU cores, nothing else running',
        versions=versions(), steps=steps)
    atomic_file(a.out, json.dumps({**before, **about, 'tokens_per_second':found}, indent=1)+'\n')
