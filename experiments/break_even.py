"""How many minutes of pre-training does an encoder need to pass a method without one, and at how many labels?

    python break_even.py DATA OUT --seeds 0 1 2

DATA has sentences/, tagging/ and corpus/wikipedia-en/. `tiny` is pre-trained on the first 20 MB of Wikipedia for so many
steps as STEPS says, a run for each number and seed; then it is fine-tuned on the first rows of four tasks, with the defaults
of `finetune` and the seed of the run. 0 steps are a random start. Rivals get the same rows, and clusters from the same text.
OUT/break_even.jsonl gets a line a task, number of rows, steps and seed, and a line a rival; what it has already is left out.
"""
import argparse, json, lzma, numpy as np, time, torch
import electra_nb.lab.register, electra_nb.lab.kinds # as `finetune` has them
from electra_nb import pretrain
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder, random_encoder, restart_layers
from electra_nb.glue.kinds import kind_of
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, task_features, task_learner
from electra_nb.lab.own_data.builtin import word_order_task
from electra_nb.lab.own_data.data import own_data
from electra_nb.lab.rivals.beside import rivals, rivals_of
from electra_nb.lab.tags.wide import train_crfs
from electra_nb.training.folder import versions
from does_pretraining_help import sentence_rows
from functools import cache
from paper_tables import add_line, bits
from pathlib import Path
from recipe_trials import documents, few
from rivals import clusters_in, text_for, wikipedia
from wide_tagger import task as tag_rows

steps = 475,950,1900,3800,7600,15200 # of `tiny`, whose own number is 3800
labels = dict(chunk=(100,200,1000), pos=(100,200,1000), subj=(50,200,1000), order=(50,200,1000))

def text(data, out):
    "The first 20 MB of Wikipedia."
    path = out/'wikipedia.txt'
    if not path.exists(): path.write_text(lzma.open(data/'corpus/wikipedia-en/wiki-000.txt.xz', 'rt', encoding='utf-8').read(20_000_000))
    return path

@cache
def rows(data, task, n):
    "A task with so many training rows."
    if task in ('chunk','pos'): return tag_rows(data/'tagging', f'{task}_{n}', 'test', min(labels[task]))
    if task=='order': return few(word_order_task(documents(data/'corpus/wikipedia-en/wiki-000.txt.xz', 20_000_000, 26_000_000)), n)
    train,test = sentence_rows(data, 'SUBJ')
    return own_data(train[:n], dev=test, text='text', label='label', name=f'{task}_{n}')

def run(data, out, n, seed):
    "The folder of a run, and the CPU-seconds of its training."
    where = out/f'runs/{n}-{seed}'
    if not (where/'cpu_seconds').exists():
        began = time.process_time()
        pretrain(corpus=str(text(data, out)), out=str(where), steps=n, seed=seed, threads=1, probe=False, cache=str(out/'cache'))
        (where/'cpu_seconds').write_text(f'{time.process_time()-began:.1f}')
    return where,float((where/'cpu_seconds').read_text())

def result(data, pred, last=()):
    "The score, and for texts which rows were right."
    dev = data.splits['dev']
    metric,score = next(iter(kind_of(data.task).score(dev, pred).items()))
    right = dict(right=bits(np.asarray(pred)==dev.labels)) if data.task.kind=='classify' else {}
    return dict(metric=metric, score=round(float(score), 3), n_dev=len(dev), **right, **dict(last))

counted = {}

def count(data, task, labels, found, train):
    "What the head of a tagger begins with: the same for all encoders, since they have the same text and so the same tokenizer."
    if (task,labels) not in counted:
        names,clusters = found.task.labels,clusters_in(wikipedia(data), train.words)
        counted[task,labels] = train_crfs(train.words, [[names[t] for t in ts] for ts in train.targets], names, clusters)
    train.counted = counted[task,labels]

def tune(data, task, labels, where, n, seed):
    found,encoder = rows(data, task, labels),load_encoder(where) if n else random_encoder(where)
    cfg = finetune_config(encoder.config, found.task.kind, threads=1)
    encoder = restart_layers(encoder, where, cfg.reinit_layers) if n else encoder
    feats = task_features(found, encoder_tokenizer(where), cfg)
    if found.task.kind=='tag': count(data, task, labels, found, feats['train'])
    learn = task_learner(found, feats, encoder, cfg, seed)
    fit_task(learn, cfg)
    return result(found, dev_predictions(learn)[1])

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('data','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2])
    a = ask.parse_args()
    torch.set_num_threads(1)
    a.out.mkdir(parents=True, exist_ok=True)
    path = a.out/'break_even.jsonl'
    done = [json.loads(l) for l in path.read_text().splitlines()] if path.exists() else []
    def missing(**line): return not any(line.items()<=r.items() for r in done)
    for task,n in ((t,n) for t,ns in labels.items() for n in ns):
        found = rows(a.data, task, n)
        for rival in rivals_of(found.task):
            line = dict(task=task, labels=n, rival=rival)
            if not missing(**line): continue
            answer = rivals[rival].fit(kind_of(found.task), found.splits['train'], text_for('wikipedia', a.data))
            add_line(path, dict(line, **result(found, kind_of(found.task).to_labels(answer(found.splits['dev']))), versions=versions()))
    for seed in a.seeds:
        for k in (3800,0,950,15200,1900,475,7600):
            where,seconds = run(a.data, a.out, k or steps[0], seed)
            for task,n in ((t,n) for t,ns in labels.items() for n in ns):
                line = dict(task=task, labels=n, steps=k, seed=seed)
                if missing(**line): add_line(path, dict(line, **tune(a.data, task, n, where, k, seed), pretrain_seconds=seconds if k else 0, versions=versions()))
