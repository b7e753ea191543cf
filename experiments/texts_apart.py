"""What does it bring to encode the two texts of a pair apart? Fine-tunings of a run and of a random start, one line of JSON each.

    python texts_apart.py RUN GLUE OUT --tasks stsb mrpc rte mnli --seeds 0 1 2 --set epochs=3

GLUE has STS-B/, MRPC/, RTE/ and MNLI/ (train_subset.tsv: 9,888 rows). Heads: `together` is the paper's, `apart` that of
`pair_head='apart'`, and `shares` is `apart` without the vectors of the encoder, so that only what the texts share is learned
(from one start, since the encoder has no say). Lines that OUT has already are left out.
"""
import argparse, json, subprocess, time, torch
import electra_nb.lab.register, electra_nb.lab.kinds # as `finetune` has them
from datetime import datetime, timezone
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder, random_encoder, restart_layers
from electra_nb.glue.kinds import kind_of
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, task_features, task_learner
from electra_nb.glue.loading import load_files
from electra_nb.training.folder import versions
from functools import cache
from paper_tables import add_line
from pathlib import Path
from wide_tagger import number

files = dict(mnli=dict(train='train_subset.tsv'))

@cache
def task(glue, name): return load_files(name, str(glue), files.get(name, {}))

@cache
def features(run, glue, name, cfg): return task_features(task(glue, name), encoder_tokenizer(run), cfg)

def tune(run, glue, name, start, head, seed, **options):
    "The scores of a fine-tuning, and its seconds."
    data,began = task(glue, name),time.process_time()
    cfg = finetune_config(load_encoder(run).config, threads=1, pair_head='together' if head=='together' else 'apart', **options)
    feats = features(run, glue, name, cfg)
    torch.manual_seed(seed)
    encoder = random_encoder(run) if start=='random' else restart_layers(load_encoder(run), run, cfg.reinit_layers)
    learn = task_learner(data, feats, encoder, cfg, seed)
    if head=='shares':
        learn.model.requires_grad_(False)
        learn.model.head.vectors.weight.zero_()
        for p in (learn.model.head.vectors.bias,learn.model.head.shares.weight): p.requires_grad_(True)
    fitted = fit_task(learn, cfg)
    scores = kind_of(data.task).score(data.splits['dev'], dev_predictions(learn)[1])
    n = {s:len(data.splits[s]) for s in ('train','dev')}
    took = dict(steps=fitted['steps'], train_seconds=fitted['seconds'], cpu_seconds=round(time.process_time()-began, 1))
    return dict({k:round(v, 2) for k,v in scores.items()}, n=n, **took)

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('run','glue','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--tasks', nargs='+', default=['stsb','mrpc','rte','mnli'])
    ask.add_argument('--starts', nargs='+', default=['tiny','random'])
    ask.add_argument('--heads', nargs='+', default=['apart','shares','together'])
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2])
    ask.add_argument('--set', nargs='*', type=number, default=[], help='settings of finetune, such as epochs=3')
    a = ask.parse_args()
    torch.set_num_threads(1)
    done = [json.loads(l) for l in a.out.read_text().splitlines()] if a.out.exists() else []
    commit = subprocess.check_output(['git','rev-parse','HEAD'], text=True, cwd=Path(__file__).parent).strip()
    for seed in a.seeds:
        for name in a.tasks:
            for head in a.heads:
                for start in a.starts[:1] if head=='shares' else a.starts:
                    line = dict(task=name, start=start, head=head, seed=seed, options=dict(a.set))
                    if any(line.items()<=r.items() for r in done): continue
                    now = datetime.now(timezone.utc).strftime('%Y-%m-%d %H:%M')
                    found = tune(a.run, a.glue, name, start, head, seed, **dict(a.set))
                    add_line(a.out, dict(line, **found, commit=commit, date=now, versions=versions()))
