"One training by two real processes: equal to one process, and exact after any end. Some are started by torchrun; the others have its variables, and nobody who ends the second when the first has ended."
import json, os, signal, socket, subprocess, sys, time

import pytest, torch
from forked import Program
from safetensors.torch import load_file
from quick import rest
from test_process import env, text

common = "corpus='texts.txt', steps=30, bs=4, max_len=32, eval_every=10, log_every=5, save_every=5, device='cpu'"
slow = '''
import time
from fastai.callback.core import Callback
class Slow(Callback):
    def after_step(self): time.sleep(.1)
'''
looks_on = '''
import os
from fastai.callback.core import Callback
class Mark(Callback):
    def __init__(self, name, every): self.file,self.every_process = name,every
    def after_fit(self): open(self.file+os.environ['RANK'], 'w').close()
'''
stops_at = '''
from fastai.callback.core import Callback
class Stop(Callback):
    def __init__(self, at): self.at = at
    def after_step(self):
        if self.learn.steps.done==self.at: self.learn.save_steps.reason = 'SIGTERM'
'''
sober = ', dropout=0, attention_dropout=0'

def torchrun(tmp, code):
    "Start a program in two processes by torchrun."
    (tmp/'job.py').write_text(code)
    command = [sys.executable,'-m','torch.distributed.run','--standalone','--nproc-per-node','2','job.py']
    return subprocess.Popen(command, start_new_session=True, cwd=tmp, env=env(tmp), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

def start(tmp, code, n=2):
    "Start a program in `n` processes that find each other by the variables that torchrun sets."
    if n==1: return [Program(code, tmp, env(tmp))]
    with socket.socket() as s:
        s.bind(('127.0.0.1',0))
        port = s.getsockname()[1]
    shared = dict(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), WORLD_SIZE=str(n), LOCAL_WORLD_SIZE=str(n), TORCHELASTIC_RUN_ID='none')
    return [Program(code, tmp, env(tmp, **shared, RANK=str(i), LOCAL_RANK=str(i))) for i in range(n)]

def end(programs):
    "Exit code, 0 if all have it, and what all have said."
    said = [p.communicate(240) for p in programs]
    return next((p.returncode for p in programs if p.returncode), 0),*(''.join(s) for s in zip(*said))

def run(tmp, code, n=2): return end(start(tmp, code, n))

def job(out, extra='', before=''): return f"{before}\nfrom electra_nb import pretrain\nlearn = pretrain(out={out!r}, {common}{extra})\n"

def weights(run): return {f'{t}.{k}':v for t in ('generator','discriminator') for k,v in load_file(run/t/'model.safetensors').items()}

def same(a, b): return a.keys()==b.keys() and all(torch.equal(a[k], b[k]) for k in a)

def wait_for(path, p, seconds=120):
    "Wait until a file is there, or the program has ended."
    for _ in range(seconds*20):
        if path.exists() or p.poll() is not None: return
        time.sleep(.05)

@pytest.fixture(scope='module')
def tmp(tmp_path_factory):
    "A folder with a corpus and a whole run by two processes."
    tmp = tmp_path_factory.mktemp('processes')
    (tmp/'texts.txt').write_text(text)
    p = torchrun(tmp, job('two', ", cbs=[Mark('first', False),Mark('every', True)]", looks_on)+"open('end'+os.environ['RANK'], 'w').write(str(sum(p.double().sum().item() for p in learn.model.parameters())))\n")
    out,err = p.communicate(timeout=300)
    assert p.returncode==0, err
    (tmp/'out.txt').write_text(out)
    return tmp

def test_whole(tmp):
    "The first process alone prints, both return a Learner with the same weights, and the folder says how many there were."
    out = (tmp/'out.txt').read_text()
    assert out.count('30/30')==1 and out.count('two/discriminator')==1
    assert (tmp/'end0').read_text()==(tmp/'end1').read_text()
    assert {p.name for p in (*tmp.glob('first?'),*tmp.glob('every?'))}=={'first0','every0','every1'} # where each callback acted
    assert json.loads((tmp/'two'/'data.json').read_text())['processes']==2
    assert {p.name for p in (tmp/'two').iterdir()}>={'generator','discriminator','checkpoints','report.html','README.md'}

def losses(run):
    "Step, losses and tokens of each line of the log."
    lines = [l for l in map(json.loads, (run/'log.jsonl').read_text().splitlines()) if 'loss' in l]
    return [[v for k,v in l.items() if k.endswith('loss') or k in ('step','tokens','grad_norm')] for l in lines]

every = 'electra mlm electra_15 replace_mlm all_tokens_mlm electra_uniform electra_unigram electra_two_tower electric two_stage adversarial fast_electra'.split()

@pytest.mark.parametrize('objective', rest(every, 'electra', 'two_stage'))
def test_equals_one(tmp, objective):
    "Without dropout two processes have the losses and tokens of one, up to rounding, also where an update has two batches."
    more = sober+f", objective={objective!r}, accumulate=2, log_every=1"
    for n in (1,2):
        rc,_,err = run(tmp, job(f'{objective}_{n}', more).replace('steps=30', 'steps=12').replace('log_every=5, ', ''), n)
        assert rc==0, err
    one,two = (torch.tensor(losses(tmp/f'{objective}_{n}'), dtype=torch.float64) for n in (1,2))
    assert len(one)==12 and torch.allclose(one, two, rtol=1e-4)

@pytest.mark.parametrize('victim', rest(['first','second'], 'first'))
def test_killed(tmp, victim):
    "A process that dies takes the others with it, and the same command ends with the same weights."
    out = f'killed_{victim}'
    code = job(out, ", cbs=[Slow()]", slow+f"import os\nopen('{out}'+os.environ['RANK'], 'w').write(str(os.getpid()))\n")
    programs = start(tmp, code) if victim=='first' else [torchrun(tmp, code)]
    wait_for(tmp/out/'checkpoints'/'step_8', programs[0])
    os.kill(int((tmp/f"{out}{int(victim=='second')}").read_text()), signal.SIGKILL)
    _,said,err = end(programs)
    assert all(p.returncode for p in programs)
    # the first process notices it by itself, or torchrun ends it before that
    if victim=='second': assert 'another process of this training has ended' in err or 'closing signal SIGTERM' in err
    assert not (tmp/out/'discriminator').exists()
    rc,out_again,err = run(tmp, job(out))
    assert rc==0 and 'going on from step_' in out_again, err
    assert same(weights(tmp/out), weights(tmp/'two'))

def test_stopped(tmp):
    "A signal to all processes saves; the same command goes on and ends with the same weights."
    programs = start(tmp, job('stopped', ", cbs=[Slow()]", slow))
    wait_for(tmp/'stopped'/'checkpoints'/'step_8', programs[0])
    for p in programs: p.send_signal(signal.SIGINT)
    _,out,err = end(programs)
    assert all(p.returncode for p in programs) and 'and saved. The same call goes on from there' in out, out+err
    rc,out,err = run(tmp, job('stopped'))
    assert rc==0 and 'going on from step_' in out, err
    assert same(weights(tmp/'stopped'), weights(tmp/'two'))

def test_another_number(tmp):
    "Two processes begin, one goes on, two again, past the end of the 111 rows in update 28: each step is logged once, with the losses and tokens of one process that never stopped."
    more = sober+', log_every=1'
    def code(out, stop): return job(out, more+(f', cbs=[Stop({stop})]' if stop else ''), stops_at).replace('log_every=5, ', '')
    said = ''
    for n,stop in ((2,7),(1,16),(2,0)):
        rc,out,err = run(tmp, code('fewer', stop), n)
        assert (rc!=0)==bool(stop), err
        said += out
    assert 'processes 1 instead of 2' in said and 'processes 2 instead of 1' in said
    rc,_,err = run(tmp, code('never', 0), 1)
    assert rc==0, err
    one,several = losses(tmp/'never'),losses(tmp/'fewer')
    assert [l[0] for l in several]==list(range(1, 31)) and [l[-1] for l in several]==[l[-1] for l in one] # steps, tokens
    assert torch.allclose(torch.tensor(one[:20]), torch.tensor(several[:20]), rtol=1e-4)

@pytest.mark.slow
def test_dropout_goes_on(tmp):
    "With dropout a single process goes on drawing as several did: the masks of a run that was stopped and taken up alone are those of two processes, so it ends bit for bit like another one."
    for out in ('taken_up','taken_up_again'):
        rc,_,err = run(tmp, job(out, ', cbs=[Stop(7)]', stops_at))
        assert rc!=0, err
        if out=='taken_up_again': # stopped once more
            rc,_,err = run(tmp, job(out, ', cbs=[Stop(12)]', stops_at), n=1)
            assert rc!=0, err
        rc,_,err = run(tmp, job(out), n=1)
        assert rc==0, err
    assert same(weights(tmp/'taken_up'), weights(tmp/'taken_up_again'))

@pytest.mark.slow
def test_deadline(tmp):
    "The steps that fit into some time are found by the first process, and moved for all."
    rc,out,err = run(tmp, job('hours', ", hours=.004").replace('steps=30, ', ''))
    assert rc==0 and 'deadline: about' in out, err
    assert (tmp/'hours'/'discriminator'/'model.safetensors').exists()

def test_refused(tmp):
    "What cannot be shared is refused before any work."
    rc,_,err = run(tmp, job('refused').replace('bs=4', 'bs=5'))
    assert rc!=0 and 'cannot be divided among 2 processes' in err and not (tmp/'refused').exists()

@pytest.mark.slow
def test_accelerate_on_a_cpu(tmp):
    "`accelerate launch --cpu` starts one process, whatever the number: torchrun begins the program anew in as many as were asked for."
    (tmp/'pair.py').write_text(job('pair').replace('steps=30', 'steps=2'))
    p = subprocess.run([sys.executable,'-m','accelerate.commands.launch','--cpu','--num_processes','2','pair.py'], cwd=tmp, env=env(tmp), capture_output=True, text=True, timeout=300)
    assert p.returncode==0 and 'torchrun begins this program anew, in 2' in p.stdout+p.stderr, p.stderr
    assert json.loads((tmp/'pair'/'data.json').read_text())['processes']==2
    assert sum(l.startswith('corpus') or 'corpus:' in l for l in (p.stdout+p.stderr).splitlines())==1, p.stdout+p.stderr # one of them speaks

broken = '''
from fastai.callback.core import Callback
class Broken(Callback):
    order = -100
    def before_fit(self): raise ValueError('broken before the first step')
'''
full_disk = '''
from electra_nb.core import files
from electra_nb.training import loop
def need_space(path, n_bytes, what, ask=loop.need_space):
    files.free_bytes = lambda path: 0
    ask(path, n_bytes, what)
loop.need_space = need_space
'''
told_to_stop = '''
import os, signal
from electra_nb.training import loop
def evaluate(learn, *args, ask=loop._evaluate):
    os.kill(os.getpid(), signal.SIGTERM)
    ask(learn, *args)
loop._evaluate = evaluate
'''

@pytest.mark.parametrize('what', rest(['first frozen','frozen','error','signal'], 'error'))
def test_second_process(tmp, what):
    "If a process hangs or the second one fails, all end within a minute with a sentence; a signal to it alone lets the first one save."
    out = f"second_{what.replace(' ', '_')}"
    fails = "class Fails(Callback):\n    every_process = True\n    def after_pred(self):\n        if os.environ['RANK']=='1' and self.learn.steps.done==8: raise MemoryError('no room')\n"
    code = job(out, ", cbs=[Slow(),Fails()]" if what=='error' else ", cbs=[Slow()]", slow+f"import os\nopen('{out}'+os.environ['RANK'], 'w').write(str(os.getpid()))\n{fails}")
    p = torchrun(tmp, code)
    wait_for(tmp/out/'checkpoints'/'step_8', p)
    rank = int(what!='first frozen')
    if what!='error': os.kill(int((tmp/f'{out}{rank}').read_text()), signal.SIGSTOP if what.endswith('frozen') else signal.SIGTERM)
    began = time.time()
    said = ''.join(p.communicate(timeout=240))
    assert p.returncode!=0 and time.time()-began<180, said # a minute on a free machine: 27 seconds to notice, 30 that torchrun waits
    expected = dict(error='no room', signal='stopped (SIGTERM) after step').get(what, f'process {rank} of this training has given no sign of life')
    assert expected in said, said
    rc,again,err = run(tmp, job(out))
    assert rc==0 and 'going on from step_' in again, err
    assert same(weights(tmp/out), weights(tmp/'two'))

def test_finished_again(tmp):
    "The same command on a finished run ends well, in all processes, and leaves its weights alone."
    done = "open('again'+os.environ['RANK'], 'w').close()"
    rc,out,err = run(tmp, job('two')+f'import os; {done}')
    assert rc==0 and 'finished before' in out, out+err
    assert (tmp/'again0').exists() and (tmp/'again1').exists()

@pytest.mark.parametrize('what', rest(['callback','disk','signal'], 'disk'))
def test_ends_early(tmp, what):
    "What ends the first process before its first update ends all, and is shown."
    before = dict(callback=broken, disk=full_disk, signal=told_to_stop)[what]
    rc,out,err = run(tmp, job(f'early_{what}', ', cbs=[Broken()]' if what=='callback' else '', before))
    assert rc!=0, out
    said = dict(callback='broken before the first step', disk='but 0 MB are free', signal='stopped (SIGTERM) before')[what]
    assert said in out, out+err # by the first process, before torchrun can end it
