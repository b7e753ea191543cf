"""What does an encoder add to tf-idf? Both answers to each scored row are averaged as log-probabilities, with a weight on tf-idf's.

    python stacked.py RUN DATA OUT

RUN is a run folder; DATA has sentences/ and glue/, as for rivals.py. The fine-tunings have the default settings. OUT (.jsonl) gets a
line a task and seed: the score of the encoder alone, of tf-idf alone, and of both with each weight. The best weight is chosen on the
rows that are scored, so what it gains is an upper bound. Lines that OUT has already are left out.
"""
import argparse, json
import numpy as np
from datetime import date
from electra_nb.glue.classify import Classify
from electra_nb.lab.rivals.tfidf import fit_tfidf
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, task_features, task_learner
from paper_tables import add_line, versions
from pathlib import Path
from rivals import rows_of

weights = .25,.5,1.,2.,4.

def accuracy(log_probs, rows): return round(100*float((log_probs.argmax(1)==rows.labels).mean()), 2)

def tune(run, data, seed):
    "Log-probabilities (rows, labels) of a fine-tuned encoder for the dev rows."
    encoder,tok = load_encoder(run),encoder_tokenizer(run)
    cfg = finetune_config(encoder.config, 'classify', threads=1)
    learn = task_learner(data, task_features(data, tok, cfg), encoder, cfg, seed)
    fit_task(learn, cfg)
    return np.log(np.clip(dev_predictions(learn)[0], 1e-6, 1))

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('run','data','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--tasks', nargs='+', default=['subj_200','mr_2000','sst2_1000'])
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2,3,4])
    a = ask.parse_args()
    a.out.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(l) for l in a.out.read_text().splitlines()] if a.out.exists() else []
    for task in a.tasks:
        data = rows_of(task, a.data, a.out.parent)
        dev = data.splits['dev']
        counted = np.log(np.clip(fit_tfidf(Classify(data.task), data.splits['train'])(dev), 1e-6, 1))
        for seed in a.seeds:
            if (task,seed) in {(d['task'],d['seed']) for d in done}: continue
            own = tune(str(a.run), data, seed)
            both = {str(w):accuracy(own+w*counted, dev) for w in weights}
            add_line(a.out, dict(task=task, seed=seed, rows=len(dev), encoder=accuracy(own, dev), tfidf=accuracy(counted, dev), both=both, versions=versions(), date=str(date.today())))
