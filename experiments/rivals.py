"""What do methods without an encoder reach, on the rows of the pages does_pretraining_help, tags_and_questions, first_minutes and trials?

    python rivals.py DATA OUT --tasks chunk_200 …

DATA has sentences/, glue/, tagging/ and corpus/wikipedia-en/, as for the scripts behind these pages. The rivals are those of
`finetune(rivals=True)`. Clusters and n-grams are counted in the first 20 MB of Wikipedia; n-grams for the built-in tasks in
the docstrings that these do not take their rows from, clusters for Spanish names in the words of the training file.
OUT/rivals.jsonl gets a line for each task and rival; those that it has already are left out. OUT/predictions has all answers.
"""
import argparse, lzma, re, time
from electra_nb.glue.loading import load_task
from electra_nb.glue.tasks import parse_tasks
from electra_nb.lab.own_data.builtin import library_task, most, word_order_task
from electra_nb.lab.own_data.data import own_data
from electra_nb.lab.rivals.beside import rival_line, rivals_of
from electra_nb.lab.study.folder import append_line, read_ledger
from electra_nb.lab.tags.clusters import RunText, text_words, word_clusters
from electra_nb.text.corpus import is_held_out
from electra_nb.text.docstrings import builtin_docs
from dataclasses import replace
from does_pretraining_help import glue, glue_folder, sentence_rows
from few_labels import n_choice, sst2
from first_minutes import first_rows
from functools import cache, partial
from pathlib import Path
from recipe_trials import make_tasks
from tags_and_questions import sentences, write_files

sizes = dict(subj=(200,2000,6000), mr=(200,2000,6398), sst2=(300,1000,3000,10_000))
tags = 'chunk_200 pos_200 ner_200 pos_2000 ner_2000 chunk_2000 chunk'.split()
built_in = dict(word_order=(100,300,1000), library=(100,300,600))
names = [*tags[:3],*(f'{t}_{n}' for t,ns in built_in.items() for n in ns),*'cola mrpc rte stsb mnli'.split(),
    *(f'trials_{t}_{n}' for t in ('word_order','subj','mr') for n in (200,2000)),'trials_chunk_2000',
    *(f'{t}_{n}' for i in range(4) for t,ns in sizes.items() for n in ns[i:i+1]),*tags[3:]] # short ones first

@cache
def wikipedia_lines(data):
    text = lzma.open(data/'corpus/wikipedia-en/wiki-000.txt.xz', 'rt', encoding='utf-8').read(20_000_000)
    return [l for l in text.splitlines() if l.strip()]

@cache
def wikipedia(data): return [re.findall(r"\w+(?:[-.']\w+)*|[^\w\s]", l.lower()) for l in wikipedia_lines(data)]

@cache
def spanish(data): return [[l.split()[0].lower() for l in s.splitlines() if l.strip()] for s in sentences(data/'tagging/ner-es/train.txt.xz')]

def clusters_in(text, tagged):
    "Clusters of the words of a text and of tagged sentences."
    return word_clusters([*text,*([w.lower() for w in ws] for ws in tagged)])

@cache
def text_for(kind_of_text, data):
    "The text that rivals count in; it is read before their time is taken."
    text = RunText('')
    text.clusters = partial(clusters_in, spanish(data) if kind_of_text=='spanish' else wikipedia(data))
    if kind_of_text=='spanish': return text
    lines = [l for d in builtin_docs() if not is_held_out(d, most) for l in d.split('\n')] if kind_of_text=='docstrings' else wikipedia_lines(data)
    rows = [*map(text_words, lines)]
    text.sentences = lambda: rows
    return text

@cache
def trials(data):
    "The rows of `recipe_trials.py`."
    tasks = make_tasks(data/'corpus/wikipedia-en/wiki-000.txt.xz', data/'sentences', data/'tagging')
    return {f'trials_{rows.name.lower()}':replace(rows, name=f'trials_{rows.name.lower()}') for rows,_ in tasks}

def few_rows(data):
    "The rows of `few_labels.py`: other ones than those on which a rate was chosen."
    dev,every = sst2(data, 'dev'),sst2(data, 'train').sample(frac=1, random_state=0).drop_duplicates('sentence')
    return every[~every.sentence.isin(dev.sentence)][n_choice:],dev

def rows_of(name, data, out):
    "The rows of a task, as the scripts of the pages make them."
    task,_,n = name.rpartition('_')
    if task in built_in: return first_rows(dict(word_order=word_order_task, library=library_task)[task](), int(n))
    if name in glue or name=='sst2_10000':
        [(task,files)] = parse_tasks(glue[name.partition('_')[0]])
        return load_task(task, str(glue_folder(data, out)), files)
    if name.startswith('trials_'): return trials(data)[name]
    if name=='chunk': return load_task('chunk', str(data/'tagging'))
    if task in ('mr','subj'): train,dev = sentence_rows(data, task.upper())
    elif task=='sst2': train,dev = few_rows(data)
    else:
        train,dev,_ = write_files(data, out/'data')[name]
        return own_data(str(train), dev=str(dev), name=name)
    text = 'sentence' if task=='sst2' else 'text'
    return own_data(train[:int(n)], dev=dev, text=text, label='label', name=name)

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('data','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--tasks', nargs='+', default=names, choices=names)
    a = ask.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    for name in a.tasks:
        rows = rows_of(name, a.data, a.out)
        built = name.rpartition('_')[0] in built_in
        text = text_for('spanish' if name.startswith('ner') else 'docstrings' if built else 'wikipedia', a.data)
        done = {(r['task'],r['rival']) for r in read_ledger(a.out/'rivals.jsonl')}
        single = rows.task.kind=='classify' and len(rows.task.text)==1 # of these n-grams are asked too, which a study asks of word order alone
        for rival in dict.fromkeys((*rivals_of(rows.task),*['n-grams']*single)):
            if (name,rival) in done: continue
            before = time.process_time()
            line = dict(rival_line(rows, rival, a.out, text), task=name, cpu_seconds=round(time.process_time()-before, 1))
            append_line(a.out/'rivals.jsonl', line)
            print(name, rival, line['metric'], line['score'], line['cpu_seconds'], flush=True)
