"""Does an encoder get better that a rival has taught (`finetune(…, unlabelled=…)`)? Lines of JSON: fine-tunings, and comparisons.

    python teacher.py RUN DATA OUT --tasks subj_200 chunk_200 --size hour --seeds 0 1 2 3 4

RUN, DATA and the rows that are scored are those of wide_text.py and wide_tagger.py, with `--rows dev` other rows. Texts without
labels are the rest of the training file, for English tags sentences of Wikipedia; clusters of words are counted in Wikipedia, Spanish
ones in the training file. Each head is trained with and without a teacher, with the defaults of `finetune`, and compared with the other
and with the teacher over rows and seeds. A task that OUT has comparisons of is left out.
"""
import argparse, json, lzma, numpy as np, re, torch
import electra_nb.lab.register, electra_nb.lab.kinds # as `finetune` has them
import wide_tagger, wide_text
from does_pretraining_help import sentence_rows
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder, random_encoder, restart_layers
from electra_nb.glue.kinds import kind_of
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, task_features, task_learner
from electra_nb.lab.rivals import teacher
from electra_nb.lab.study.statistics import leave_out_sums, make_sample, mean_test, Sample
from electra_nb.lab.tags.clusters import RunText
from electra_nb.lab.tags.wide import train_crfs
from electra_nb.training.folder import versions
from few_labels import sst2
from functools import cache
from paper_tables import add_line
from pathlib import Path
from rivals import clusters_in, spanish, wikipedia
from tags_and_questions import sentences

def is_tags(name): return name.split('_')[0] in ('chunk','pos','ner')

def plain_sentences(data):
    "Sentences of Wikipedia as lists of words with capitals."
    text = lzma.open(data/'corpus/wikipedia-en/wiki-000.txt.xz', 'rt', encoding='utf-8').read(20_000_000)
    found = (re.findall(r"\w+(?:[-.'’,]\w+)*|[^\w\s]", s) for l in text.splitlines() for s in re.split(r'(?<=[.!?])\s+(?=[A-Z"])', l.strip()))
    return [s for s in found if 5<=len(s)<=40]

def unlabelled(data, name, n):
    "Texts without labels: of a training file, what is behind the labelled rows."
    kind = name.split('_')[0]
    if kind=='ner': return [[l.split()[0] for l in o.splitlines() if l.strip()] for o in sentences(data/'tagging/ner-es/train.txt.xz')[n:]]
    if is_tags(name): return plain_sentences(data)
    if kind!='sst2': return [*next(iter(sentence_rows(data, kind.upper()))).text][n:]
    return [*sst2(data, 'train').sample(frac=1, random_state=0).drop_duplicates('sentence').sentence]

@cache
def clusters(data, name, words): return clusters_in(spanish(data) if name.startswith('ner') else wikipedia(data), words)

def tag_counts(run, found, clusters_of):
    "What the wide head counts in the training rows; long sentences are in parts."
    cfg = finetune_config(load_encoder(run).config, 'tag', tag_head='wide')
    train,labels = task_features(found, encoder_tokenizer(run), cfg, ['train'])['train'],found.task.labels
    return train_crfs(train.words, [[labels[t] for t in ts] for ts in train.targets], labels, clusters_of(train.words))

@cache
def prepare(run, data, name, rows, out):
    "A task, what is learned first, the answers of the teacher, and what the wide head counts."
    found = wide_tagger.task(data/'tagging', name, rows) if is_tags(name) else wide_text.task(data, name, rows, out)
    train = found.splits['train']
    def clusters_of(words): return clusters(data, name, tuple(map(tuple, words)))
    text = RunText('')
    text.clusters = clusters_of
    teacher.RunText = lambda source: text
    first = teacher.taught_task(found, unlabelled(data, name, len(train)), '')
    _,answer = teacher.make_teacher(found, '')
    if is_tags(name): counts = tag_counts(run, found, clusters_of)
    else: counts = wide_text.counts(None, f'{name}-{rows}', found)
    return found,first,kind_of(found.task).to_labels(answer(found.splits['dev'])),counts

def fit(run, data, encoder, head, seed, counts=None, **options):
    "A learner, fine-tuned."
    kind = data.task.kind
    own = dict(tag_head='wide' if head=='wide' else 'linear') if kind=='tag' else dict(text_head=head)
    cfg = finetune_config(encoder.config, kind, threads=1, **own, **options)
    feats = task_features(data, encoder_tokenizer(run), cfg, ['train','dev'])
    if counts: feats['train'].counted = counts
    learn = task_learner(data, feats, encoder, cfg, seed)
    return learn,fit_task(learn, cfg)

def trained(run, found, first, head, seed, taught, counts, start):
    "A learner after its labelled rows, with or without a teacher before them."
    torch.manual_seed(seed)
    encoder = random_encoder(run) if start=='random' else load_encoder(run)
    if start!='random': encoder = restart_layers(encoder, run, finetune_config(encoder.config, found.task.kind).reinit_layers)
    own = dict(text_head='wide') if head=='wide' else {}
    if not taught: return fit(run, found, encoder, head, seed, counts if head=='wide' else None)
    fit(run, first, encoder, 'plain', seed, epochs=1.)
    more = {k:v for k,v in teacher.taught_options(found, own).items() if k!='text_head'}
    return fit(run, found, encoder, head, seed, counts if head=='wide' else None, **more)

def sample(data, preds):
    "Scores of runs on the dev rows, with and without groups of rows."
    kind,rows,metric = kind_of(data.task),data.splits['dev'],data.task.metrics[0]
    if data.task.kind!='tag': return make_sample(rows.labels, preds, metric)
    sums = np.array([kind.sums(metric, rows.tags, [*map(kind.words_of, p)]) for p in preds], float)
    total = sums.sum(1)
    return Sample(100*total[:,0]/total[:,1], leave_out_sums(sums))

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('run','data','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--tasks', nargs='+', default=['subj_200','sst2_1000','mr_2000','chunk_200','pos_200'])
    ask.add_argument('--rows', default='test', choices=['test','dev'])
    ask.add_argument('--heads', nargs='+', default=['plain','wide'], choices=['plain','wide'])
    ask.add_argument('--start', default='pretrained', choices=['pretrained','random'])
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2,3,4])
    ask.add_argument('--size', default='hour', help='size of the run, for the lines')
    a = ask.parse_args()
    torch.set_num_threads(1)
    done = [json.loads(l) for l in a.out.read_text().splitlines()] if a.out.exists() else []
    for name in a.tasks:
        about = dict(task=name, rows=a.rows, size=a.size, start=a.start)
        if any({**about, 'head':a.heads[-1]}.items()<=r.items() and 'against' in r for r in done): continue
        found,first,answers,counts = prepare(a.run, a.data, name, a.rows, a.out.parent)
        rival = sample(found, [answers]*len(a.seeds))
        for head in a.heads:
            preds = {}
            for taught in (False,True):
                for seed in a.seeds:
                    learn,fitted = trained(a.run, found, first, head, seed, taught, counts, a.start)
                    preds.setdefault(taught, []).append(dev_predictions(learn)[1])
                    score = float(sample(found, preds[taught][-1:]).scores[0])
                    more = dict(n_taught=len(first.splits['train'])) if taught else {}
                    add_line(a.out, dict(about, head=head, seed=seed, taught=taught, score=round(score, 2), **more, steps=fitted['steps'], seconds=fitted['seconds'], versions=versions()))
            ours = sample(found, preds[True])
            for against,other in ((first.name,rival),('no teacher',sample(found, preds[False]))):
                line = dict(about, head=head, against=against, n=len(found.splits['dev']), scores=ours.scores.round(2).tolist(), other=other.scores.round(2).tolist())
                add_line(a.out, dict(line, **mean_test(ours, other)))
