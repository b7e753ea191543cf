"""Does pre-training help tags and questions? Runs of `pretrain`, fine-tuned beside random starts with five seeds each.

    python tags_and_questions.py DATA OUT --runs tiny=RUN hour=RUN --tasks chunk_200 …

DATA has tagging/{chunk,ner-es,pos-en}/ and squad/{train,dev}-v1.1.json.xz. Small files are cut from them into OUT/data.
A run named NAME=text is pre-trained here: `tiny` on the sentences of the training file of DATA/tagging/NAME. Every task
is fine-tuned as `finetune` does by itself. The studies stay in OUT/studies, so the same command goes on where it was
stopped; their lines and statistics are in OUT/NAME.json.
"""
import argparse, json, lzma
from electra_nb import finetune, pretrain
from electra_nb.training.folder import versions
from pathlib import Path

n_words = 50 # longest context of a question

def sentences(path):
    "The sentences of a file with a word a line."
    return [s for s in lzma.open(path, 'rt', encoding='utf-8').read().split('\n\n') if s.strip()]

def write(path, text):
    if not path.exists(): path.write_text(text)

def write_sentences(path, found): write(path, '\n\n'.join(found)+'\n')

def types(sentence, at):
    "The kinds of spans, or the word classes, in a sentence whose tags are in column `at`."
    return {l.split()[at].split('-')[-1] for l in sentence.splitlines() if l.strip() and l[0]!='#'}

def known_only(dev, train, at):
    "The sentences without a type that the training sentences lack: nothing could be learned about it."
    known = set().union(*(types(s, at) for s in train))
    return [s for s in dev if types(s, at)<=known]

def short_contexts(path):
    "The paragraphs of a file in SQuAD's format that are short."
    found = json.load(lzma.open(path))
    for article in found['data']: article['paragraphs'] = [p for p in article['paragraphs'] if len(p['context'].split())<=n_words]
    return dict(found, data=[a for a in found['data'] if a['paragraphs']])

def write_files(data, out):
    "Cut the files of all tasks; name -> (training file, file to score, epochs)."
    tags = data/'tagging'
    pos = sentences(tags/'pos-en/dev.conllu.xz') # one file, so that its end is scored
    cut = dict(chunk=('txt', sentences(tags/'chunk/train.txt.xz'), sentences(tags/'chunk/test.txt.xz')),
        ner=('txt', sentences(tags/'ner-es/train.txt.xz'), sentences(tags/'ner-es/testb.txt.xz')), pos=('conllu', pos[:1500], pos[1500:]))
    out.mkdir(parents=True, exist_ok=True)
    tasks = {}
    for name,(ending,train,dev) in cut.items():
        at = 3 if ending=='conllu' else -1
        write_sentences(out/f'{name}_dev.{ending}', known_only(dev[:1000], train[:200], at))
        for n,epochs in ((200,30.),(2000,5.)):
            write_sentences(out/f'{name}_{n}.{ending}', train[:n])
            tasks[f'{name}_{n}'] = out/f'{name}_{n}.{ending}',out/f'{name}_dev.{ending}',epochs
    for split in ('train','dev'): write(out/f'squad_{split}.json', json.dumps(short_contexts(data/f'squad/{split}-v1.1.json.xz')))
    return dict(tasks, squad=(out/'squad_train.json',out/'squad_dev.json',2.))

def own_run(data, out, name, seed=0):
    "Pre-train `tiny` on the sentences of a task, without their tags."
    run,text = out/f'runs/{name}',out/f'data/{name}.txt'
    found = sentences(data/f'tagging/{name}/train.txt.xz')
    write_sentences(text, (' '.join(l.split()[0] for l in s.splitlines() if l.strip()) for s in found))
    if not (run/'end.json').exists(): pretrain(corpus=str(text), out=str(run), seed=seed, threads=1)
    return run

def record(study):
    "The lines and statistics of a study."
    tables = dict(statistics=study.statistics(), gain=study.compare())
    return dict(lines=study.lines, **{k:json.loads(t.reset_index().to_json(orient='records')) for k,t in tables.items()})

def tune(run, out, name, train, dev, epochs, seeds):
    "A task with several seeds, and with as many from a random start."
    kind = dict(max_len=128, max_question=24, doc_stride=48) if name=='squad' else dict(tag_head='linear')
    return record(finetune(str(run), data=str(train), dev=str(dev), epochs=epochs, runs=seeds, baseline=True,
        threads=1, out=str(out), **kind))

def read(path): return json.loads(path.read_text()) if path.exists() else {}

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('data','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--runs', nargs='+', required=True, help='NAME=RUN, a run folder; or NAME=text')
    ask.add_argument('--tasks', nargs='+', default=None)
    ask.add_argument('--seeds', type=int, default=5)
    a = ask.parse_args()
    tasks = write_files(a.data, a.out/'data')
    for name,where in (o.split('=', 1) for o in a.runs):
        run = own_run(a.data, a.out, name) if where=='text' else where
        path = a.out/f'{name}.json'
        for task in a.tasks or tasks:
            if task in read(path).get('studies', {}): continue
            study = tune(run, a.out/'studies'/name/task, task, *tasks[task], a.seeds)
            about = dict(run=name, recipe=json.loads((Path(run)/'recipe.json').read_text()), versions=versions(), studies={})
            found = read(path) or about
            found['studies'][task] = study
            path.write_text(json.dumps(found, indent=1)+'\n')
            print(name, task, 'done', flush=True)
