"Whole processes of fine-tuning: kill and go on, no network, silence when piped; and real GLUE files where they lie beside the project."
import json, os, shlex, signal, subprocess, sys, threading, time
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np, pandas as pd, pytest
from sklearn.metrics import accuracy_score, matthews_corrcoef

from forked import Program
from quick import rest
from test_process import env, run, run_fresh, text

glue = Path(__file__).parents[2]/'shared'/'data'/'glue'
real = pytest.mark.skipif(not glue.is_dir(), reason='the GLUE folder is not beside the project')

@pytest.fixture(scope='module')
def tmp(tmp_path_factory):
    "A folder with a short pre-training and labelled rows."
    tmp = tmp_path_factory.mktemp('finetuning')
    (tmp/'texts.txt').write_text(text)
    rc,_,err = run(tmp, "from electra_nb import pretrain; pretrain(corpus='texts.txt', steps=5, bs=4, max_len=32, device='cpu')")
    assert rc==0, err
    lines = [l for l in text.split('\n') if l]
    rows = pd.DataFrame(dict(text=lines, verb=['a' if 'sees' in l else 'b' if 'asks' in l else 'c' for l in lines])).drop_duplicates('text')
    rows.to_csv(tmp/'rows.csv', index=False)
    return tmp

def job(out, runs=10, at_once=1):
    return f"from electra_nb import finetune; finetune(data='rows.csv', runs={runs}, epochs=2, bs=8, keep=2, device='cpu', out={out!r}, at_once={at_once})"

def lines(study): return [{k:v for k,v in json.loads(l).items() if k not in ('seconds','date')} for l in (study/'results.jsonl').read_text().splitlines()]

def test_killed_and_continued(tmp):
    "kill -9 at two moments of a study of six seeds: the same command goes on, each run is there once, and with the same scores."
    rc,out,err = run_fresh(tmp, job('whole', 6))
    assert (rc,err)==(0,''), err
    assert '\r' not in out and '6 runs' in out
    for n in (1, 3):
        p = Program(job('killed', 6), tmp, env(tmp))
        path,end = tmp/'killed'/'results.jsonl',time.time()+120
        while time.time()<end and not (path.exists() and path.read_text().count('\n')>=n): time.sleep(.02)
        p.send_signal(signal.SIGKILL)
        p.communicate()
    before = lines(tmp/'killed')
    assert 3<=len(before)<6
    rc,_,err = run(tmp, job('killed', 6))
    assert (rc,err)==(0,''), err
    assert lines(tmp/'killed')==lines(tmp/'whole')
    kept = [sorted(p.name for p in (tmp/s/'models').iterdir()) for s in ('whole','killed')]
    assert kept[0]==kept[1] and len(kept[0])==2

def test_environment_of_a_cluster(tmp):
    "Variables of a scheduler for many processes do not disturb a single one."
    rc,out,err = run(tmp, job('cluster', runs=1), WORLD_SIZE='2', RANK='1', LOCAL_RANK='1')
    assert rc==0 and '1 run' in out, err
    assert len(lines(tmp/'cluster'))==1

def test_interrupted(tmp):
    "Ctrl-C says how to go on, and sets the exit code of the command."
    argv = ['--data', 'rows.csv', '--runs', '500', '--epochs', '2', '--device', 'cpu', '--out', 'stopped']
    p = Program('import sys; from electra_nb.commands import finetune; sys.exit(finetune())', tmp, env(tmp), argv)
    path,end = tmp/'stopped'/'results.jsonl',time.time()+120
    while time.time()<end and not path.exists(): time.sleep(.05)
    p.send_signal(signal.SIGINT)
    out,err = p.communicate(timeout=60)
    assert p.returncode==130 and 'the same call does the rest' in out, (out, err)

def wait(f, seconds=120):
    "Wait until `f()` is true."
    end = time.time()+seconds
    while not f():
        assert time.time()<end
        time.sleep(.05)

def children(pid):
    "Processes that a process has started to do runs (loky's name stands in their arguments)."
    def read(p):
        try: return (p/'stat').read_text().rpartition(')')[2].split()[1],(p/'cmdline').read_bytes()
        except OSError: return '',b'' # it has just ended
    return [int(p.name) for p in Path('/proc').glob('[0-9]*') for parent,args in [read(p)] if parent==str(pid) and b'LokyProcess' in args]

def alive(pids): return [p for p in pids if Path(f'/proc/{p}/cmdline').exists() and Path(f'/proc/{p}/cmdline').read_bytes()]

@pytest.fixture(scope='module')
def one(tmp):
    "A study of four runs, one after the other."
    rc,_,err = run(tmp, job('one', 4))
    assert (rc,err)==(0,''), err
    return tmp/'one'

def test_at_once(tmp, one):
    "Runs side by side give the study of runs one after the other; kill -9 leaves no process behind, and the same command goes on."
    p = Program(job('two', 4, at_once=2), tmp, env(tmp))
    wait((tmp/'two'/'results.jsonl').exists)
    workers = children(p.pid)
    assert len(workers)==2
    p.kill()
    p.communicate()
    assert len(lines(tmp/'two'))<4
    wait(lambda: not alive(workers), 30)
    rc,_,err = run(tmp, job('two', 4, at_once=2))
    assert (rc,err)==(0,''), err
    assert lines(tmp/'two')==lines(one)
    assert not list((tmp/'two'/'models').glob('.*'))
    kept = [{p.relative_to(tmp/s):p.read_bytes() for p in sorted((tmp/s/'models').rglob('model.safetensors'))} for s in ('one','two')]
    assert kept[0]==kept[1] and len(kept[0])==2

@pytest.mark.parametrize('end', rest(['ctrl-c','late','worker'], 'late'))
def test_at_once_ends(tmp, end):
    "Ctrl-C, which reaches all processes of a terminal, and a worker that is killed, end all of them with one sentence."
    p = Program(job(end, 500, at_once=2), tmp, env(tmp)) # leads a process group of its own
    wait(lambda: len(children(p.pid))==2)
    if end!='ctrl-c': wait((tmp/end/'results.jsonl').exists) # else they are still importing
    workers = children(p.pid)
    if end=='worker': os.kill(workers[0], signal.SIGKILL)
    else: os.killpg(p.pid, signal.SIGINT)
    out,err = p.communicate(timeout=60)
    wait(lambda: not alive(workers), 30)
    if end=='worker': assert p.returncode==1 and 'has ended before it was done' in err and 'smaller at_once' in err
    else: assert p.returncode==130 and 'the same call does the rest' in out and 'Traceback' not in err, err

@pytest.mark.slow
def test_on_ray(tmp, one):
    "Runs on a Ray cluster, here of this machine's cores, give the same study, and a run that fails says why."
    rc,_,err = run(tmp, job('ray', 4).replace('at_once=1', 'ray=True'))
    assert (rc,err)==(0,''), err
    assert lines(tmp/'ray')==lines(one)
    rc,_,err = run(tmp, job('ray_fails', 2).replace('at_once=1', 'ray=True').replace('epochs=2', 'epochs=2, warmup=100'))
    assert rc==1 and err.strip().splitlines()[-1].startswith('ValueError: warmup=100 steps are more than')

@pytest.mark.slow
def test_at_once_stopped_between_jobs(monkeypatch):
    "A pool that is stopped while jobs are left ends quietly, whatever it was doing."
    from electra_nb.lab.speed.pools import Processes
    errors = []
    monkeypatch.setattr(threading, 'excepthook', errors.append)
    for n in range(8):
        pool = Processes(2)
        calls = [pool.submit(time.sleep, .02) for _ in range(4)]
        for _ in range(n):
            pool.result(calls.pop(0))
            calls.append(pool.submit(time.sleep, .02))
        pool.result(calls[0])
        pool.close()
    assert not errors

@pytest.mark.slow
def test_at_once_in_a_script(tmp):
    "A script needs no guard, and a run that fails says why."
    (tmp/'script.py').write_text(job('script', 2, at_once=2))
    p = subprocess.run([sys.executable, 'script.py'], cwd=tmp, env=env(tmp), capture_output=True, text=True, timeout=240)
    assert (p.returncode,p.stderr)==(0,''), p.stderr
    assert len(lines(tmp/'script'))==2
    rc,_,err = run(tmp, job('fails', 2, at_once=2).replace('epochs=2', 'epochs=2, warmup=100'))
    assert rc==1 and 'warmup=100 steps are more than' in err

@pytest.mark.slow
@pytest.mark.parametrize('seconds', [6,9,12])
def test_worker_killed_early(tmp, seconds):
    "A worker that is killed while it begins ends the call: nothing waits for ever for a message that came in part."
    out = f'early{seconds}'
    p = Program(job(out, 500, at_once=2), tmp, env(tmp))
    wait(lambda: len(children(p.pid))==2)
    workers = children(p.pid)
    time.sleep(seconds/10)
    os.kill(workers[1], signal.SIGKILL)
    _,err = p.communicate(timeout=120)
    assert p.returncode==1 and 'has ended before it was done' in err, err
    wait(lambda: not alive(workers), 30)

def test_one_writer(tmp):
    "A second process in the same study is refused."
    p = Program(job('locked', 500), tmp, env(tmp))
    end = time.time()+120
    while time.time()<end and not (tmp/'locked'/'results.jsonl').exists(): time.sleep(.05)
    rc,_,err = run(tmp, job('locked', 500))
    p.kill()
    p.communicate()
    assert rc!=0 and 'another process' in err

@pytest.mark.slow
def test_nothing_at_hand(tmp):
    "`finetune()` takes the last run and the built-in task, and sets it beside guessing and a random start; no network."
    block = "import socket\ndef no(*a, **k): raise RuntimeError('network')\nsocket.socket.connect = socket.getaddrinfo = no\n"
    rc,out,err = run(tmp, block+"from electra_nb import finetune; finetune(epochs=.2)")
    assert rc==0 and err=='', err
    assert 'library, seed 0, pretrained: accuracy' in out and 'library, seed 0, random: accuracy' in out and 'guessing 10.0' in out

ours = """
import json, sys
from electra_nb import Study, finetune
from electra_nb.lab.study.study import predict_rows, saved_task
from electra_nb.glue.kinds import kind_of
for data,texts in json.loads(sys.argv[1]).items():
    head = dict(tag_head='linear') if 'tags' in data else dict(pair_head='together') if 'pairs' in data else {}
    study = finetune(data=data, runs=1, epochs=3, bs=8, lr=2e-3, device='cpu', out='open '+data, **head)
    print(json.dumps([str(study.models()[0]),study.predict(texts).to_dict('records')]), file=sys.stderr)
"""
theirs = """
import json, sys, torch
from transformers import AutoConfig, AutoModel, AutoTokenizer, pipeline
import transformers
(texts,of_texts),(pairs,of_pairs),(tags,of_tags),(asked,of_asked) = json.loads(sys.argv[1])
def opened(cls, folder):
    model,info = getattr(transformers, cls).from_pretrained(folder, output_loading_info=True)
    assert not any(info[k] for k in ('missing_keys','mismatched_keys')) and (cls=='AutoModel' or not info['unexpected_keys']), info
    return model,AutoTokenizer.from_pretrained(folder)
for folder in (texts,pairs,tags,asked):
    assert AutoConfig.from_pretrained(folder).model_type=='electra'
    opened('AutoModel', folder)
for folder,inputs,rows in ((texts, %(texts)r, of_texts),(pairs, [dict(text=a, text_pair=b) for a,b in %(pairs)r], of_pairs)):
    opened('AutoModelForSequenceClassification', folder)
    for batch in (1, 3): # alone, and beside padding
        for a,b in zip(pipeline('text-classification', folder, device='cpu', batch_size=batch)(inputs), rows):
            assert a['label']==b['label'] and abs(a['score']-b['probability'])<1e-5, (a, b)
opened('AutoModelForTokenClassification', tags)
found = pipeline('token-classification', tags, device='cpu', aggregation_strategy='none', ignore_labels=[])(%(sentence)r)
first = [o for o in found if o['start']==0 or %(sentence)r[o['start']-1]==' ']
assert [o['entity'] for o in first]==[o['tag'] for o in of_tags]
assert all(abs(float(a['score'])-b['probability'])<1e-5 for a,b in zip(first, of_tags))
model,tok = opened('AutoModelForQuestionAnswering', asked)
(question,context), = %(asked)r
enc = tok(question, context, return_tensors='pt')
with torch.no_grad(): out = model(**enc)
here = torch.tensor([s==1 for s in enc.sequence_ids(0)])
starts,ends = (o[0].masked_fill(~here, -1e4) for o in (out.start_logits,out.end_logits))
n = len(here)
spans = (starts[:,None]+ends[None]).masked_fill(~torch.ones(n, n).triu().bool(), -1e9)
a,b = divmod(int(spans.argmax()), n)
(answer,), (x,y) = of_asked,(enc.token_to_chars(a).start,enc.token_to_chars(b).end)
assert answer['answer']==context[x:y], (answer, context[x:y])
assert not any(m.split('.')[0]=='electra_nb' for m in sys.modules)
"""

def write_asked(path, n=8):
    context = 'The baker waits near the river.'
    ask = [dict(id=str(i), question=f'Who waits {i}?', answers=[dict(text='baker', answer_start=4)]) for i in range(n)]
    path.write_text(json.dumps(dict(version='1', data=[dict(title='t', paragraphs=[dict(context=f'{context} {q["id"]}', qas=[q])]) for q in ask])))

def test_plain_transformers(tmp):
    "What fine-tuning leaves for texts, pairs, tags and questions is an ordinary folder: transformers alone gives the same answers."
    (tmp/'pairs.csv').write_text('sentence1,sentence2,label\n'+''.join(f'a {a},a {b},{a==b}\n' for a in 'vwxyz' for b in 'vwxyz'))
    (tmp/'tags.conll').write_text(tagged_sentences(60))
    write_asked(tmp/'asked.json')
    given = {'rows.csv':['The baker sees the fisher.','Who asks?','The baker sees the fisher in the town, and asks.'], 'pairs.csv':[['a x','a x'],['a x','a y z w']],
        'tags.conll':['Anna visits London'], 'asked.json':[['Who waits?','The baker waits near the river.']]}
    rc,_,err = run(tmp, ours, json.dumps(given))
    assert rc==0, err
    found = [json.loads(l) for l in err.splitlines() if l.startswith('[')]
    code = theirs % dict(texts=given['rows.csv'], pairs=given['pairs.csv'], sentence=given['tags.conll'][0], asked=given['asked.json'])
    p = subprocess.run([sys.executable, '-c', code, json.dumps(found)], cwd=tmp, env=dict(env(tmp), HF_HUB_OFFLINE='1', PYTHONPATH=''), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500)
    assert p.returncode==0 and 'custom code' not in p.stdout+p.stderr, p.stderr
    for folder,_ in found:
        card = (tmp/folder/'README.md').read_text()
        assert all(w in card for w in ('license:','| dev |',' train, ',folder,'from_pretrained' if 'asked' in folder else 'pipeline')), card
        (tmp/folder/'README.md').write_text(card.replace('license: unknown', 'license: mit')) # and it can still be read
    rc,out,err = run(tmp, f"from electra_nb.lab.study.study import answer; print(answer({found[0][0]!r}, ['Who asks?']))")
    assert rc==0 and 'label' in out, err

trains = """
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments
import pandas as pd, sys
tok = AutoTokenizer.from_pretrained('mine/discriminator')
model = AutoModelForSequenceClassification.from_pretrained('mine/discriminator', num_labels=3)
df = pd.read_csv('rows.csv')
rows = Dataset.from_dict(dict(text=df.text.tolist(), labels=['abc'.index(v) for v in df.verb])).map(lambda r: tok(r['text']), remove_columns='text')
args = TrainingArguments('trained', num_train_epochs=1, use_cpu=True, report_to='none', disable_tqdm=True, save_strategy='no', seed=0)
trainer = Trainer(model, args, train_dataset=rows, processing_class=tok, data_collator=DataCollatorWithPadding(tok))
trainer.train()
trainer.save_model('trained')
assert 'electra_nb' not in sys.modules
"""

def test_trainer(tmp):
    "The Trainer of transformers takes a run's encoder, and what it saves is fine-tuned here."
    run_folder, = (f.parent for f in (tmp/'runs').glob('*/discriminator'))
    (tmp/'mine').symlink_to(run_folder)
    p = subprocess.run([sys.executable,'-c',trains], cwd=tmp, env=dict(env(tmp), HF_HUB_OFFLINE='1', PYTHONPATH=''), capture_output=True, text=True, timeout=500)
    assert p.returncode==0, p.stderr[-2000:]
    rc,_,err = run(tmp, "from electra_nb import finetune; finetune('trained', data='rows.csv', epochs=1, device='cpu', out='after')")
    assert rc==0 and len(lines(tmp/'after'))==1, err

def test_paper_head_is_refused(tmp):
    "The paper's head for answers has no class in transformers: its folder is refused there, and its card has the line that works."
    write_asked(tmp/'joint.json')
    rc,out,err = run(tmp, "from electra_nb import finetune; finetune(data='joint.json', runs=1, epochs=1, head='joint', device='cpu', out='joint')")
    assert rc==0, err
    folder = next((tmp/'joint'/'models').iterdir())
    rc,out,err = run_fresh(tmp, f"from transformers import AutoModelForQuestionAnswering; AutoModelForQuestionAnswering.from_pretrained({str(folder)!r})")
    assert rc!=0 and 'electra_answers' in err
    code = (folder/'README.md').read_text().split('```python\n')[1].split('```')[0]
    rc,out,err = run(tmp, code)
    assert rc==0 and 'answer' in out, err

def test_next_command(tmp):
    "The command that a study prints at its end works, offline, for every kind of task; the report that it names is there."
    (tmp/'two.csv').write_text('sentence1,sentence2,label\n'+''.join(f'a {a},a {b},{a<b}\n' for a in 'stuvwxyz' for b in 'stuvwxyz'))
    (tmp/'few.conll').write_text(tagged_sentences(20))
    write_asked(tmp/'asked.json')
    files = {'rows.csv':3, 'two.csv':30, 'few.conll':.2, 'asked.json':.2} # name -> epochs
    calls = [f"finetune(data={f!r}, runs=1, epochs={n}, device='cpu', out='next {f}')" for f,n in files.items()]
    rc,out,err = run(tmp, '\n'.join(['from electra_nb import finetune',*calls]))
    assert (rc,err)==(0,''), err
    said = [shlex.split(l) for l in out.splitlines() if l.strip().startswith('python')]
    assert [argv[:2] for argv in said]==[['python','-c']]*8, out
    rc,out,err = run(tmp, '\n'.join(argv[2] for argv in said), HF_HUB_OFFLINE='1')
    assert rc==0 and [w in out for w in ('label','tag','answer')]==[True]*3, (out, err)
    assert all((tmp/f'next {f}'/'report.html').exists() for f in ('rows.csv','asked.json'))

def tagged_sentences(n=200):
    "Sentences with names of people and towns, a word a line."
    rng = np.random.default_rng(0)
    people,towns = ('Ann','Ben Ali','Eva','Kim Lee'),('Rome','New York','Oslo')
    def word(w, tag): return [f'{v} {"I" if i and tag!="O" else tag[0]}{tag[1:]}' for i,v in enumerate(w.split())]
    def sentence(): return [*word(rng.choice(people), 'B-PER'),*word(rng.choice(['sees','asks','visits']), 'O'),*word(rng.choice(towns), 'B-LOC'),*word('.', 'O')]
    return '\n\n'.join('\n'.join(sentence()) for _ in range(n))+'\n'

def test_own_tagged_sentences(tmp):
    "200 sentences with tags: one call makes a folder that a pipeline of plain transformers tags with."
    (tmp/'names.conll').write_text(tagged_sentences())
    tag = ("from electra_nb import finetune; finetune(data='names.conll', runs=2, epochs=8, bs=8, valid=.3, lr=2e-3, tag_head='linear', "
        "device='cpu', out='names')")
    rc,out,err = run(tmp, tag)
    assert (rc,err)==(0,'') and 'words in 1, tags in the last column: spans' in out, err
    assert [r['metric'] for r in lines(tmp/'names')]==['conlleval_f1']*2 and lines(tmp/'names')[0]['failure']==''
    code = """
import sys, torch
from pathlib import Path
from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline
folder = str(next(Path('names/models').iterdir()))
model,info = AutoModelForTokenClassification.from_pretrained(folder, output_loading_info=True)
assert not any(info[k] for k in ('missing_keys','unexpected_keys','mismatched_keys')), info
assert 'electra_nb' not in sys.modules
found = pipeline('token-classification', folder, device='cpu')('Ann visits New York .')
from electra_nb.lab.study.study import Study
study = Study('names', device='cpu')
mine = study.predict('Ann visits New York .')
ids = {o['index']:o for o in found}
words = AutoTokenizer.from_pretrained(folder)('Ann visits New York .'.split(), is_split_into_words=True).word_ids()
starts = [words.index(w) for w in range(5)]
assert [ids[s]['entity'] if s in ids else 'O' for s in starts]==list(mine.tag), (ids,mine)
assert all(abs(ids[s]['score']-p)<1e-5 for s,p in zip(starts, mine.probability) if s in ids)
print(mine.tag.tolist())
"""
    rc,out,err = run_fresh(tmp, code, HF_HUB_OFFLINE='1')
    assert rc==0, err

@real
def test_real_rows():
    "Every task of the GLUE folder reads with its official counts, or says what is missing."
    from electra_nb.glue.loading import load_task
    from electra_nb.glue.tasks import parse_task, tasks
    replaced = dict(qnli='train=train_from_squad.tsv.xz', mnli='train=train_subset.tsv', qqp='train=train_subset.tsv,dev=dev_subset.tsv')
    for t in tasks:
        name,files = parse_task(f'{t}:{replaced.get(t, "")}')
        data = load_task(name, glue, files)
        assert {'train','dev'}<=set(data.splits)
        for s,rows in data.splits.items():
            if s not in files and tasks[t].splits[s].n: assert len(rows)==tasks[t].splits[s].n
        absent = [s for s in tasks[t].splits if s not in data.splits]
        assert len(data.missing)==len(absent)

@real
def test_real_scores(tmp):
    "Scores of short runs on CoLA and RTE are those of scikit-learn over the written predictions and the original labels."
    rc,_,err = run(tmp, f"from electra_nb import finetune; finetune(tasks='cola rte', glue_dir={str(glue)!r}, epochs=.2, device='cpu', out='glue', submission='glue.zip')")
    assert rc==0, err
    ledger = {r['task']:r for r in lines(tmp/'glue')}
    gold = dict(cola=[l.split('\t')[1] for l in (glue/'CoLA'/'dev.tsv').read_text().splitlines()], rte=[l.split('\t')[3] for l in (glue/'RTE'/'dev.tsv').read_text().splitlines()[1:]])
    for task,f in dict(cola=matthews_corrcoef, rte=accuracy_score).items():
        made = pd.read_csv(tmp/'glue'/'predictions'/f'{task}-pretrained-seed0-dev.tsv', sep='\t', dtype=str)
        assert made.label.tolist()==gold[task]
        assert ledger[task]['score']==pytest.approx(100*f(gold[task], made.prediction.tolist()))
    import zipfile
    with zipfile.ZipFile(tmp/'glue.zip') as z: assert {n:len(z.read(n).splitlines()) for n in z.namelist()}=={'CoLA.tsv':1064, 'RTE.tsv':3001}

def test_published_layout(tmp):
    "A folder laid out like google/electra-small-discriminator (weights, config.json, vocab.txt) is fine-tuned as it is."
    code = """
from transformers import ElectraConfig, ElectraForPreTraining
from electra_nb import finetune, Study
from electra_nb.text.tokenizer import tiny_tokenizer
words = tiny_tokenizer().get_vocab()
ElectraForPreTraining(ElectraConfig(vocab_size=len(words), embedding_size=32, hidden_size=64, num_hidden_layers=2, num_attention_heads=1, intermediate_size=128)).save_pretrained('google/small')
open('google/small/vocab.txt', 'w').write(''.join(w+chr(10) for w in sorted(words, key=words.get)))
texts = [f'the {a} is {b}' for a in ('fish','bread','river','book','dog') for b in ('good','bad')]
study = finetune('google/small', data=dict(text=texts, mood=['glad','sad']*5), valid=.4, epochs=1, device='cpu', out='published')
assert len(Study('published').lines)==1 and study.lines[0]['score'] is not None
one = dict(text=texts, score=[.5*i for i in range(10)])
alone = finetune('google/small', data=one, dev=dict(text=texts[:1], score=[1.5]), epochs=1, device='cpu', out='alone')
assert alone.lines[0]['failure']=='undefined' and alone.lines[0]['score'] is None
for name in ('alone','published'):
    for p in __import__('pathlib').Path(name).rglob('*.json*'): assert 'NaN' not in p.read_text() and 'Infinity' not in p.read_text(), p"""
    rc,_,err = run(tmp, code)
    assert rc==0, err

@real
def test_wnli_is_against_its_training_rows():
    "What explain/paper says of WNLI, from its files."
    train,dev = (pd.read_csv(glue/'WNLI'/f'{s}.tsv', sep='\t', quoting=3) for s in ('train','dev'))
    known = dev[dev.sentence1.isin(train.sentence1)]
    def nearest(row):
        others = train[train.sentence1==row.sentence1]
        alike = [SequenceMatcher(None, row.sentence2.split(), s.split()).ratio() for s in others.sentence2]
        return others.label.iloc[int(np.argmax(alike))]
    same = sum(nearest(r)==r.label for r in known.itertuples())
    assert (len(dev),len(known),len(known)-same,round(100*(dev.label==0).mean(), 1))==(71,65,62,56.3)

def test_builtin_tasks_know_whose_they_are(monkeypatch, tmp_path):
    "The rows of the built-in tasks are chosen by the model that is fine-tuned, so that it has not read them."
    from electra_nb import finetuning
    from electra_nb.model.hf import save_models
    from electra_nb.model.towers import get_models, sizes
    from electra_nb.text.docstrings import builtin_docs, split_sentences
    from electra_nb.text.corpus import is_held_out
    from electra_nb.text.tokenizer import tiny_tokenizer
    tok = tiny_tokenizer()
    save_models(*get_models(sizes['tiny'], len(tok)), tmp_path/'run', tok)
    (tmp_path/'run'/'recipe.json').write_text(json.dumps(dict(size='hour', corpus='builtin', recipe=dict(valid=.005))))
    class Seen(Exception): pass
    def stop(together, rows, *rest): raise Seen(rows)
    monkeypatch.setattr(finetuning, 'check_together', stop)
    with pytest.raises(Seen) as seen: finetuning.finetune(tmp_path/'run', device='cpu', out=tmp_path/'study')
    order = seen.value.args[0][0]
    unread = {s for d in builtin_docs() if is_held_out(d, .005) for s in split_sentences(d)}
    assert len(order.splits['dev'])>20
    for rows in order.splits.values(): assert {t for t,y in zip(rows.text_a, rows.labels) if not y}<=unread
