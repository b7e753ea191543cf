"The recorded step in whole runs: on a CPU the recording only imitates a CUDA graph's memory, but everything around it is the same."
import json, math, os, shutil
from functools import partial

import pytest, torch, torch._inductor.config
from fastai.callback.core import Callback, CancelFitException
from safetensors.torch import load_file

from electra_nb import pretrain
from electra_nb.training import learner
from electra_nb.training.cuda_graph import RecordStep
from electra_nb.tiny import tiny_text

kw = dict(steps=24, bs=4, eval_every=8, eval_batches=4, log_every=4, save_every=1000, max_len=32, vocab_size=500, valid=.1, threads=1, device='cpu', resume='auto')
timing = ('seconds','tokens_per_s')

def weights(run): return {f'{t}.{k}':v for t in ('generator','discriminator') for k,v in load_file(run/t/'model.safetensors').items()}
def log(run): return [{k:v for k,v in json.loads(l).items() if k not in timing} for l in (run/'log.jsonl').read_text().splitlines()]

@pytest.fixture(scope='module')
def home(tmp_path_factory):
    "A folder of its own, and the cache with it."
    tmp = tmp_path_factory.mktemp('graph')
    old = os.environ.get('ELECTRA_NB_CACHE')
    os.environ['ELECTRA_NB_CACHE'] = str(tmp/'cache')
    (tmp/'text.txt').write_text('\n\n'.join(f'{d} {i}' for i in range(9) for d in tiny_text.split('\n\n')))
    yield tmp
    if old is None: del os.environ['ELECTRA_NB_CACHE']
    else: os.environ['ELECTRA_NB_CACHE'] = old

def run(home, name, record=None, **changes):
    "A short `pretrain()`, with the recorded step if asked for."
    with pytest.MonkeyPatch.context() as m:
        if record is not None: m.setattr(learner, 'record_cbs', lambda cfg, device: [RecordStep(accumulate=cfg.accumulate, **record)])
        learn = pretrain(corpus=str(home/'text.txt'), out=home/name, **{**kw, **changes})
    return home/name,learn

@pytest.mark.parametrize('accumulate', [1,2])
def test_same_training(home, accumulate):
    "Weights, losses, norms and metrics are those of the plain step, to the last bit."
    plain,_ = run(home, f'plain{accumulate}', accumulate=accumulate)
    recorded,learn = run(home, f'recorded{accumulate}', dict(graph=True), accumulate=accumulate)
    assert not learn.record_step.off
    a,b = weights(plain),weights(recorded)
    assert a.keys()==b.keys() and all(torch.equal(a[k], b[k]) for k in a)
    assert log(plain)==log(recorded)

def test_unpad(home):
    "Without padding, and without dropout, the losses change by rounding only; batches of several shapes are recorded, with and without accumulation."
    padded,_ = run(home, 'padded', unpad=False)
    flat,learn = run(home, 'flat', unpad=True)
    assert len({len(learn.dls.train.gather(i)[3]) for i in range(9)})>3
    losses = [[l['loss'] for l in log(r) if 'loss' in l] for r in (padded,flat)]
    assert len(losses[0])==6 and all(math.isclose(a, b, rel_tol=1e-5) for a,b in zip(*losses, strict=True)), losses
    assert run(home, 'flat', unpad=False)[1].n_updates==24 # the same run, finished
    for accumulate in (1,2):
        with pytest.MonkeyPatch.context() as m:
            m.setattr(learner, 'unpad_multiple', lambda cfg, train, device: 24)
            plain,_ = run(home, f'flat{accumulate}', accumulate=accumulate)
            recorded,learn = run(home, f'recorded_flat{accumulate}', dict(graph=True), accumulate=accumulate, cbs=[shapes := Shapes()])
        assert not learn.record_step.off and shapes.n>1
        a,b = weights(plain),weights(recorded)
        assert all(torch.equal(a[k], b[k]) for k in a) and log(plain)==log(recorded)

class Shapes(Callback):
    "How many shapes have been recorded."
    def after_batch(self): self.n = len(self.learn.record_step.batches)

class StopAt(Callback):
    "End the training after some updates."
    def __init__(self, n): self.n = n
    def after_step(self):
        if self.learn.n_updates==self.n: raise CancelFitException()

def test_resume(home):
    "A recorded run that is stopped in the midst and goes on ends as one that was not."
    whole,_ = run(home, 'whole', dict(graph=True))
    stopped,learn = run(home, 'stopped', dict(graph=True), cbs=[StopAt(10)])
    assert learn.n_updates==10 and not (stopped/'discriminator').exists()
    run(home, 'stopped', dict(graph=True))
    a,b = weights(whole),weights(stopped)
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert log(whole)==log(stopped)

@pytest.mark.skipif(not (shutil.which('g++') or shutil.which('clang++')), reason='torch.compile needs a C++ compiler')
def test_compile(home, monkeypatch):
    "The option `compile` compiles, changes the losses by rounding only, and may be given up when a run goes on."
    monkeypatch.setattr(torch._inductor.config, 'fallback_random', True) # else it would draw other random numbers
    plain,_ = run(home, 'eager', steps=8)
    compiled,learn = run(home, 'compiled', steps=8, compile=True)
    assert not learn.record_step.off and learn.record_step.compiling
    losses = [[l['loss'] for l in log(r) if 'loss' in l] for r in (plain,compiled)]
    assert len(losses[0])==2 and all(math.isclose(a, b, rel_tol=1e-5) for a,b in zip(*losses, strict=True)), losses
    _,learn = run(home, 'compiled', steps=8, compile=False)
    assert learn.n_updates==8

def test_refused(home):
    "A CUDA graph without a GPU is refused before anything is written."
    with pytest.raises(ValueError, match='cuda_graph=True needs a GPU'): run(home, 'no', cuda_graph=True)
    assert not (home/'no').exists()
