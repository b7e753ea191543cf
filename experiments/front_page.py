"""Every figure of the front page, measured anew by one command.

    python front_page.py RESULTS --home FOLDER --data DATA

RESULTS: the files that the README and its tests read, written over as they come. DATA as for one_hour.py. What FOLDER has already
is kept, so the same command goes on where it was stopped. Two hours on one core. With `--hour`, it first trains `hour` three times, one
after the other, in bf16 where the processor has it: four to five hours more. FOLDER also gets what a processor with bf16 makes of the
step (cpu_bf16.json); in RESULTS this file has several processors. The picture of one sentence is drawn by its page.
"""
import argparse, json, subprocess, sys
from electra_nb.core.files import atomic_file
from electra_nb.training.device import cpu_has_bf16
from pathlib import Path

here = Path(__file__).parent
built_in = [f'word_order_{n}' for n in (100,300,1000)]+[f'library_{n}' for n in (100,300,600)] # of rivals.py

def run(script, *args):
    "Run a script of this folder."
    print(script, *args, flush=True)
    subprocess.run([sys.executable, here/script, *map(str, args)], check=True)

def merge_lines(new, into, key):
    "Put the lines of a ledger in place of those with the same key."
    old,lines = ([json.loads(l) for l in f.read_text().splitlines()] for f in (into,new))
    fresh = {key(r):r for r in lines}
    kept = [fresh.pop(key(r), r) for r in old]
    atomic_file(into, ''.join(json.dumps(r)+'\n' for r in [*kept,*fresh.values()]))

def merge_steps(new, into):
    "Put steps measured anew beside the other parts of a record; what was measured on a busy machine is left aside."
    found = json.loads(new.read_text())
    if found['step']['refused']: print(f"{into} keeps its figures: {found['step']['refused']}")
    else:
        kept = json.loads(into.read_text())
        atomic_file(into, json.dumps({**kept, **found, 'step':{**kept['step'], **found['step']}}, indent=1)+'\n')

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ask.add_argument('results', type=Path)
    ask.add_argument('--home', type=Path, required=True, help='folder for runs and scores')
    ask.add_argument('--data', type=Path, required=True, help='folder with corpus/, grammar/, glue/ and sentences/')
    ask.add_argument('--hour', action='store_true', help='train for an hour too, with three seeds')
    a = ask.parse_args()
    bf16 = cpu_has_bf16()
    if a.hour:
        run('one_hour.py', a.data, a.home/'hour', '--pairs', 300, '--threads', 1, '--precision', 'bf16' if bf16 else 'fp32')
        kept = a.results/'one_hour.json'
        found = dict(json.loads(kept.read_text()), **{'three seeds':json.loads((a.home/'hour/one_hour.json').read_text())})
        atomic_file(kept, json.dumps(found, indent=1)+'\n')
    run('first_minutes.py', a.results, '--home', a.home)
    run('synthetic_errors.py', a.results, '--run', a.home/'seed-0')
    run('rivals.py', a.data, a.home/'rivals', '--tasks', *built_in)
    merge_lines(a.home/'rivals/rivals.jsonl', a.results/'rivals.jsonl', lambda r: (r['task'],r['rival']))
    run('ngram_pairs.py', a.data, a.home/'ngrams')
    atomic_file(a.results/'ngram_pairs.json', (a.home/'ngrams/ngram_pairs.json').read_text())
    subprocess.run(['electra_bench', '--out', str(a.home/'bench.json')], check=True)
    merge_steps(a.home/'bench.json', a.results/'bench.json')
    if bf16: run('cpu_bf16.py', next((a.data/'corpus').rglob('*.txt*')), a.data/'glue', a.home/'cpu_bf16.json', '--home', a.home/'bf16')
