"""Does an encoder get better that a rival has taught? One line of JSON a fine-tuning.

    python teacher.py RUN DATA OUT --tasks subj_200 chunk_200 --size hour --seeds 0 1 2 3 4

The rival of a task (tf-idf, or the CRF with clusters) learns from the labelled rows and answers rows without labels: for texts the
rest of the training file, for tags sentences of Wikipedia, 20,000 at most. The half of which it is surest is what the encoder is
fine-tuned on first, once through, with the plain head; then it is fine-tuned on the labelled rows, as without a teacher.
RUN, DATA and the rows that are scored are those of wide_text.py and wide_tagger.py. Lines that OUT has already are left out.
"""
import argparse, json, numpy as np, re, torch
import electra_nb.lab.register, electra_nb.lab.kinds # as `finetune` has them
import wide_tagger, wide_text
from dataclasses import replace
from does_pretraining_help import sentence_rows
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder, restart_layers
from electra_nb.glue.kinds import kind_of
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, task_features, task_learner
from electra_nb.glue.tables import from_memory
from electra_nb.glue.tasks import TextSplit
from electra_nb.lab.rivals.tfidf import fit_tfidf
from electra_nb.lab.tags.crf import crf_tagger, word_features
from electra_nb.training.folder import versions
from few_labels import sst2
from functools import cache
from paper_tables import add_line
from pathlib import Path
from rivals import clusters_in, wikipedia

most = 20_000 # rows that a teacher labels
tag_tasks = 'chunk','pos'
def is_tags(name): return name.split('_')[0] in tag_tasks

@cache
def task(data, name, out): return wide_tagger.task(data/'tagging', name, 'test') if is_tags(name) else wide_text.task(data, name, 'test', out)

def unlabelled_texts(data, name, known):
    "Rows of the training file that are neither labelled nor scored."
    kind = name.split('_')[0]
    if kind=='sst2': texts = sst2(data, 'train').sample(frac=1, random_state=0).drop_duplicates('sentence').sentence
    else: texts = next(iter(sentence_rows(data, kind.upper()))).text
    seen = {t for rows in known.splits.values() for t in rows.text_a}
    return [t for t in texts if t not in seen][:most]

def plain_sentences(data):
    "Sentences of Wikipedia as lists of words with capitals, in an order drawn once."
    import lzma
    text = lzma.open(data/'corpus/wikipedia-en/wiki-000.txt.xz', 'rt', encoding='utf-8').read(20_000_000)
    found = (re.findall(r"\w+(?:[-.'’,]\w+)*|[^\w\s]", s) for l in text.splitlines() for s in re.split(r'(?<=[.!?])\s+(?=[A-Z"])', l.strip()))
    found = [s for s in found if 5<=len(s)<=40]
    return [found[i] for i in np.random.default_rng(0).permutation(len(found))[:most]]

def surest(p): return np.asarray(p)>=np.median(p)

@cache
def counted(data, name, out):
    "What the wide head counts, and the rows that the teacher has labelled."
    known = task(data, name, out)
    train,kind = known.splits['train'],kind_of(known.task)
    if is_tags(name):
        labels,clusters = known.task.labels,clusters_in(wikipedia(data), train.words)
        counts = wide_tagger.wide.train_crfs(train.words, train.tags, labels, clusters)
        crf = crf_tagger([word_features(w, clusters) for w in train.words], train.tags)
        words = plain_sentences(data)
        def answer(w):
            tags = crf.tag(word_features(w, clusters))
            return tags,crf.probability(tags)**(1/len(w)) # of the sentence that was tagged last
        tags,sure = zip(*map(answer, words))
        keep = surest(sure)
        columns = {known.task.text[0]:[w for w,k in zip(words, keep) if k],known.task.label:[t for t,k in zip(tags, keep) if k]}
        return counts,kind.read(from_memory(columns, 'taught'))
    counts = wide_text.counts(None, name, known)
    texts = unlabelled_texts(data, name, known)
    p = fit_tfidf(kind, train)(TextSplit(texts, None, None)) # (rows, labels)
    keep = surest(p.max(1))
    columns = {known.task.text[0]:[t for t,k in zip(texts, keep) if k],known.task.label:[known.task.labels[i] for i in p.argmax(1)[keep]]}
    return counts,kind.read(from_memory(columns, 'taught'))

def fit(run, data, encoder, head, seed, counts=None):
    "A learner, fine-tuned."
    kind = data.task.kind
    own = dict(tag_head='wide' if head=='wide' else 'linear') if kind=='tag' else dict(text_head=head)
    more = dict(epochs=1.) if data.name=='taught' else {}
    cfg = finetune_config(encoder.config, kind, threads=1, **own, **more)
    feats = task_features(data, encoder_tokenizer(run), cfg, ['train','dev'])
    if head=='wide': feats['train'].counted = counts
    learn = task_learner(data, feats, encoder, cfg, seed)
    return learn,fit_task(learn, cfg)

def score(learn, data):
    rows = data.splits['dev']
    return {k:round(v, 2) for k,v in kind_of(data.task).score(rows, dev_predictions(learn)[1]).items()}

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('run','data','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--tasks', nargs='+', default=['subj_200','sst2_1000','mr_2000','chunk_200','pos_200'])
    ask.add_argument('--heads', nargs='+', default=['plain','wide'], choices=['plain','wide'])
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2,3,4])
    ask.add_argument('--size', default='hour', help='size of the run, for the lines')
    a = ask.parse_args()
    torch.set_num_threads(1)
    done = [json.loads(l) for l in a.out.read_text().splitlines()] if a.out.exists() else []
    for name in a.tasks:
        for seed in a.seeds:
            lines = [dict(task=name, size=a.size, seed=seed, head=head, teacher=t) for t in (False,True) for head in a.heads]
            lines = [l for l in lines if not any(l.items()<=r.items() for r in done)]
            if not lines: continue
            data,(counts,taught) = task(a.data, name, a.out.parent),counted(a.data, name, a.out.parent)
            first = None
            for line in lines:
                torch.manual_seed(seed)
                encoder = load_encoder(a.run)
                encoder = restart_layers(encoder, a.run, finetune_config(encoder.config, data.task.kind).reinit_layers)
                more = {}
                if line['teacher']:
                    if not first:
                        learn,_ = fit(a.run, replace(data, name='taught', splits=dict(train=taught, dev=data.splits['dev'])), encoder, 'plain', seed)
                        first = {k:v.clone() for k,v in encoder.state_dict().items()},score(learn, data)
                    encoder.load_state_dict(first[0])
                    more = dict(n_taught=len(taught), pupil=first[1])
                learn,fitted = fit(a.run, data, encoder, line['head'], seed, counts)
                add_line(a.out, dict(line, n=len(data.splits['dev']), **score(learn, data), **more, steps=fitted['steps'], seconds=fitted['seconds'], versions=versions()))
