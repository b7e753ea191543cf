"""The paper's comparison of objectives (Table 5, Figure 3) at size `tiny`: one line of JSON a run.

    python paper_tables.py TEXT DATA OUT --conditions electra mlm --seeds 0 1 2 3 4

TEXT: a plain text, paragraphs in lines, an empty line between documents; the first 20 million characters train, the
next 2 million give the sentences of the word-order task. DATA has sentences/{MR,SUBJ}/{train,test}.tsv (columns text,
label), glue/SST-2, tagging/chunk and grammar/zorro.jsonl.xz. Tasks that OUT has already are left out, so the same
command goes on where it was stopped, and with other --tasks it adds lines for the same runs, which are trained again.
"""
import argparse, json, shutil, time, torch
import numpy as np
import pandas as pd
from collections import defaultdict
from dataclasses import replace
from electra_nb import pretrain
from electra_nb.objectives.table import objective_of
from electra_nb.lab.own_data.builtin import word_order_task
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder, random_encoder
from electra_nb.glue.tasks import parse_tasks
from electra_nb.lab.kinds import kind_of
from electra_nb.lab.own_data.labels import table_task
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, task_features, task_learner
from electra_nb.glue.loading import load_files
from electra_nb.text.lines import read_lines
from electra_nb.training.folder import versions
from electra_nb.lab.scoring.pairs import pair_wins, read_pairs
from electra_nb.lab.scoring.towers import load_scorer, objective_towers, untrained
from does_pretraining_help import glue, glue_folder
from functools import partial
from pathlib import Path

earlier = dict(mask_prob=.15, final_mask_prob=None, carry_overflow=False) # fixed here: a new recipe of `tiny` leaves the tables as they are
normal = dict(init='normal', lexical_start=False) # the other initial values need towers of equal width
conditions = dict( # name -> what `pretrain` is told
    electra=dict(), all_tokens_mlm=dict(objective='all_tokens_mlm'), replace_mlm=dict(objective='replace_mlm'),
    electra_15=dict(objective='electra_15'), mlm=dict(objective='mlm'),
    two_stage=dict(objective='two_stage'), adversarial=dict(objective='adversarial'),
    unigram=dict(objective='electra_unigram'), two_layers=dict(generator_layers=1.), # the generator of `electra` has one layer
    untied=dict(tie='none'), tied_all=dict(tie='all'),
    width=dict(normal), width_half=dict(normal, generator_size=.5), width_quarter=dict(normal, generator_size=.25),
    width_eighth=dict(normal, generator_size=.125))

def documents(path, begin, end):
    "The documents that start between two numbers of characters."
    doc,n = [],0
    for line in read_lines(path):
        n += len(line)+1
        if line.strip(): doc.append(line)
        elif doc:
            if begin<=n<end: yield '\n'.join(doc)
            doc = []
        if n>=end: return

def write_part(path, end, home):
    "The start of a text as a file of its own."
    part = Path(home)/f'{end//1_000_000}M.txt'
    part.parent.mkdir(parents=True, exist_ok=True)
    if not part.exists(): part.write_text('\n\n'.join(documents(path, 0, end))+'\n')
    return part

def sentence_task(folder, name, n_train=None):
    "MR or SUBJ, scored on its test rows; with `n_train`, on few training rows."
    train,test = (pd.read_csv(Path(folder)/name/f'{s}.tsv', sep='\t', quoting=3) for s in ('train','test'))
    data = table_task(train.head(n_train or len(train)), dev=test, text='text', label='label', name=name.lower())
    return replace(data, name=data.name if n_train is None else f'{data.name}_{n_train}')

def glue_task(data, home, name):
    "SST-2 with 10,000 training rows."
    [(name,files)] = parse_tasks(glue[name])
    return load_files(name, str(glue_folder(data, home)), files)

def make_tasks(text, data, home, names):
    "The tasks of these names."
    sentences = partial(sentence_task, data/'sentences')
    known = dict(word_order=lambda: word_order_task(documents(text, 20_000_000, 22_000_000)),
        subj=lambda: sentences('SUBJ'), subj_200=lambda: sentences('SUBJ', 200), mr=lambda: sentences('MR'),
        sst2=lambda: glue_task(data, home, 'sst2'), chunk=lambda: load_files('chunk', str(data/'tagging')))
    return [known[name]() for name in names]

def bits(right): return np.packbits(np.asarray(right, dtype=bool)).tobytes().hex()

def answers(kind, rows, pred):
    "The score on a task, and what each row adds to it."
    if kind.task.kind!='tag':
        right = pred==rows.labels
        return dict(accuracy=round(100*right.mean(), 3), rows=len(right), right=bits(right))
    metric = kind.task.metrics[0]
    sums = kind.sums(metric, rows.tags, [kind.words_of(p) for p in pred])
    return {metric:round(kind.score(rows, pred)[metric], 3), 'rows':len(sums), 'sums':sums.astype(np.uint8).tobytes().hex()}

def fine_tune(start, tok, tasks, seed):
    "The score on each task, and what each row adds to it; `start()` gives a fresh encoder."
    out = {}
    for data in tasks:
        encoder = start()
        max_len = min(data.task.max_len, encoder.config.max_position_embeddings)
        epochs,head = 30. if data.name.endswith('_200') else 3.,dict(tag_head='linear') if data.task.kind=='tag' else {}
        cfg = finetune_config(encoder.config, data.task.kind, max_len=max_len, epochs=epochs, **head)
        feats = task_features(data, tok, cfg)
        learn = task_learner(data, feats, encoder, cfg, seed)
        fit_task(learn, cfg)
        out[data.name] = answers(kind_of(data.task), data.splits['dev'], dev_predictions(learn)[1])
    return out

def some_pairs(path, n=40):
    "The first `n` pairs of each phenomenon."
    found = defaultdict(list)
    for p in read_pairs(path): found[p.phenomenon].append(p)
    return [p for ps in found.values() for p in ps[:n]]

def by_phenomenon(scorer, pairs):
    "Share of pairs won by phenomenon."
    wins,names = pair_wins(scorer, pairs),np.array([p.phenomenon for p in pairs])
    return {str(k):round(100*wins[names==k].mean(), 2) for k in dict.fromkeys(names.tolist())}

def ask_pairs(run, pairs, seed):
    "Share of pairs won by phenomenon, for each tower that can score, trained and untrained."
    out = {}
    for by in (k for k,tower in objective_towers(objective_of(run)).items() if tower):
        scorer = load_scorer(run, by, 'cpu')
        for which,s in dict(trained=scorer, untrained=untrained(run, scorer, seed)).items(): out[f'{by} {which}'] = by_phenomenon(s, pairs)
    return out

def last_evaluation(run):
    lines = [json.loads(l) for l in (Path(run)/'log.jsonl').read_text().splitlines()]
    return [l for l in lines if 'valid' in l][-1]

def measure(run, tune, pairs, seed, at_random):
    "What a run is worth; `tune(start, tok)` gives its scores on tasks, and if wanted those of a random start."
    tok = encoder_tokenizer(run)
    found = dict(evaluation=last_evaluation(run), tasks=tune(lambda: load_encoder(run), tok))
    if pairs: found['pairs'] = ask_pairs(run, pairs, seed)
    if not at_random: return found
    def fresh():
        torch.manual_seed(seed)
        return random_encoder(run)
    return dict(found, random_start=tune(fresh, tok))

def one_run(about, options, text, run, tune, pairs, at_random=False, cbs=None, measure=measure):
    "Pre-train, measure, remove; the record of it, which begins with `about`."
    if cbs: shutil.rmtree(run, ignore_errors=True) # no checkpoint has the state of other callbacks
    begun,seed,steps = time.process_time(),about['seed'],about['steps']
    pretrain(corpus=text, out=str(run), seed=seed, steps=steps, threads=1, cbs=cbs, **options)
    trained = time.process_time()-begun
    found = measure(run, tune, pairs, seed, at_random)
    shutil.rmtree(run)
    cpu = dict(pretraining=round(trained), all=round(time.process_time()-begun))
    return dict(about, options=options, **found, cpu_seconds=cpu, versions=versions(), date=time.strftime('%Y-%m-%d'))

def add_line(path, record):
    "Append a record."
    line = json.dumps(record)
    with path.open('a') as f: f.write(line+'\n')
    print(line[:200], flush=True)

def tasks_done(path):
    "(condition, seed, steps) -> names of the tasks that it has been scored on."
    found = defaultdict(set)
    for r in map(json.loads, path.read_text().splitlines() if path.exists() else ()):
        found[r['condition'],r['seed'],r['steps']].update(r['tasks'])
    return found

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('text','data','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--conditions', nargs='+', default=list(conditions), choices=list(conditions))
    ask.add_argument('--tasks', nargs='+', default=['word_order','subj','subj_200','mr','sst2','chunk'])
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2,3,4])
    ask.add_argument('--steps', type=int, default=4500)
    ask.add_argument('--home', type=Path, default=Path('paper_runs'), help='folder for runs under way')
    a = ask.parse_args()
    torch.set_num_threads(1)
    text,done = str(write_part(a.text, 20_000_000, a.home)),tasks_done(a.out)
    known,pairs = make_tasks(a.text, a.data, a.home, a.tasks),some_pairs(a.data/'grammar/zorro.jsonl.xz')
    for seed in a.seeds:
        for name in a.conditions:
            key = name,seed,a.steps
            tasks = [t for t in known if t.name not in done[key]]
            if not tasks: continue
            about,tune = dict(condition=name, seed=seed, steps=a.steps),partial(fine_tune, tasks=tasks, seed=seed)
            asked = pairs if not done[key] else ()
            add_line(a.out, one_run(about, {**earlier, **conditions[name]}, text, a.home/f'{name}-{seed}', tune, asked, name=='electra'))
