"""What does each part of the wide tagger bring? Fine-tunings of a run and of a random start, one line of JSON each.

    python wide_tagger.py RUN TAGGING OUT --tasks chunk_200 --starts tiny random --heads linear wide --seeds 0 1 2

TAGGING has chunk/, ner-es/ and pos-en/. Training rows are the first ones of a file. `test` are those of tags_and_questions.py
(the first 1,000 sentences of the test file; for parts of speech those after the 1,500th), `dev` others, by which rate and
passes are chosen (--rows dev --set lr=2e-3 epochs=20). Heads: `linear` and `wide`; for `wide` also the scores of its CRF alone
(share 0) and with all that the encoder says (share 1). In the results, `table` and `no_affixes` are heads of before: a table of
affixes that is learned together with the encoder. Lines that OUT has already are left out, so the same command goes on.
"""
import argparse, json, numpy as np, time, torch
import electra_nb.lab.register, electra_nb.lab.kinds # as `finetune` has them
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder, random_encoder, restart_layers
from electra_nb.glue.kinds import kind_of
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, task_features, task_learner
from electra_nb.glue.tables import from_memory
from electra_nb.lab.study.statistics import mean_test, Sample
from electra_nb.lab.tags.tasks import own_tag_task
from electra_nb.lab.tags import wide
from electra_nb.training.folder import versions
from functools import cache
from paper_tables import add_line
from pathlib import Path
from rivals import clusters_in, wikipedia
from tags_and_questions import known_only, sentences

def table(found, at, name):
    "Sentences of a file as a table of words and tags."
    rows = [[l.split('\t' if at==3 else None) for l in s.splitlines() if l.strip() and l[0]!='#' or l.startswith('# ') and at!=3] for s in found]
    if at==3: rows = [[c for c in r if c[0].isdigit()] for r in rows]
    return from_memory(dict(words=[[c[1 if at==3 else 0] for c in r] for r in rows], tags=[[c[at] for c in r] for r in rows]), name)

@cache
def task(tagging, name, rows, n_known=200):
    "Training rows, and those that are scored: without kinds of tags that the first `n_known` sentences lack."
    kind,n = name.split('_')
    at,n = 3 if kind=='pos' else -1,int(n)
    if kind=='pos':
        train = sentences(tagging/'pos-en/dev.conllu.xz')
        scored = dict(test=train[1500:], dev=train[1200:1500])[rows]
    else:
        folder = dict(chunk='chunk', ner='ner-es')[kind]
        train = sentences(tagging/folder/'train.txt.xz')
        test = dict(chunk='chunk/test.txt.xz', ner='ner-es/testb.txt.xz')[kind]
        scored = sentences(tagging/test)[:1000] if rows=='test' else train[-1000:]
    tables = [table(o, at, name) for o in (train[:n],known_only(scored, train[:n_known], at))]
    return own_tag_task(*tables, name=name)

@cache
def wide_features(run, tagging, name, rows):
    "What the wide head reads and counts, with clusters of the words of Wikipedia and of the training rows, as its rival has them."
    data,tok = task(tagging, name, rows),encoder_tokenizer(run)
    feats = task_features(data, tok, finetune_config(load_encoder(run).config, 'tag', tag_head='wide'), ['train','dev'])
    train,labels = feats['train'],data.task.labels
    clusters = clusters_in(wikipedia(tagging.parent), train.words)
    train.counted = wide.train_crfs(train.words, [[labels[t] for t in ts] for ts in train.targets], labels, clusters)
    return feats

def share_scores(learn, kind, rows):
    "The metric of the CRF alone, and with all that the encoder says."
    share,found = wide.share,{}
    try:
        for wide.share in (0.,1.): found[wide.share] = round(next(iter(kind.score(rows, dev_predictions(learn)[1]).values())), 2)
    finally: wide.share = share
    return found

def trained(run, tagging, name, rows, start, head, seed, **options):
    "A fine-tuned learner, its task, and what `fit_task` says."
    data = task(tagging, name, rows)
    torch.manual_seed(seed)
    shape = load_encoder(run).config
    cfg = finetune_config(shape, 'tag', threads=1, tag_head=head, **options)
    encoder = random_encoder(run) if start=='random' else restart_layers(load_encoder(run), run, cfg.reinit_layers)
    if head=='wide': feats = wide_features(run, tagging, name, rows)
    else: feats = task_features(data, encoder_tokenizer(run), cfg, ['train','dev'])
    learn = task_learner(data, feats, encoder, cfg, seed)
    return learn,data,fit_task(learn, cfg)

def tune(*args, **options):
    "The score of a fine-tuning, and its seconds; parameters as for `trained`."
    began = time.process_time()
    learn,data,fitted = trained(*args, **options)
    kind,split = kind_of(data.task),data.splits['dev']
    scores = {k:round(v, 2) for k,v in kind.score(split, dev_predictions(learn)[1]).items()}
    more = dict(shares=share_scores(learn, kind, split)) if hasattr(learn.model.head, 'keys') else {}
    return dict(scores, **more, steps=fitted['steps'], train_seconds=fitted['seconds'], cpu_seconds=round(time.process_time()-began, 1))

def interval(run, tagging, name, start, seeds):
    "What the encoder adds to the CRF in the wide head on the test rows, over rows and seeds."
    def sample(tables):
        tables = np.stack(tables) # (seeds, rows, 2)
        left_out = tables.sum(1, keepdims=True)-tables
        return Sample(*(100*(t[...,0]/t[...,1]).T for t in (tables.sum(1),left_out)))
    def sums(learn, data):
        kind,rows = kind_of(data.task),data.splits['dev']
        return kind.sums(data.task.metrics[0], rows.tags, [*map(kind.words_of, dev_predictions(learn)[1])])
    runs = [trained(run, tagging, name, 'test', start, 'wide', seed)[:2] for seed in seeds]
    tables,share,wide.share = [sums(*r) for r in runs],wide.share,0.
    try: crf = sums(*runs[0])
    finally: wide.share = share
    ours,rival = sample(tables),sample([crf]*len(runs))
    return dict(scores=ours.scores.round(2).tolist(), crf=round(float(rival.scores[0]), 2), **mean_test(ours, rival))

def number(text):
    key,_,value = text.partition('=')
    return key,float(value) if '.' in value or 'e' in value else int(value)

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('run','tagging','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--tasks', nargs='+', default=['chunk_200','pos_200','ner_200'])
    ask.add_argument('--rows', default='test', choices=['test','dev'])
    ask.add_argument('--starts', nargs='+', default=['tiny','random'])
    ask.add_argument('--heads', nargs='+', default=['linear','wide'])
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2])
    ask.add_argument('--size', default='tiny', help='size of the run, for the lines')
    ask.add_argument('--intervals', action='store_true', help='what the first of the starts adds to the CRF, with intervals, in place of scores')
    ask.add_argument('--set', nargs='*', type=number, default=[], help='settings of finetune, such as lr=2e-3')
    a = ask.parse_args()
    torch.set_num_threads(1)
    done = [json.loads(l) for l in a.out.read_text().splitlines()] if a.out.exists() else []
    for name in a.tasks if a.intervals else ():
        add_line(a.out, dict(task=name, size=a.size, **interval(a.run, a.tagging, name, a.starts[0], a.seeds)))
    for seed in () if a.intervals else a.seeds:
        for name in a.tasks:
            for start in a.starts:
                for head in a.heads:
                    line = dict(task=name, rows=a.rows, size=a.size, start=start, head=head, seed=seed, options=dict(a.set))
                    if any(line.items()<=r.items() for r in done): continue
                    add_line(a.out, dict(line, **tune(a.run, a.tagging, name, a.rows, start, head, seed, **dict(a.set)), versions=versions()))
