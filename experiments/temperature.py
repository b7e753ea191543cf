"""Does a temperature of the dev rows make probabilities mean something on other rows? One line of JSON a fine-tuning.

    python temperature.py RUN SENTENCES GLUE OUT --seeds 0 1 2

The same encoder, tasks and training rows as in epochs.py; 200 dev rows choose the temperature, 2,000 others are scored before and
after it. Lines that OUT has already are left out.
"""
import argparse, json, torch
import numpy as np
from dataclasses import replace
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder, restart_layers
from electra_nb.glue.learner import calibrate, dev_predictions, finetune_config, fit_task, task_features, task_learner
from electra_nb.glue.loading import load_files
from epochs import some_rows
from paper_tables import add_line, sentence_task
from pathlib import Path
import electra_nb.lab.register, electra_nb.lab.kinds # as `finetune` has them

def with_dev(task, n, n_dev=200):
    "The rows of epochs.py, whose scored ones are 'test' here; 'dev' has others, the next of the fixed order."
    rows,chosen = task.splits['train'],some_rows(task, n)
    order = np.random.default_rng(7).permutation(len(rows))
    dev = rows.take(np.isin(np.arange(len(rows)), order[n:n+n_dev]))
    return replace(chosen, splits=dict(train=chosen.splits['train'], dev=dev, test=chosen.splits['dev']))

def measure(learn, feats):
    "Loss, calibration error in ten bins, and the surest answers of a model."
    probs,pred = map(np.asarray, dev_predictions(learn, feats))
    labels = np.asarray(feats.rows.labels)
    right,top = pred==labels,probs.max(1)
    bins = np.digitize(top, np.linspace(0, 1, 11)[1:-1])
    error = sum(abs(right[bins==b].mean()-top[bins==b].mean())*(bins==b).mean() for b in set(bins))
    sure = top>.99
    wrong = round(float((~right)[sure].mean()), 4) if sure.any() else None
    loss = -np.log(probs[np.arange(len(labels)),labels].clip(1e-9)).mean()
    return dict(accuracy=round(100*float(right.mean()), 2), nll=round(float(loss), 4), error=round(float(error), 4),
        sure=round(float(sure.mean()), 4), wrong_of_sure=wrong)

def score(run, data, seed):
    "Ten passes with the usual settings, before and after its temperature."
    torch.manual_seed(seed)
    cfg = finetune_config(load_encoder(run).config, 'classify', epochs=10., threads=1, calibrate=False)
    encoder,tok = restart_layers(load_encoder(run, cfg.dropout, cfg.attention_dropout), run, cfg.reinit_layers),encoder_tokenizer(run)
    feats = task_features(data, tok, cfg, ['train','dev','test'])
    learn = task_learner(data, feats, encoder, cfg, seed)
    fit_task(learn, cfg)
    before = measure(learn, feats['test'])
    t = calibrate(learn)
    return dict(temperature=round(t, 3), before=before, after=measure(learn, feats['test']))

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('run','sentences','glue','out'): ask.add_argument(word)
    ask.add_argument('--rows', nargs='+', type=int, default=[200,1000,2000])
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2])
    a = ask.parse_args()
    torch.set_num_threads(1)
    out = Path(a.out)
    done = [json.loads(l) for l in out.read_text().splitlines()] if out.exists() else []
    for seed in a.seeds:
        for n in a.rows:
            for task in (*(sentence_task(a.sentences, k) for k in ('MR','SUBJ')),load_files('sst2', a.glue)):
                data,line = with_dev(task, n),dict(task=f'{task.name}_{n}', seed=seed)
                if not any(line.items()<=r.items() for r in done): add_line(out, dict(line, **score(a.run, data, seed)))
