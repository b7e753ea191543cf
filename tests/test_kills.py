"""A run that is killed at random moments, again and again, and goes on with the same or another number of processes: order, log and weights are as promised.
The long form: `ELECTRA_NB_KILLS=1000 ELECTRA_NB_KILLS_OUT=kills.json pytest -n0 -m slow tests/test_kills.py`; what it counts is in that file after each run."""
import json, os, random, signal, time
from collections import Counter

import pytest, torch
from test_process import text, timeless, weights
from test_processes import losses, same, start

n_kills = int(os.environ.get('ELECTRA_NB_KILLS', 6))
common = "corpus='texts.txt', steps=40, bs=4, max_len=32, eval_every=10, log_every=1, save_every=4, device='cpu', probe=False"
slow = '''
import time
from datetime import timedelta
from electra_nb import pretrain
from electra_nb.lab.speed import processes
processes.meeting = timedelta(seconds=60) # torchrun, which ends all when one dies before all have come, is not here
from fastai.callback.core import Callback
class Slow(Callback):
    def after_step(self): time.sleep(.05)
'''
calm = ', dropout=0, attention_dropout=0, lr=1e-5' # rounding cannot change a draw

def job(out, more, cbs='Slow()'): return f'{slow}\npretrain(out={out!r}, cbs=[{cbs}], {common}{more})\n'

def ends(programs, seconds):
    "Exit codes of programs that end within some time."
    end = time.time()+seconds
    while any(p.poll() is None for p in programs) and time.time()<end: time.sleep(.02)
    codes = [p.poll() for p in programs]
    if None in codes: kill(programs, signal.SIGKILL)
    return codes

def kill(programs, number):
    for p in programs:
        if p.poll() is None: os.kill(p.pid, number)

def attempt(tmp, rng, out, more, n):
    "Start a run and end it at a random moment: how it was ended, or 'finished'."
    programs = start(tmp, job(out, more), n)
    codes = ends_alone(programs, rng.uniform(0, 5))
    if codes is None:
        how = rng.choice(['SIGKILL to all','SIGKILL to one','SIGTERM to all','SIGTERM to one'])
        kill([rng.choice(programs)] if how.endswith('one') else programs, signal.Signals[how[:7]])
        codes = ends(programs, 90)
        assert None not in codes, f'after {how} a process of {n} was still there'
    else: how = 'finished'
    if set(codes)=={0}: return 'finished'
    said = [''.join(p.communicate(1)) for p in programs]
    assert how!='finished' and (0 not in codes or (tmp/out/'end.json').exists()), (how, codes, said) # none believes that all is well
    return how

def ends_alone(programs, seconds):
    "Exit codes, if all end by themselves within some time."
    end = time.time()+seconds
    while time.time()<end:
        if all(p.poll() is not None for p in programs): return [p.returncode for p in programs]
        time.sleep(.02)

def whole(tmp, out, more, n):
    "A run without any stop."
    assert ends(start(tmp, job(out, more, cbs=''), n), 300)==[0]*n

def equal(tmp, out, reference, exact):
    "Nothing is missing or half-written, and all is as in a run without a stop: to the last bit, or up to rounding."
    assert not [*(tmp/out).rglob('*.tmp')]
    if exact:
        assert same(weights(tmp/out), weights(tmp/reference))
        return timeless(tmp/out)==timeless(tmp/reference)
    one,other = weights(tmp/reference),weights(tmp/out)
    assert all(torch.allclose(one[k], other[k], atol=1e-5) for k in one)
    lines,expected = losses(tmp/out),losses(tmp/reference)
    return [l[0] for l in lines]==list(range(1, 41)) and torch.allclose(torch.tensor(lines), torch.tensor(expected), rtol=1e-3)

@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, 'fork'), reason='programs are forked')
def test_kills(tmp_path):
    "Runs over four passes of the rows: of one and two processes they end bit for bit as without a stop; where the number of processes changes, up to rounding."
    (tmp_path/'texts.txt').write_text('\n\n'.join(text.split('\n\n')[:36]))
    rng,found,out = random.Random(n_kills),Counter(),os.environ.get('ELECTRA_NB_KILLS_OUT')
    for name,more,n in (('one','',1),('two','',2),('calm',calm,1)): whole(tmp_path, name, more, n)
    assert json.loads((tmp_path/'one'/'data.json').read_text())['epochs']>3 # the ends of three passes over the rows are crossed
    while sum(v for k,v in found.items() if k.startswith('SIG'))<n_kills:
        number = found['runs']
        exact,kind = number%3<2,('one','two','calm')[number%3]
        run,more = f'run_{number}',calm if kind=='calm' else ''
        while True:
            n = dict(one=1, two=2).get(kind) or rng.choice([1,2,4])
            how = attempt(tmp_path, rng, run, more, n)
            if how=='finished': break
            found[f'{how}, of {n}'] += 1
        assert equal(tmp_path, run, kind, exact), run
        found['runs'] += 1
        found[f'runs: {kind}'] += 1
        if out: open(out, 'w').write(json.dumps(dict(what='Runs of 40 updates, four passes over the rows, that were ended at random moments until they were finished, then compared with one '
            'that was not: `one` and `two` (processes) bit for bit, `calm` (1, 2 or 4 processes, without dropout) up to rounding. All were equal.', found=found), indent=1)+'\n')
