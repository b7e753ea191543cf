"""What `pretrain('hour')` gives on ten million words: grammar pairs, and the scores of averaged word vectors of the same text.

    python one_hour.py DATA OUT --seeds 0 1 2 --parts train pairs vectors

DATA has corpus/wikipedia-en/*.xz and corpus/gutenberg/*.xz (plain text, an empty line between documents),
grammar/{zorro,blimp}.jsonl.xz, glue/ and sentences/{MR,SUBJ}/{train,test}.tsv. Text and runs are kept in OUT, with the
figures in OUT/one_hour.json; the same command goes on where it was stopped. does_pretraining_help.py fine-tunes the runs.
"""
import argparse, json, time, numpy as np, pandas as pd
from collections.abc import Iterator
from datetime import date
from electra_nb import pretrain
from electra_nb.model.lexical import ppmi, sampled_counts, word_vectors
from electra_nb.glue.encoders import encoder_tokenizer
from electra_nb.glue.tasks import parse_tasks
from electra_nb.lab.kinds import kind_of
from electra_nb.lab.own_data.labels import table_task
from electra_nb.glue.loading import load_files
from electra_nb.lab.bench.measure import commit, machine
from electra_nb.text.lines import read_lines
from electra_nb.training.folder import versions
from electra_nb.lab.scoring.pairs import evaluate_pairs
from does_pretraining_help import sentence_rows
from paper_tables import some_pairs
from pathlib import Path
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

n_words = 5_000_000 # of each of the two texts
every = {'wikipedia-en':13,'gutenberg':5} # of so many documents one is taken, so that they are spread over all files
glue = 'cola stsb rte mnli:train=train_subset.tsv sst2'

def documents(folder) -> Iterator[str]:
    "The documents of all files of a folder."
    for path in sorted(Path(folder).glob('*.xz')):
        doc = []
        for line in read_lines(path):
            if line.strip(): doc.append(line)
            elif doc:
                yield '\n'.join(doc)
                doc = []
        if doc: yield '\n'.join(doc)

def write_text(data, out) -> list:
    "Ten million words as two files."
    paths = [out/f'{name}.txt' for name in every]
    for path,(name,k) in zip(paths, every.items()):
        if path.exists(): continue
        kept,n = [],0
        for i,doc in enumerate(documents(data/'corpus'/name)):
            if i%k==0 and n<n_words: kept,n = [*kept,doc],n+len(doc.split())
        path.write_text('\n\n'.join(kept)+'\n')
    return [str(p) for p in paths]

def train(text, run, seed, **options):
    "Pre-train; CPU seconds and the evaluations."
    begun = time.perf_counter(),time.process_time()
    pretrain('hour', corpus=','.join(text), out=str(run), seed=seed, **options)
    lines = [json.loads(l) for l in (run/'log.jsonl').read_text().splitlines()]
    took = dict(wall_seconds=round(time.perf_counter()-begun[0]), cpu_seconds=round(time.process_time()-begun[1]))
    return dict(took, evaluations=[l for l in lines if 'valid' in l])

def ask_pairs(data, run, seed, n):
    "Tables of grammar pairs, by each tower, with the first `n` pairs of each phenomenon."
    pairs = {name:some_pairs(data/f'grammar/{name}.jsonl.xz', n) for name in ('zorro','blimp')}
    return {f'{name} {by}':evaluate_pairs(run, found, by, seed).round(3).to_dict('records')
        for name,found in pairs.items() for by in ('generator','discriminator')}

def text_vectors(text, tok):
    "Vectors of tokens from counts of neighbours in the same text, as many numbers as the encoder has units."
    lines = [l for path in text for l in read_lines(path) if l.strip()]
    ids = np.concatenate([np.array([*row,tok.sep_token_id]) for i in range(0, len(lines), 10_000)
        for row in tok(lines[i:i+10_000], add_special_tokens=False)['input_ids']])
    return word_vectors(ppmi(sampled_counts(ids, len(tok), tok.all_special_ids)), 128).numpy()

def mean_vectors(vectors, tok, texts):
    return np.stack([vectors[row].mean(0) if row else 0*vectors[0] for row in tok(list(texts), add_special_tokens=False)['input_ids']])

def row_vectors(vectors, tok, rows):
    "A text as the mean of its vectors; two texts as both means, their distance and their product."
    a = mean_vectors(vectors, tok, rows.text_a)
    if rows.text_b is None: return a
    b = mean_vectors(vectors, tok, rows.text_b)
    return np.concatenate([a,b,abs(a-b),a*b], 1)

def score_vectors(data, text, run):
    "Scores of a linear model on averaged word vectors, for each task of whole texts."
    tok = encoder_tokenizer(run)
    vectors,out = text_vectors(text, tok),{}
    tasks = [load_files(name, str(data/'glue'), files) for name,files in parse_tasks(glue)]
    for name in ('MR','SUBJ'):
        rows,test = sentence_rows(data, name)
        tasks.append(table_task(rows, dev=test, text='text', label='label', name=name.lower()))
    for task in tasks:
        x,dev = (row_vectors(vectors, tok, task.splits[s]) for s in ('train','dev'))
        linear = LogisticRegressionCV(Cs=5, max_iter=2000) if task.task.labels else RidgeCV(np.logspace(-3, 3, 7))
        pred = linear.fit(x, task.splits['train'].labels).predict(dev)
        out[task.name] = {k:round(float(v), 2) for k,v in kind_of(task.task).score(task.splits['dev'], pred).items()}
    return out

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ask.add_argument('data', type=Path)
    ask.add_argument('out', type=Path)
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2])
    ask.add_argument('--parts', nargs='+', default=['train','pairs','vectors'])
    ask.add_argument('--pairs', type=int, default=2000, help='grammar pairs of each phenomenon')
    ask.add_argument('--precision', default='auto', help="'bf16' where the processor has it")
    ask.add_argument('--threads', type=int, help='as many as there are cores, if not given')
    a = ask.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    text,path = write_text(a.data, a.out),a.out/'one_hour.json'
    about = dict(what=__doc__.split('\n')[0], commit=commit(), date=str(date.today()), machine=machine(), versions=versions(),
        precision=a.precision, threads=a.threads, pairs_of_each_phenomenon=a.pairs)
    for seed in a.seeds:
        run = a.out/f'hour-{seed}'
        parts = dict(train=lambda: train(text, run, seed, precision=a.precision, threads=a.threads), pairs=lambda: ask_pairs(a.data, run, seed, a.pairs), vectors=lambda: score_vectors(a.data, text, run))
        for part in a.parts:
            found = json.loads(path.read_text()) if path.exists() else about
            mine = found.setdefault(f'seed {seed}', {})
            if part in mine: continue
            mine[part] = parts[part]()
            path.write_text(json.dumps(found, indent=1)+'\n')
            print(seed, part, 'done', flush=True)
