"""What is a pre-trained encoder worth? Real tasks, each with several seeds, beside as many random starts.

    python does_pretraining_help.py DATA OUT --runs tiny=RUN hour=RUN --tasks mr subj sst2 …

DATA has glue/, sentences/{MR,SUBJ}/{train,test}.tsv and tagging/chunk/. Every task is fine-tuned as `finetune` does it by
itself. OUT/finetuning.jsonl gets a line for each run and task; those that it has already are left out, and a study that
was stopped goes on, so the same command may be given again, or others beside it.
"""
import argparse, json, pandas as pd
from datetime import date
from electra_nb import finetune
from electra_nb.training.folder import versions
from pathlib import Path
from tags_and_questions import record

n_sst2 = 10_000 # training rows, the first of the file
glue = {name:name for name in ('cola','mrpc','rte','stsb')} | dict(sst2='sst2:train=train_10k.tsv', mnli='mnli:train=train_subset.tsv')

def sentence_rows(data, name): return (pd.read_csv(data/f'sentences/{name}/{s}.tsv', sep='\t', quoting=3) for s in ('train','test'))

def glue_folder(data, out):
    "GLUE's folder, with a file of the first rows of SST-2."
    folder = out/'glue'
    if folder.exists(): return folder
    folder.mkdir(parents=True)
    for task in (data/'glue').iterdir():
        if task.name!='SST-2': (folder/task.name).symlink_to(task.resolve())
    (folder/'SST-2').mkdir()
    for f in (data/'glue/SST-2').iterdir(): (folder/'SST-2'/f.name).symlink_to(f.resolve())
    rows = pd.read_csv(next((data/'glue/SST-2').glob('train.tsv*')), sep='\t', quoting=3, nrows=n_sst2)
    rows.to_csv(folder/'SST-2/train_10k.tsv', sep='\t', index=False, quoting=3)
    return folder

def what(task, data, out):
    "What `finetune` is told of a task."
    if task in ('mr','subj'):
        rows,test = sentence_rows(data, task.upper())
        return dict(data=rows, dev=test, text='text', label='label')
    if task=='chunk': return dict(tasks='chunk', glue_dir=str(data/'tagging'), tag_head='linear')
    return dict(tasks=glue[task], glue_dir=str(glue_folder(data, out)), pair_head='together')

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('data','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--runs', nargs='+', required=True, help='NAME=RUN, a run folder')
    ask.add_argument('--tasks', nargs='+', default=['mr','subj','chunk',*glue], choices=['mr','subj','chunk',*glue])
    ask.add_argument('--seeds', type=int, default=5)
    ask.add_argument('--lr', type=float, help='peak rate; that of the size if it is left out')
    a = ask.parse_args()
    path = a.out/'finetuning.jsonl'
    a.out.mkdir(parents=True, exist_ok=True)
    for name,run in (o.split('=', 1) for o in a.runs):
        for task in a.tasks:
            done = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
            if (name,task,a.lr) in {(d['run'],d['task'],d['lr']) for d in done}: continue
            out = a.out/'studies'/name/(task if a.lr is None else f'{task}-{a.lr:g}')
            study = finetune(run, runs=a.seeds, baseline=True, out=str(out), lr=a.lr, **what(task, a.data, a.out))
            about = dict(run=name, task=task, lr=a.lr, date=str(date.today()), recipe=json.loads((Path(run)/'recipe.json').read_text()), versions=versions())
            with path.open('a') as f: f.write(json.dumps(dict(about, **record(study)))+'\n')
            print(name, task, 'done', flush=True)
