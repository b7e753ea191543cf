"""What does an encoder add to tf-idf in the wide head for texts? Fine-tunings of a run, one line of JSON each.

    python wide_text.py RUN DATA OUT --tasks subj_200 mr_2000 sst2_1000 --seeds 0 1 2 3 4

DATA has sentences/ and glue/, as for rivals.py. `test` are the rows of that script, `dev` others, by which share and passes were
chosen: the last 2,000 training rows, for SST-2 rows of the training file that are in neither. Lines that OUT has already are left out.
`--intervals` writes what the encoder adds to tf-idf over rows and seeds, in place of scores.
"""
import argparse, json, numpy as np, torch
import electra_nb.lab.register, electra_nb.lab.kinds # as `finetune` has them
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder, random_encoder, restart_layers
from electra_nb.glue.kinds import kind_of
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, task_features, task_learner
from electra_nb.lab.own_data.data import own_data
from electra_nb.lab.study.statistics import make_sample, mean_test
from electra_nb.lab.texts.counted import count_texts, TextConfig
from electra_nb.training.folder import versions
from does_pretraining_help import sentence_rows
from few_labels import sst2
from functools import cache
from paper_tables import add_line
from pathlib import Path
from rivals import rows_of

shares = 0.,.05,.1,.2,.3,.5,1. # that are scored; 0: tf-idf alone
usual = TextConfig.text_share

@cache
def task(data, name, rows, out):
    if rows=='test': return rows_of(name, data, out)
    kind,n = name.split('_')
    if kind=='sst2':
        every = sst2(data, 'train').sample(frac=1, random_state=0).drop_duplicates('sentence')
        return own_data(every[3000:3000+int(n)], dev=every[20_000:22_000], text='sentence', label='label', name=name)
    train,_ = sentence_rows(data, kind.upper())
    return own_data(train[:int(n)], dev=train[-2000:], text='text', label='label', name=name)

def trained(run, data, start, head, seed, **options):
    "A fine-tuned learner."
    shape = load_encoder(run).config
    options = dict(text_head='wide', **options) if head=='wide' else dict(options, text_head='plain')
    cfg = finetune_config(shape, 'classify', threads=1, **options)
    torch.manual_seed(seed)
    encoder = random_encoder(run) if start=='random' else restart_layers(load_encoder(run), run, cfg.reinit_layers)
    feats = task_features(data, encoder_tokenizer(run), cfg, ['train','dev'])
    if head=='wide': feats['train'].counted = counts(run, data.name, data)
    learn = task_learner(data, feats, encoder, cfg, seed)
    return learn,fit_task(learn, cfg)

known = {}
def counts(run, name, data):
    "The same tf-idf for all runs of a task."
    if name not in known:
        train = data.splits['train']
        known[name] = count_texts(train.text_a, train.labels, len(data.task.labels))
    return known[name]

def at_shares(learn, found=shares):
    "Predictions with each share of the encoder."
    own,out = learn.model.head.share.clone(),{}
    for share in found:
        learn.model.head.share.fill_(share)
        out[share] = dev_predictions(learn)[1]
    learn.model.head.share.copy_(own)
    return out

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('run','data','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--tasks', nargs='+', default=['subj_200','sst2_1000','mr_2000'])
    ask.add_argument('--rows', default='test', choices=['test','dev'])
    ask.add_argument('--starts', nargs='+', default=['pretrained'])
    ask.add_argument('--heads', nargs='+', default=['wide'], choices=['plain','wide'])
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2,3,4])
    ask.add_argument('--size', default='hour', help='size of the run, for the lines')
    ask.add_argument('--epochs', type=float)
    ask.add_argument('--intervals', action='store_true')
    a = ask.parse_args()
    torch.set_num_threads(1)
    done = [json.loads(l) for l in a.out.read_text().splitlines()] if a.out.exists() else []
    for name in a.tasks:
        data = task(a.data, name, a.rows, a.out.parent)
        dev = data.splits['dev']
        for start in a.starts:
            kept = {}
            for head in a.heads:
                for seed in a.seeds:
                    line = dict(task=name, rows=a.rows, size=a.size, start=start, head=head, seed=seed, epochs=a.epochs)
                    if not a.intervals and any(line.items()<=r.items() for r in done): continue
                    learn,fitted = trained(a.run, data, start, head, seed, epochs=a.epochs)
                    found = at_shares(learn, (0.,usual) if a.intervals else shares) if head=='wide' else {}
                    score = kind_of(data.task).score(dev, dev_predictions(learn)[1])
                    kept[head,seed] = found
                    more = dict(shares={s:round(100*float((p==dev.labels).mean()), 2) for s,p in found.items()}) if found else {}
                    if not a.intervals:
                        add_line(a.out, dict(line, n=len(dev), **{k:round(v, 2) for k,v in score.items()}, **more, **fitted, versions=versions()))
            if a.intervals:
                ours,rival = (make_sample(dev.labels, [kept['wide',s][share] for s in a.seeds], 'accuracy') for share in (usual,0.))
                add_line(a.out, dict(task=name, rows=a.rows, size=a.size, start=start, scores=ours.scores.round(2).tolist(),
                    tfidf=round(float(rival.scores[0]), 2), **mean_test(ours, rival), versions=versions()))
