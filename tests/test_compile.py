"The compiled step in whole runs, on a CPU. Most tests leave out the compiler's last stage (C++), which changes no rule of what is compiled anew and when."
import json, logging, math, os, shutil
from dataclasses import replace

import pytest, torch, torch._inductor.config
from fastai.callback.core import Callback, CancelFitException
from safetensors.torch import load_file

from electra_nb import pretrain
from electra_nb.training import loop as learner
from electra_nb.lab.speed.compile import CompileStep
from electra_nb.core.tiny import tiny_text
from quick import rest

kw = dict(steps=24, bs=4, eval_every=8, eval_batches=4, log_every=1, save_every=1000, max_len=32, vocab_size=500, valid=.1, threads=1, device='cpu', resume='auto',
    n_layers=1, hidden_size=32, embedding_size=16, dropout=.1, attention_dropout=.1, init='paper', unpad=False, mask_prob=.15) # with a falling share the plain step has fewer slots
timing = ('seconds','tokens_per_s')
compiler = pytest.mark.skipif(not (shutil.which('g++') or shutil.which('clang++')), reason='torch.compile needs a C++ compiler')

def weights(run): return {f'{t}.{k}':v for t in ('generator','discriminator') for k,v in load_file(run/t/'model.safetensors').items()}
def log(run): return [{k:v for k,v in json.loads(l).items() if k not in timing} for l in (run/'log.jsonl').read_text().splitlines()]
def losses(run): return [l['loss'] for l in log(run) if 'loss' in l]
def close(a, b, n=24): return len(losses(a))==n and all(math.isclose(x, y, rel_tol=1e-5) for x,y in zip(losses(a), losses(b), strict=True))
def equal(a, b):
    a,b = weights(a),weights(b)
    return a.keys()==b.keys() and all(torch.equal(a[k], b[k]) for k in a)

@pytest.fixture(scope='module')
def home(tmp_path_factory):
    "A folder of its own, and the cache with it."
    tmp = tmp_path_factory.mktemp('compile')
    old = os.environ.get('ELECTRA_NB_CACHE')
    os.environ['ELECTRA_NB_CACHE'] = str(tmp/'cache')
    (tmp/'text.txt').write_text('\n\n'.join(f'{d} {i}' for i in range(9) for d in tiny_text.split('\n\n')))
    yield tmp
    if old is None: del os.environ['ELECTRA_NB_CACHE']
    else: os.environ['ELECTRA_NB_CACHE'] = old

@pytest.fixture(autouse=True)
def same_draws_and_threads():
    "The C++ code draws the random numbers that PyTorch draws; a run leaves the number of threads, which compiled code depends on, as it was."
    threads = torch.get_num_threads()
    torch.set_num_threads(kw['threads'])
    with torch._inductor.config.patch(fallback_random=True): yield
    torch.set_num_threads(threads)

def run(home, name, backend='aot_eager', **changes):
    "A short `pretrain()`; `backend=None` is the plain step."
    with pytest.MonkeyPatch.context() as m:
        if backend is not None: m.setattr(learner.speed, 'callbacks', lambda cfg, device: [CompileStep(backend=backend)])
        learn = pretrain(corpus=str(home/'text.txt'), out=home/name, **{**kw, **changes})
    assert backend is None or not learn.compile_step.off
    return home/name,learn

def both(home, name, cb=None, **changes):
    "The plain and the compiled run, each with a callback of its own."
    (plain,_),(compiled,_) = (run(home, f'{name}_{b}', b, cbs=[cb()] if cb else [], **changes) for b in (None,'aot_eager'))
    return plain,compiled

@pytest.mark.slow
@compiler
def test_falling_share_of_masks(home):
    "While the share falls, a compiled step keeps all of its slots, a plain one has fewer and fewer."
    seen = []
    class Shapes(Callback):
        order = 60
        def before_batch(self):
            if self.training: seen[-1].add(self.xb[4].shape[1])
    for backend in ('aot_eager',None):
        seen.append(set())
        run(home, f'falling_{backend}', backend, mask_prob=.4, final_mask_prob=.1, cbs=[Shapes()])
    assert seen[0]=={12} and min(seen[1])==3 and max(seen[1])==12

@compiler
@pytest.mark.slow
def test_200_steps(home):
    "The option `compile`, with the C++ compiler: losses, metrics and weights change by rounding only."
    plain,_ = run(home, 'plain', None, steps=200, eval_every=100)
    compiled = home/'compiled'
    learn = pretrain(corpus=str(home/'text.txt'), out=compiled, **{**kw, 'steps':200, 'eval_every':100}, compile=True)
    assert not learn.compile_step.off and close(plain, compiled, 200)
    assert 'forward' not in vars(learn.model) and 'step' not in vars(learn.opt)
    a,b = weights(plain),weights(compiled)
    assert a.keys()==b.keys() and all(torch.allclose(a[k], b[k], atol=1e-4) for k in a)
    _,learn = run(home, 'compiled', None, steps=200, eval_every=100) # may be given up when a run goes on
    assert learn.steps.done==200

@pytest.mark.slow
def test_another_objective(home):
    "Masked language modelling, with one tower and another loss."
    plain,compiled = both(home, 'mlm', objective='mlm')
    assert close(plain, compiled) and (compiled/'encoder').exists() and not (compiled/'discriminator').exists()

@pytest.mark.parametrize('name', rest(['two_stage', 'fast_electra', 'sas', 'adversarial'], 'two_stage'))
def test_other_ways_to_train(home, name):
    "A tower is frozen in the middle of a run; a temperature falls; samples are remembered; a loss reads the verdicts."
    plain,compiled = both(home, name, objective=name)
    assert close(plain, compiled)

@pytest.mark.slow
def test_disentangled_embeddings(home):
    "The discriminator's embeddings are a sum that is computed in each step."
    plain,compiled = both(home, 'disentangled', tie='disentangled')
    assert close(plain, compiled)

class StopAt(Callback):
    "End the training after some updates."
    def __init__(self, n): self.n = n
    def after_step(self):
        if self.learn.steps.done==self.n: raise CancelFitException()

def test_resume(home):
    "Two batches an update; a compiled run that is stopped and goes on ends as one that was not, to the last bit."
    plain,whole = both(home, 'whole', accumulate=2)
    assert close(plain, whole)
    stopped,learn = run(home, 'stopped', accumulate=2, cbs=[StopAt(10)])
    assert learn.steps.done==10 and not (stopped/'discriminator').exists()
    run(home, 'stopped', accumulate=2)
    assert equal(whole, stopped) and log(whole)==log(stopped)

class Change(Callback):
    "Other λ, temperature, decay, betas and largest norm from step 8 on, and a frozen generator from step 16 on."
    def before_batch(self):
        n,learn = self.learn.steps.done,self.learn
        if not self.training: return
        if n==8:
            learn.loss_func.cfg = replace(learn.loss_func.cfg, disc_weight=5.)
            learn.sample_tokens.cfg = replace(learn.sample_tokens.cfg, temperature=2.)
            learn.sample_tokens.after_create()
            learn.clip_grads.max_norm = .1
            for g in learn.opt.opt.param_groups: g.update(betas=(.5,.9), weight_decay=.3, eps=1e-3)
        if n==16:
            for p in learn.model.generator.electra.encoder.parameters(): p.requires_grad_(False)

def test_changed_in_mid_training(home):
    plain,compiled = both(home, 'change', Change, disc_weight=50.)
    assert close(plain, compiled)
    usual,_ = run(home, 'usual', None)
    assert losses(usual)[:8]==losses(plain)[:8] and abs(losses(usual)[8]/losses(plain)[8]-1)>.5

class Look(Callback):
    "What a user's callback sees of a step."
    def before_fit(self): self.seen = []
    def after_pred(self): self.logits = self.pred.logits.detach().clone()
    def after_loss(self):
        if self.training: self.seen.append((self.logits.mean().item(),self.learn.loss.item(),self.learn.loss_grad.requires_grad))

def test_a_callback_sees_predictions_and_loss(home):
    looks = [Look(),Look()]
    for backend,look in zip((None,'aot_eager'), looks): run(home, f'look_{backend}', backend, cbs=[look])
    a,b = (l.seen for l in looks)
    assert len(a)==24 and all(math.isclose(x, y, rel_tol=1e-4, abs_tol=1e-6) for p,q in zip(a, b, strict=True) for x,y in zip(p, q))

def test_shapes(home, caplog):
    "Padding may be left out: lengths are rounded up, so that few shapes come up. Each is compiled once, and announced."
    caplog.set_level(logging.INFO, 'electra_nb')
    calm = dict(dropout=0., attention_dropout=0., short_prob=.5)
    plain,_ = run(home, 'padded', None, **calm)
    compiled,learn = run(home, 'unpadded', **{**calm, 'unpad':True, 'compile':True})
    told = [r.message for r in caplog.records if 'torch.compile' in r.message]
    assert close(plain, compiled) and 2<=len(learn.compile_step.shapes)==len(told)<=4
    assert 'the training step' in told[0] and all('another shape' in t for t in told[1:])

def test_a_compiler_that_fails(home, caplog):
    "One sentence, and the run is that of the plain step, to the last bit."
    def fails(*args): raise RuntimeError('no such luck')
    plain,_ = run(home, 'sound', None)
    with pytest.MonkeyPatch.context() as m:
        m.setattr(learner.speed, 'callbacks', lambda cfg, device: [CompileStep(backend=fails)])
        learn = pretrain(corpus=str(home/'text.txt'), out=home/'failed', **kw)
    assert learn.compile_step.off and equal(plain, home/'failed') and log(plain)==log(home/'failed')
    assert sum('no such luck' in r.message and 'going on without it' in r.message for r in caplog.records)==1

def test_one_cycle(home):
    "`fit_one_cycle` moves the learning rate and the betas at every step, without anything being compiled again."
    seen = {}
    for backend in (None,'aot_eager'):
        _,learn = run(home, f'cycle_{backend}', backend)
        torch.manual_seed(0)
        learn.dls.train.n_batches = 40
        with learn.no_bar(), learn.no_logging(), torch._dynamo.config.patch(error_on_recompile=True): learn.fit_one_cycle(1, 1e-3)
        seen[backend] = torch.tensor(learn.recorder.losses[-40:])
    assert not learn.compile_step.off and torch.allclose(seen[None], seen['aot_eager'], rtol=1e-5)
    assert len({round(h, 6) for h in learn.recorder.hps['mom']})>20
