"""Learning rate, pooling and layers to begin anew, found for a run by fine-tuning it: one line of JSON a fine-tuning.

    python finetuning_settings.py RUN TAGGING SENTENCES OUT --reinit 0 1 3 --rates 2e-4 5e-4 1e-3 --seeds 0 1

TAGGING and SENTENCES: as in recipe_trials.py. The rows are other ones than those of any table: from the 4,000th
training row on. Lines that OUT has already are left out, so the same command goes on where it was stopped.
"""
import argparse, json, torch
import numpy as np
from dataclasses import replace
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder, restart_layers
from electra_nb.lab.kinds import kind_of
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, task_features, task_learner
from electra_nb.glue.loading import load_files
from electra_nb.training.folder import versions
from paper_tables import add_line, sentence_task
from pathlib import Path

def later_rows(data, n_train, n_dev=1000, begin=4000):
    "A task with training rows from `begin` on, `n_train` of them, and the rows behind 2,000 of them to be scored on."
    rows = data.splits['train']
    at = np.arange(len(rows))
    def part(a, n): return rows.take((at>=a) & (at<a+n))
    return replace(data, name=f'{data.name}_{n_train}', splits=dict(train=part(begin, n_train), dev=part(begin+2000, n_dev)))

def score(run, data, epochs, seed, reinit, **options):
    "What a fine-tuning of a run scores, in percent."
    torch.manual_seed(seed)
    encoder,tok = restart_layers(load_encoder(run), run, reinit),encoder_tokenizer(run)
    max_len = min(data.task.max_len, encoder.config.max_position_embeddings)
    cfg = finetune_config(encoder.config, data.task.kind, epochs=epochs, max_len=max_len, reinit_layers=0, threads=1,
        **(options if data.task.kind=='classify' else dict(options, tag_head='linear')))
    feats = task_features(data, tok, cfg)
    learn = task_learner(data, feats, encoder, cfg, seed)
    fit_task(learn, cfg)
    found = kind_of(data.task).score(data.splits['dev'], dev_predictions(learn)[1])
    return round(next(iter(found.values())), 2)

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('run','tagging','sentences','out'): ask.add_argument(word)
    ask.add_argument('--reinit', nargs='+', type=int, default=[0,1,3])
    ask.add_argument('--rates', nargs='+', type=float, default=[2e-4,5e-4,1e-3])
    ask.add_argument('--poolings', nargs='+', default=['mean'])
    ask.add_argument('--seeds', nargs='+', type=int, default=[0])
    ask.add_argument('--tasks', nargs='+', default=None)
    a = ask.parse_args()
    torch.set_num_threads(1)
    out,size = Path(a.out),json.loads((Path(a.run)/'recipe.json').read_text())['recipe']
    about = {k:size[k] for k in ('n_layers','hidden_size','max_len','steps','lr')}
    tasks = [load_files('chunk', a.tagging),*(sentence_task(a.sentences, k) for k in ('MR','SUBJ'))]
    tasks = [(later_rows(t, n), epochs) for t in tasks for n,epochs in ((200,30.),(2000,5.))]
    done = [json.loads(l) for l in out.read_text().splitlines()] if out.exists() else []
    asked = [(seed,data,epochs,reinit,lr,pooling) for seed in a.seeds for data,epochs in tasks for reinit in a.reinit for lr in a.rates
        for pooling in (['-'] if data.task.kind=='tag' else a.poolings)]
    for seed,data,epochs,reinit,lr,pooling in asked:
        line = dict(run=about, task=data.name, seed=seed, reinit_layers=reinit, rate=lr, pooling=pooling)
        if a.tasks and data.name not in a.tasks or any(line.items()<=r.items() for r in done): continue
        own = {} if pooling=='-' else dict(pooling=pooling)
        found = score(a.run, data, epochs, seed, reinit, lr=lr, layer_decay=1., **own)
        add_line(out, dict(line, score=found, versions=versions()))
