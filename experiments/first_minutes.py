"""What `pretrain()` gives after its first minutes: the figures of every seed, and fine-tuning on the built-in tasks.

    python first_minutes.py RESULTS --home FOLDER

Writes tiny.json, tiny_log.jsonl, tiny_data.json (both of the first seed), order_pairs.json and first_minutes.json into RESULTS. Runs and
scores that FOLDER has already are kept, so the same command goes on where it was stopped.
"""
import argparse, json, resource, shutil, subprocess, sys, time, torch
import numpy as np
from dataclasses import replace
from datetime import date
from electra_nb import evaluate_pairs
from electra_nb.lab.bench.measure import commit, machine
from electra_nb.core.files import atomic_file
from electra_nb.lab.own_data.builtin import library_task, word_order_task
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder, random_encoder
from electra_nb.glue.learner import FinetuneConfig, dev_predictions, fit_task, task_features, task_learner
from electra_nb.lab.texts.counted import TextConfig
from electra_nb.training.folder import versions
from paper_tables import add_line, last_evaluation
from pathlib import Path
from synthetic_errors import error_pairs, unread_sentences

epochs = {100:48., 300:16., 600:8., 1000:4.8} # training rows -> passes: 150 to 200 updates
rates = 5e-4,1e-3,2e-3
shown = ('mlm_loss','mlm_accuracy','mask_accuracy','sampled_accuracy','disc_loss','disc_floor','replaced','disc_auc','unigram_auc',
    'disc_accuracy','disc_precision','disc_recall','base_rate_recall','example_disc_loss','padded_disc_auc','pair_accuracy')

def train(seed, home):
    "`pretrain()` in a process of its own: its folder, minutes in all, and the most memory of such a process so far."
    out,kept,said = (home/f'seed-{seed}{end}' for end in ('','.json','.txt'))
    if not kept.exists():
        began = time.perf_counter()
        call = f'from electra_nb import pretrain; pretrain(seed={seed}, out={str(out)!r})'
        with said.open('w') as f: subprocess.run([sys.executable, '-c', call], stdout=f, stderr=subprocess.STDOUT, check=True)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss/1e6 # Linux counts in kB
        atomic_file(kept, json.dumps(dict(minutes=(time.perf_counter()-began)/60, peak=peak)))
    return out,json.loads(kept.read_text())

def guessing(said):
    "The share of the commonest token, from the row *guessing* of what a run printed."
    return float(next(l for l in said.read_text().splitlines() if l.split()[:1]==['guessing']).split()[1])

def figures(seed, run, took):
    "What a run ended with."
    last = last_evaluation(run)
    seconds = [l['seconds'] for l in map(json.loads, (run/'log.jsonl').read_text().splitlines()) if 'seconds' in l]
    minutes = dict(minutes_training=round(seconds[-1]/60, 2), minutes_in_all=round(took['minutes'], 2))
    return dict(seed=seed, steps=last['step'], **minutes, valid={k:round(last['valid'][k], 4) for k in shown})

def order_accuracy(run):
    "How often the discriminator prefers a held-out sentence to its copy with two neighbouring words swapped: %, pairs."
    pairs = [p for p in error_pairs(unread_sentences(run)) if p.phenomenon=='order']
    found = evaluate_pairs(run, pairs, 'discriminator', device='cpu').iloc[0]
    return round(float(found.accuracy), 1),int(found.pairs)

def first_rows(data, n):
    "A task with the first training rows of a fixed random order."
    train = data.splits['train']
    chosen = np.random.default_rng(0).permutation(len(train))[:n]
    return replace(data, splits={**data.splits, 'train':train.take(np.isin(np.arange(len(train)), chosen))})

def score(run, data, n, start, lr, seed):
    "Fine-tune one start with one rate."
    torch.manual_seed(seed)
    encoder = random_encoder(run) if start=='random' else load_encoder(run)
    cfg = FinetuneConfig(lr=lr, epochs=epochs[n], own=TextConfig(pooling='mean'))
    some = first_rows(data, n)
    learn = task_learner(some, task_features(some, encoder_tokenizer(run), cfg), encoder, cfg, seed)
    steps = fit_task(learn, cfg)['steps']
    right = dev_predictions(learn)[1]==some.splits['dev'].labels
    return dict(task=data.name, rows=n, start=start, lr=lr, seed=seed, accuracy=round(100*float(right.mean()), 3), steps=steps)

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ask.add_argument('results', type=Path)
    ask.add_argument('--home', type=Path, default=Path('first_minutes'), help='folder for runs and scores')
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2,3,4])
    ask.add_argument('--shown', type=int, default=3, help='seeds whose figures tiny.json has')
    a = ask.parse_args()
    torch.set_num_threads(1)
    a.home.mkdir(parents=True, exist_ok=True)
    runs = {seed:train(seed, a.home) for seed in a.seeds}
    first = runs[a.seeds[0]][0]
    facts = {f:json.loads((first/f).read_text()) for f in ('data.json','recipe.json')}
    here = machine()
    about = dict(commit=commit(), date=str(date.today()), processor=f"{here['processor']}, {here['instructions']}", versions=versions())
    tiny = dict(what='pretrain() with no argument but the seed', command='python -c "from electra_nb import pretrain; pretrain(seed=SEED)"',
        **about, device='2 CPU cores, one thread for training, no GPU', commonest_share=guessing(first.with_suffix('.txt')),
        peak_memory_gb=round(max(took['peak'] for _,took in runs.values()), 2),
        seeds=[figures(seed, *runs[seed]) for seed in a.seeds[:a.shown]], recipe=facts['recipe.json']['recipe'])
    atomic_file(a.results/'tiny.json', json.dumps(tiny, indent=1)+'\n')
    shutil.copy(first/'log.jsonl', a.results/'tiny_log.jsonl')
    atomic_file(a.results/'tiny_data.json', json.dumps(facts['data.json'])+'\n')
    order = [order_accuracy(run) for run,_ in runs.values()]
    swapped = dict(what='how often the discriminator of pretrain() prefers a held-out sentence to the same with two neighbouring words swapped, %',
        **about, device='CPU', seeds=a.seeds, pairs=[n for _,n in order], accuracy=[accuracy for accuracy,_ in order])
    atomic_file(a.results/'order_pairs.json', json.dumps(swapped, indent=1)+'\n')
    lines = a.home/'scores.jsonl'
    for data,sizes in ((word_order_task(),(100,300,1000)),(library_task(),(100,300,600))):
        asked = [(n, start, lr, seed) for n in sizes for start in ('pretrained','random') for lr in rates for seed in a.seeds]
        known = [json.loads(l) for l in lines.read_text().splitlines()] if lines.exists() else []
        done = {(r['task'],r['rows'],r['start'],r['lr'],r['seed']) for r in known}
        for case in asked:
            if (data.name,*case) not in done: add_line(lines, score(runs[case[-1]][0], data, *case))
    scores = [json.loads(l) for l in lines.read_text().splitlines()]
    study = dict(what=__doc__.split('\n')[0], how=f'150 to 200 updates of 32 rows with mean pooling; rates {rates}', **about, runs=scores)
    atomic_file(a.results/'first_minutes.json', json.dumps(study)+'\n')
