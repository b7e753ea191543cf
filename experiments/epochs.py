"""How many passes over a few labelled rows are best for the encoder of a run? One line of JSON a fine-tuning.

    python epochs.py RUN SENTENCES GLUE OUT --seeds 0 1 2

SENTENCES: as in recipe_trials.py; GLUE: its folder. 200, 1,000 and 2,000 training rows of a fixed random order, scored on 2,000
others. Beside the accuracy: the loss, the share of answers above .99, and how many of these are wrong. Lines that OUT has
already are left out, so the same command goes on where it was stopped.
"""
import argparse, json, torch
import numpy as np
from dataclasses import replace
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder, restart_layers
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, task_features, task_learner
from electra_nb.glue.loading import load_files
from paper_tables import add_line, sentence_task
from pathlib import Path
import electra_nb.lab.register, electra_nb.lab.kinds # as `finetune` has them

def some_rows(data, n, n_dev=2000):
    "A task with `n` training rows of a fixed random order, and the last `n_dev` of that order to be scored on."
    rows = data.splits['train']
    order = np.random.default_rng(7).permutation(len(rows))
    def part(at): return rows.take(np.isin(np.arange(len(rows)), at))
    return replace(data, name=f'{data.name}_{n}', splits=dict(train=part(order[:n]), dev=part(order[-n_dev:])))

def score(run, data, epochs, seed):
    "What a fine-tuning with the usual settings gives after so many passes."
    torch.manual_seed(seed)
    cfg = finetune_config(load_encoder(run).config, 'classify', epochs=epochs, threads=1)
    encoder,tok = restart_layers(load_encoder(run, cfg.dropout, cfg.attention_dropout), run, cfg.reinit_layers),encoder_tokenizer(run)
    learn = task_learner(data, task_features(data, tok, cfg), encoder, cfg, seed)
    fit_task(learn, cfg)
    probs,pred = map(np.asarray, dev_predictions(learn))
    labels = np.asarray(data.splits['dev'].labels)
    right,sure = pred==labels,probs.max(1)>.99
    loss = -np.log(probs[np.arange(len(labels)),labels].clip(1e-9)).mean()
    wrong = round(float((~right)[sure].mean()), 4) if sure.any() else None
    return dict(accuracy=round(100*float(right.mean()), 2), nll=round(float(loss), 4), sure=round(float(sure.mean()), 4), wrong_of_sure=wrong)

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('run','sentences','glue','out'): ask.add_argument(word)
    ask.add_argument('--rows', nargs='+', type=int, default=[200,1000,2000])
    ask.add_argument('--epochs', nargs='+', type=float, default=[2,4,6,10,16])
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2])
    a = ask.parse_args()
    torch.set_num_threads(1)
    out = Path(a.out)
    done = [json.loads(l) for l in out.read_text().splitlines()] if out.exists() else []
    tasks = [*(sentence_task(a.sentences, k) for k in ('MR','SUBJ')),load_files('sst2', a.glue)]
    for seed in a.seeds:
        for data in (some_rows(t, n) for n in a.rows for t in tasks):
            for epochs in a.epochs:
                line = dict(task=data.name, seed=seed, epochs=epochs)
                if not any(line.items()<=r.items() for r in done): add_line(out, dict(line, **score(a.run, data, epochs, seed)))
