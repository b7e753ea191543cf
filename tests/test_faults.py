"Faults made on purpose, in real processes: after each, the same call goes on and ends bit-equal to a run that nothing happened to."
import json, os, pandas as pd, random, re, resource, shutil, signal, subprocess, time, warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from electra_nb import diagnose, export, finetune, open_run, predict, pretrain, report, score, Study
from electra_nb.core.files import WriteError
from electra_nb.lab.study.folder import append_line, read_ledger
from electra_nb.training.device import undisturbed
from forked import Program
from quick import rest
from test_process import env, run_fresh, text, timeless, weights

common = dict(corpus='texts.txt', steps=30, bs=4, max_len=32, eval_every=10, log_every=3, save_every=5, device='cpu')
program = """
import json, os, resource, sys
import electra_nb.lab.reports.doctor
from electra_nb import pretrain
from electra_nb.training.steps import CostLimit
CostLimit.share = float('inf') # save as often as the run says, however long that takes here
job = json.loads(sys.argv[1])
try:
    exec(job['before'])
    pretrain(**job['kw'], cbs=globals().get('cbs'))
except Exception as e:
    print(type(e).__name__, e, flush=True)
    sys.exit(1)
"""

class Runs:
    "Runs in a folder, each in a process."
    def __init__(self, tmp): self.tmp = tmp

    def start(self, out, before='', **kw):
        job = dict(before=before, kw={**common, 'out':out, 'cache':f'cache_{Path(out).name}', **kw})
        return Program(program, self.tmp, env(self.tmp, TOKENIZERS_PARALLELISM='false'), [json.dumps(job)])

    def end(self, p):
        "Exit code (negative: the signal that killed it) and what was said."
        said = ''.join(p.communicate())
        return p.returncode,said

    def __call__(self, out, before='', **kw): return self.end(self.start(out, before, **kw))

@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    tmp = tmp_path_factory.mktemp('faults')
    (tmp/'texts.txt').write_text(text)
    runs = Runs(tmp)
    assert runs('whole')[0]==0
    assert runs('again')[0]==0
    same(runs, 'again')
    return runs

def same(runs, name, rests=True):
    "Weights and log of a run are those of the undisturbed one, each step once, and nothing is left lying about."
    a,b = runs.tmp/'whole',runs.tmp/name
    want,got = weights(a),weights(b)
    assert [k for k in want if not want[k].equal(got[k])]==[]
    assert timeless(a)==timeless(b)
    if rests: assert not [p for p in b.rglob('.*') if p.name not in ('.lock','.holder')]

def slow(seconds): return f"""
import time
class Slow(electra_nb.lab.reports.doctor.Callback):
    def after_step(self): time.sleep({seconds})
cbs = [Slow()]
"""

def wait_for(found, seconds=60):
    end = time.time()+seconds
    while time.time()<end and not found(): time.sleep(.002)

@pytest.mark.slow
def test_twenty_kills(runs):
    "kill -9 at 20 random moments, a third of them inside a save or while data is prepared, spread over four runs."
    rng,killed = random.Random(0),0
    for i in range(20):
        name = f'killed{i%4}'
        home = runs.tmp/name/'checkpoints'
        p = runs.start(name, slow(.05))
        if i%3==0: wait_for(lambda: list(home.glob('.step_*.tmp')) or list((runs.tmp/f'cache_{name}').rglob('.*.tmp')), 2)
        else: time.sleep(rng.uniform(0, 1.5))
        p.kill()
        rc = runs.end(p)[0]
        assert rc in (-9,0)
        killed += rc==-9
    assert killed>=4 # the first of each run at least: its steps take 1.5 s on any machine
    for i in range(4):
        assert runs(f'killed{i}')[0]==0
        same(runs, f'killed{i}')

count = """
import os, signal
n = [0]
def counted(f):
    def g(*a, **k):
        n[0] += 1
        if n[0]==AT: os.kill(os.getpid(), signal.SIGKILL)
        return f(*a, **k)
    return g
os.fsync,os.rename,os.replace = map(counted, (os.fsync,os.rename,os.replace))
"""

def test_death_at_durable_calls(runs):
    "Death just before the n-th fsync or rename: every third of the first sixty, then every twentieth, until the run ends by itself."
    at,n = 1,0
    while True:
        rc,said = runs('durable', count.replace('AT', str(at)))
        if rc==0: break
        assert rc==-9, said
        at,n = at+(3 if at<60 else 20),n+1
        if at>60 or n%4==0: shutil.rmtree(runs.tmp/'cache_durable', ignore_errors=True)
        if at>400: pytest.fail('never finished')
    assert n>=15
    same(runs, 'durable')

@pytest.mark.slow
def test_stopped_after_every_step(runs):
    "A run that is stopped and resumed after each single step, over an evaluation, lines of the log and checkpoints, and then ends."
    for i in range(12):
        rc,said = runs('steps', max_hours=1e-9)
        assert rc==0 and f'after step {i+1} of 30, and saved' in said, said
    assert runs('steps')[0]==0
    same(runs, 'steps')

def test_disk_full(runs):
    "Files may not grow beyond a size: in the preparation, then in a checkpoint. The message names the path; afterwards the run goes on."
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({0},{0}))"
    rc,said = runs('full', limit.format(500))
    assert rc==1 and 'could not be written' in said and 'larger than allowed' in said, said
    size = max(p.stat().st_size for p in (runs.tmp/'whole'/'checkpoints'/'step_30').rglob('*.safetensors'))
    rc,said = runs('full', limit.format(size//2))
    assert rc==1 and 'step_2' in said and 'could not be written' in said and 'Traceback' not in said, said
    rc,said = runs('full')
    assert rc==0, said
    same(runs, 'full')

def test_disk_full_at_the_ledger(tmp_path):
    "A run of a study that cannot be noted says so; the lines before it stay."
    path,(soft,hard) = tmp_path/'results.jsonl',resource.getrlimit(resource.RLIMIT_FSIZE)
    append_line(path, dict(task='rte', score=61.2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size+5,hard))
    try:
        with pytest.raises(WriteError, match='results.jsonl could not be written: .* larger than allowed'): append_line(path, dict(task='cola', score=9.5))
    finally: resource.setrlimit(resource.RLIMIT_FSIZE, (soft,hard))
    assert [r['task'] for r in read_ledger(path)]==['rte']

def test_run_in_the_folder_of_its_text(runs):
    "What a run writes is no part of its corpus, so the same call goes on."
    (runs.tmp/'books').mkdir()
    shutil.copy(runs.tmp/'texts.txt', runs.tmp/'books')
    for kw in (dict(max_hours=1e-9),{}):
        rc,said = runs('books/run', corpus='books', **kw)
        assert rc==0, said
    same(runs, 'books/run')

fill = """
import shutil
from fastai.callback.core import Callback
class Fill(Callback):
    def after_step(self):
        if self.learn.steps.done==12: open('small/ballast', 'wb').write(bytes(shutil.disk_usage('small').free-100_000))
cbs = [Fill()]
"""

def test_small_disk(runs):
    "A disk that is too small for the run is refused before the first step; one that fills up later stops it with the checkpoints whole."
    small = runs.tmp/'small'
    small.mkdir()
    mount = lambda size: subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', small], capture_output=True).returncode==0
    if not mount('1m'): pytest.skip('mounting a small disk is not permitted here')
    try:
        rc,said = runs('small/run', cache='cache_small')
        assert rc==1 and 'checkpoints, needs' in said and 'MB are free: make room' in said, said
        subprocess.run(['umount', small], check=True)
        mount('200m')
        rc,said = runs('small/run', fill, cache='cache_small')
        assert rc==1 and 'needs' in said and 'are free' in said, said
        (small/'ballast').unlink()
        rc,said = runs('small/run', cache='cache_small')
        assert rc==0 and 'going on from step_' in said, said
        same(runs, 'small/run')
    finally: subprocess.run(['umount', small])

harms = dict(flip=lambda p: p.write_bytes(bytes([p.read_bytes()[0]^1])+p.read_bytes()[1:]), cut=lambda p: p.write_bytes(p.read_bytes()[:-1]),
    half=lambda p: p.write_bytes(p.read_bytes()[:p.stat().st_size//2]), empty=lambda p: p.write_bytes(b''), zero=lambda p: p.write_bytes(bytes(p.stat().st_size)), gone=lambda p: p.unlink())

def test_every_harm_is_noticed(runs):
    "Six kinds of harm to every file of the newest checkpoint: it is named, and the one before is taken."
    from electra_nb.training.checkpoints import newest_checkpoint
    files = [p.relative_to(runs.tmp/'whole'/'checkpoints'/'step_30') for p in (runs.tmp/'whole'/'checkpoints'/'step_30').rglob('*') if p.is_file()]
    assert len(files)>=10
    for name,harm in harms.items():
        for f in files:
            home = runs.tmp/'harm'
            shutil.rmtree(home, ignore_errors=True)
            for step in ('step_25','step_30'): shutil.copytree(runs.tmp/'whole'/'checkpoints'/step, home/step)
            harm(home/'step_30'/f)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter('always')
                assert newest_checkpoint(home).name=='step_25', (name, f)
            assert 'step_30 is damaged' in str(seen[0].message)

@pytest.mark.parametrize('harm', rest(['flip','half'], 'flip'))
def test_damaged_and_resumed(runs, harm):
    "The run goes on from the checkpoint before a damaged one, and says so; the log loses its torn line."
    name = f'harmed_{harm}'
    rc,_ = runs(name, 'class Stop(electra_nb.lab.reports.doctor.Callback):\n    def after_step(self):\n        if self.learn.steps.done==17: os._exit(9)\ncbs = [Stop()]')
    assert rc==9
    harms[harm](runs.tmp/name/'checkpoints'/'step_15'/'trainer.safetensors')
    log = runs.tmp/name/'log.jsonl'
    log.write_text(log.read_text()[:-7])
    rc,said = runs(name)
    assert rc==0 and 'step_15 is damaged' in said and 'going on from step_10' in said, said
    same(runs, name)

@pytest.mark.slow
def test_damaged_preparation(runs):
    "Prepared data in which a bit has changed is made again; a torn tokenizer too."
    rc,_ = runs('prepared', steps=5)
    train = next((runs.tmp/'cache_prepared').rglob('train.ids'))
    data = train.read_bytes()
    harms['flip'](train)
    rc,said = runs('prepared2', cache='cache_prepared')
    assert rc==0 and 'is damaged (train.ids' in said, said
    assert train.read_bytes()==data
    same(runs, 'prepared2')
    rc,_ = runs('torn', max_hours=1e-9)
    harms['half'](runs.tmp/'torn'/'tokenizer'/'tokenizer.json')
    rc,said = runs('torn')
    assert rc==0 and 'torn/tokenizer is written again: tokenizer.json has changed' in said, said
    same(runs, 'torn')

def test_changed_text_is_refused(runs):
    "One letter of the corpus has changed, size and date have not; the lines of recipe and tokenizer that differ are named too."
    runs('changed', max_hours=1e-9)
    path = runs.tmp/'texts.txt'
    before,stat = path.read_text(),path.stat()
    path.write_text(before.replace('baker', 'maker', 1))
    os.utime(path, ns=(stat.st_atime_ns,stat.st_mtime_ns))
    files = {p:p.stat().st_mtime_ns for p in (runs.tmp/'changed').rglob('*')}
    rc,said = runs('changed', lr=1e-3)
    path.write_text(before)
    os.utime(path, ns=(stat.st_atime_ns,stat.st_mtime_ns))
    assert rc==1 and 'corpus_fingerprint' in said and 'lr: this run was started with 0.002, you passed 0.001' in said, said
    assert files=={p:p.stat().st_mtime_ns for p in files}
    assert runs('changed')[0]==0
    same(runs, 'changed')

def test_read_only(runs):
    "A run folder that this user may not write: said before the first step, nothing harmed."
    before = "os.setgroups([]); os.setgid(65534); os.setuid(65534)" if os.getuid()==0 else ''
    for p in (runs.tmp,*runs.tmp.parents): # with several workers there is one folder more
        if p.name.startswith(('faults','popen-','pytest-')) and p.stat().st_uid==os.getuid(): p.chmod(0o755)
    runs('read', max_hours=1e-9)
    for p in ((runs.tmp/'read'),*(runs.tmp/'read').rglob('*')): p.chmod(0o555 if p.is_dir() else 0o444)
    rc,said = runs('read', before)
    assert rc==1 and 'may not write' in said, said
    for p in ((runs.tmp/'read'),*(runs.tmp/'read').rglob('*')): p.chmod(0o755 if p.is_dir() else 0o644)
    assert runs('read')[0]==0
    same(runs, 'read')

@pytest.mark.slow
def test_same_instant(runs):
    "Two processes in one new folder at the same instant: one trains, the other is told who does."
    wait = """
import time
from pathlib import Path
class Wait(electra_nb.lab.reports.doctor.Callback):
    def before_fit(self):
        while not Path('go').exists(): time.sleep(.05)
cbs = [Wait()]
"""
    both = [runs.start('both', wait) for _ in range(2)]
    wait_for(lambda: any(p.poll() is not None for p in both))
    (runs.tmp/'go').touch()
    ends = [runs.end(p) for p in both]
    assert sorted(rc for rc,_ in ends)==[0,1], ends
    winner = [rc for rc,_ in ends].index(0)
    assert f'another process is writing in both: process {both[winner].pid} on ' in ends[1-winner][1], ends
    same(runs, 'both')

@pytest.mark.parametrize('sig', rest(['SIGTERM','SIGINT','SIGHUP','SIGUSR1'], 'SIGTERM'))
def test_signals_save(runs, sig):
    "Each signal that asks for the end: the step is finished, saved, and the run ends bit-equal when it goes on."
    heed = """
import signal
for s in (signal.SIGTERM,signal.SIGHUP,signal.SIGUSR1): signal.signal(s, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
    p = runs.start(sig, heed+slow(.05))
    wait_for(lambda: (runs.tmp/sig/'log.jsonl').exists() and (runs.tmp/sig/'log.jsonl').stat().st_size)
    p.send_signal(getattr(signal, sig))
    rc,said = runs.end(p)
    assert rc==128+getattr(signal, sig) and 'The same call goes on' in said, (rc, said)
    assert runs(sig)[0]==0
    same(runs, sig)

@pytest.mark.slow
def test_second_signal(runs):
    "A second Ctrl-C does not wait for the step."
    stuck = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
class Stuck(electra_nb.lab.reports.doctor.Callback):
    def after_step(self):
        if self.learn.steps.done==7:
            time.sleep(120)
            os._exit(3) # nobody heard
cbs = [Stuck()]
"""
    p = runs.start('twice', stuck)
    wait_for(lambda: (runs.tmp/'twice'/'log.jsonl').exists() and '"step": 6' in (runs.tmp/'twice'/'log.jsonl').read_text())
    time.sleep(.3)
    p.send_signal(signal.SIGINT)
    time.sleep(1)
    p.send_signal(signal.SIGINT)
    assert runs.end(p)[0]==130
    assert runs('twice')[0]==0
    same(runs, 'twice')

def test_signal_sent_twice(runs):
    "A terminal that closes sends SIGHUP more than once, with others: the step is finished and saved all the same."
    heed = "import signal\nfor s in (signal.SIGTERM,signal.SIGHUP): signal.signal(s, signal.SIG_DFL)\n"
    p = runs.start('copies', heed+slow(.2))
    wait_for(lambda: (runs.tmp/'copies'/'log.jsonl').exists() and (runs.tmp/'copies'/'log.jsonl').stat().st_size)
    for s in (signal.SIGHUP,signal.SIGTERM):
        p.send_signal(s)
        time.sleep(.01)
    rc,said = runs.end(p)
    assert rc in (128+signal.SIGHUP,128+signal.SIGTERM) and 'and saved. The same call goes on' in said and 'race condition' not in said, (rc, said)
    assert runs('copies')[0]==0
    same(runs, 'copies')

@pytest.mark.parametrize('wrong', rest([dict(recipe=[]),dict(versions='x'),dict(start=5)], dict(recipe=[])))
def test_recipe_of_another_form(runs, wrong):
    "A recipe.json whose parts were changed to something else is named."
    shutil.copytree(runs.tmp/'whole', runs.tmp/'formless', dirs_exist_ok=True)
    path = runs.tmp/'formless'/'recipe.json'
    path.write_text(json.dumps({**json.loads(path.read_text()), **wrong}))
    rc,said = runs('formless')
    assert rc==1 and f'formless/recipe.json cannot be read: its {[*wrong][0]!r} is {[*wrong.values()][0]!r}. Put the file back' in said, said

def test_finished_is_left_alone(runs):
    "The same call on a finished run changes nothing, not even a card that was edited; what is damaged is written again, also after a crash in the middle of that."
    assert runs('done')[0]==0
    card = runs.tmp/'done'/'README.md'
    card.write_text(card.read_text()+'Language: English')
    (runs.tmp/'done'/'discriminator'/'mine.txt').write_text('mine')
    assert runs('done')[0]==0
    assert card.read_text().endswith('Language: English') and (runs.tmp/'done'/'discriminator'/'mine.txt').exists()
    for at in (1,2,3,10,11,12,13,14,15,16):
        harms['flip'](runs.tmp/'done'/'generator'/'model.safetensors')
        assert runs('done', count.replace('AT', str(at)))[0] in (-9,0)
    assert runs('done')[0]==0
    same(runs, 'done')

@pytest.mark.slow
def test_damaged_again_and_again(runs):
    "The same checkpoint is damaged three times."
    runs('thrice')
    for _ in range(3):
        harms['half'](runs.tmp/'thrice'/'checkpoints'/'step_30'/'trainer.json')
        rc,said = runs('thrice')
        assert rc==0 and 'step_30 is damaged' in said, said
    same(runs, 'thrice')

@pytest.mark.parametrize('wrong', [dict(recipe='x'),dict(size=[]),dict(versions=5),dict(start='x'),dict(vocabulary='x'),dict(corpus_fingerprint=None)])
def test_recipe_that_is_read(runs, wrong):
    "All that reads a run names what is odd in its recipe.json, and what is missing."
    out = runs.tmp/'read_odd'
    shutil.copytree(runs.tmp/'whole', out, dirs_exist_ok=True)
    (out/'recipe.json').write_text(json.dumps({**json.loads((runs.tmp/'whole'/'recipe.json').read_text()), **wrong}))
    readers = [diagnose,report,open_run]+[lambda run: score(run, 'a boat', device='cpu')]*('recipe' in wrong or 'size' in wrong)
    for read in readers:
        with pytest.raises(ValueError, match=f'read_odd.*recipe.json cannot be read: its {[*wrong][0]!r} is'): read(out)

def test_files_of_another_run(runs):
    "A tokenizer of another run, a checkpoint of another shape, and one whose number is not that of its step are refused by name."
    assert runs('shape', hidden_size=32, embedding_size=32, generator_size=1., steps=5)[0]==0
    out = runs.tmp/'swapped'
    shutil.copytree(runs.tmp/'whole', out)
    shutil.rmtree(out/'checkpoints'/'step_30')
    shutil.copytree(runs.tmp/'shape'/'checkpoints'/'step_5', out/'checkpoints'/'step_40')
    with pytest.raises(ValueError, match='step_40: generator does not fit this model'): open_run(out, cache=runs.tmp/'cache_whole')
    shutil.rmtree(out/'checkpoints'/'step_40')
    (out/'checkpoints'/'step_25').rename(out/'checkpoints'/'step_99')
    rc,said = runs('swapped', cache='cache_whole')
    assert rc==1 and 'step_99 belongs to another run' in said and 'or another step' in said, said
    (out/'checkpoints'/'step_99').rename(out/'checkpoints'/'step_25')
    path = out/'tokenizer'/'tokenizer.json'
    path.write_text(path.read_text().replace('"baker"', '"taker"'))
    with pytest.raises(ValueError, match='swapped/tokenizer is not that of this run: put the right one back'): open_run(out, cache=runs.tmp/'cache_whole')
    rc,said = runs('swapped', cache='cache_whole')
    assert rc==0 and 'tokenizer is written again' in said, said
    same(runs, 'swapped')

def test_checkpoints_of_equal_shape(tmp_path, capsys):
    "That a checkpoint was saved by another run of the same shape is said."
    cache = str(tmp_path/'cache')
    for name,lr in dict(a=1e-3, b=2e-3).items():
        pretrain(corpus=text.split('\n\n'), out=str(tmp_path/name), cache=cache, lr=lr, steps=2, bs=4, max_len=32, vocab_size=200, valid=.1, probe=False, device='cpu')
    open_run(tmp_path/'a', cache=cache)
    assert 'another run' not in capsys.readouterr().out
    shutil.rmtree(tmp_path/'a'/'checkpoints')
    shutil.copytree(tmp_path/'b'/'checkpoints', tmp_path/'a'/'checkpoints')
    open_run(tmp_path/'a', cache=cache)
    assert 'step_2 was saved by another run' in capsys.readouterr().out

@pytest.mark.parametrize('wrong', [dict(batch=[]),dict(loss=10**400),dict(step=True),dict(of='x')])
def test_values_in_a_log(runs, wrong):
    "Lines of a log with values that cannot be there count as torn."
    out = runs.tmp/'log_values'
    shutil.copytree(runs.tmp/'whole', out, dirs_exist_ok=True)
    lines = (runs.tmp/'whole'/'log.jsonl').read_text().splitlines()
    (out/'log.jsonl').write_text('\n'.join([json.dumps({**json.loads(lines[0]), **wrong}),*lines[1:]])+'\n')
    assert str(diagnose(out))==str(diagnose(runs.tmp/'whole'))
    report(out)
    assert len(open_run(out, cache=runs.tmp/'cache_whole').tower_losses)==len([l for l in lines if 'valid' not in l])-1

odd = '{"step": 3, "loss": 1.0}\n{"step": 2, "loss": 1.0, "lr": 1e-3, "gen_loss": 1.0, "disc_loss": 1.0}\n{"step": 4, "loss": "low", "lr": 1}\n'

@pytest.mark.parametrize('harm', rest(['gone','garbage','odd'], 'garbage'))
def test_log_lost(runs, harm):
    "A log that is lost or has garbage in it: said, what is left is kept, and the weights are the same. Odd lines do not stop it."
    name = f'log_{harm}'
    runs(name, 'class Stop(electra_nb.lab.reports.doctor.Callback):\n    def after_step(self):\n        if self.learn.steps.done==17: os._exit(9)\ncbs = [Stop()]')
    log = runs.tmp/name/'log.jsonl'
    lines = log.read_bytes().splitlines(True)
    if harm=='gone': log.unlink()
    elif harm=='garbage': log.write_bytes(b''.join([lines[0],b'5\n{}\n\xff\n',*lines[2:]]))
    else: log.write_bytes(b''.join([lines[0],odd.encode(),*lines[1:]]))
    rc,said = runs(name)
    assert rc==0 and ('log.jsonl has lost' in said)==(harm!='odd'), said
    want,got = weights(runs.tmp/'whole'),weights(runs.tmp/name)
    assert [k for k in want if not want[k].equal(got[k])]==[]
    assert (runs.tmp/name/'log.damaged.jsonl').exists()==(harm=='garbage')

def test_environment_of_a_cluster(runs):
    "Variables of a scheduler for many processes do not disturb a single one, at an evaluation or after a restart."
    cluster = "import os; os.environ.update(WORLD_SIZE='4', RANK='1', LOCAL_RANK='1')"
    assert runs('cluster', cluster, max_hours=1e-9)[0]==0
    rc,said = runs('cluster', cluster)
    assert rc==0, said
    same(runs, 'cluster')

def test_resumed_otherwise(runs):
    "What makes a continued run differ in its bits is announced, and what does not change is not."
    assert runs('otherwise', max_hours=1e-9)[0]==0
    said = runs('otherwise', max_hours=1e-9)[1]
    assert 'bit for bit' not in said
    said = runs('otherwise', max_hours=1e-9, threads=2, unpad=False, compile=False)[1]
    for setting in ('unpad=False instead of None','compile=False instead of None'): assert setting in said, said
    assert 'another machine (threads 2 instead of 1)' in said and said.count('threads')==1 and said.count('not bit for bit')==2, said

broken = """
from electra_nb import pretrain
from fastai.callback.core import Callback
class Break(Callback):
    def after_step(self):
        for p in self.learn.model.parameters(): p.data.fill_(float('nan'))
pretrain(corpus='texts.txt', strip_accents=False, steps=30, bs=4, max_len=32, eval_every=10, log_every=3, save_every=5, device='cpu', out='run', cbs=[Break()])
"""

def test_other_encoding(tmp_path):
    "Where files are ASCII unless something else is said, a run that breaks down keeps its batch, with its text."
    (tmp_path/'texts.txt').write_text('\n\n'.join(f'{a} видит дом и {b} у моря.' for a in ('Рыбак','Пекарь','Доктор') for b in ('лодку','рынок','школу','мельницу')), encoding='utf-8')
    rc,_,err = run_fresh(tmp_path, broken, LC_ALL='C', PYTHONUTF8='0', PYTHONCOERCECLOCALE='0')
    assert rc==1 and 'is kept in bad_batch/' in err, err
    assert 'видит' in (tmp_path/'run'/'bad_batch'/'about.json').read_text(encoding='utf-8')

settings = """
import random, numpy as np, torch
torch.set_default_dtype(torch.float64)
torch.set_default_device('meta')
torch.set_grad_enabled(False)
torch.autocast('cpu', torch.bfloat16).__enter__()
def state(): return [torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled(), torch.is_autocast_enabled('cpu'),
    random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()]
before = state()
import atexit
atexit.register(lambda: print('as before:', state()==before, flush=True))
"""

def test_settings_of_the_caller(runs):
    "What a program has set for all of PyTorch changes nothing in a run, and is there afterwards; so are the states of the random generators."
    rc,said = runs('settings', settings)
    assert rc==0 and 'as before: True' in said, said
    same(runs, 'settings')

def test_two_threads(runs):
    "A second thread, which would draw from the same random generators, is refused; a training within a training is not."
    with undisturbed(), undisturbed(), ThreadPoolExecutor(1) as pool:
        for f in (pretrain,finetune):
            with pytest.raises(RuntimeError, match='another thread of this process is training'): pool.submit(f, out=str(runs.tmp/'thread')).result()
    assert not (runs.tmp/'thread').exists()

gone = """
from fastai.callback.core import Callback
class Gone(Callback):
    def after_step(self):
        if self.learn.steps.done==AT: os.rename('NAME', 'elsewhere')
cbs = [Gone()]
"""

@pytest.mark.parametrize('at', [11,13]) # a line of the log comes next, or a checkpoint
def test_folder_is_moved(runs, at):
    "A run whose folder is moved meanwhile stops and says so; moved back, it goes on."
    name = f'moved{at}'
    rc,said = runs(name, gone.replace('AT', str(at)).replace('NAME', name))
    assert rc==1 and 'is not there any more' in said and not (runs.tmp/name).exists(), said
    (runs.tmp/'elsewhere').rename(runs.tmp/name)
    assert runs(name)[0]==0
    same(runs, name)

@pytest.fixture(scope='module')
def study(runs, tmp_path_factory):
    "A study of two runs, with its call."
    rows = pd.DataFrame(dict(review=[f'The {a} sees the {b}.' for a in ('baker','fisher') for b in ('town','harbour','library')]*4, who=['baker']*3+['fisher']*3+['baker']*3+['fisher']*3+['baker']*3+['fisher']*3+['baker']*3+['fisher']*3))
    def call(out): return finetune(runs.tmp/'whole', data=rows, dev=rows, name='who', epochs=20, runs=2, device='cpu', out=out)
    call(tmp_path_factory.mktemp('study')/'study')
    home = next(p for p in tmp_path_factory.getbasetemp().glob('study*/study'))
    return home,call

def damaged(study, tmp_path, name, change):
    "A copy of a study in which one file is another."
    out = tmp_path/'copy'
    shutil.copytree(study[0], out)
    (out/name).write_text(change((out/name).read_text()))
    return out

def first_line(**new):
    "The change of a ledger whose first line has other values; None: no such key."
    def change(text):
        first,*rest = text.splitlines()
        return '\n'.join([json.dumps({k:v for k,v in {**json.loads(first), **new}.items() if v!='gone'}),*rest])+'\n'
    return change

lines = [(first_line(**{k:'gone'}), f'results.jsonl:1: it lacks {k!r}') for k in ('model','task','start','seed','metric','score','failure','guess')]
lines += [(first_line(**{k:v}), f'results.jsonl:1: its {k!r} is') for k,v in dict(score='high', seed=[], scores=None, start=5).items()]
lines += [(lambda text: text*2, 'results.jsonl:3: it is the run of line 1 again')]

@pytest.mark.parametrize('change,said', lines)
def test_lines_of_a_ledger(study, tmp_path, change, said):
    "A line without a key, with another value there, or twice, is named by all that reads it; it was a KeyError, or counted as one more run."
    out = damaged(study, tmp_path, 'results.jsonl', change)
    for read in (lambda: Study(out).statistics(), lambda: report(out), lambda: predict(out, ['a boat'], device='cpu'), lambda: study[1](out)):
        with pytest.raises(ValueError, match=re.escape(said)): read()

def test_other_files_of_a_study(study, tmp_path):
    "study.json, task.json and the answers of a run: what is odd is named."
    name,_ = next((p.name,p) for p in (study[0]/'models').iterdir())
    def of_task(**new): return lambda text: json.dumps({**json.loads(text), **new})
    task = json.loads((study[0]/'models'/name/'task.json').read_text())['task']
    answers = next((study[0]/'predictions').glob('*.tsv')).name
    for i,(file,change,read,said) in enumerate([('study.json', lambda t: '{}', study[1], "it lacks 'model'"), ('study.json', of_task(recipe=5), study[1], "its 'recipe' is 5"),
        (f'models/{name}/task.json', of_task(start=None), lambda out: predict(out, ['a boat']), "its 'start' is None"),
        (f'models/{name}/task.json', of_task(task={**task, 'new':1}), lambda out: predict(out, ['a boat']), 'is not of this version'),
        (f'predictions/{answers}', lambda t: '', report, f'{answers} cannot be read')]):
        with pytest.raises(ValueError, match=re.escape(said)): read(damaged(study, tmp_path/str(i), file, change))

@pytest.mark.parametrize('value', [5,b'x',['a'],'a\0b','x'*300,'~nobody-of-this-name/x'])
def test_no_names(value):
    "What is no name of a file or folder is refused by its argument."
    calls = dict(model=lambda: predict(value, ['a boat']), out=lambda: score('m', 'a boat', out=value), run=lambda: diagnose(value), folder=lambda: report(value),
        cache=lambda: pretrain(cache=value))
    for name,call in calls.items():
        with pytest.raises(ValueError, match=f'{name}=.* is no name of a folder or file'): call()
    with pytest.raises(ValueError, match='is no name of a folder or file'): export('runs/mine', 'page', out=value)
    with pytest.raises(ValueError, match='is no name of a folder or file'): open_run(value)
