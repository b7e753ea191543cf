"The training loop, ended and disturbed at every point: what comes after is as if nothing had happened."
import json, shutil, signal, sys, time
from dataclasses import replace
from pathlib import Path

import pytest, torch
from electra_nb.core.tiny import tiny_text
from electra_nb.model.towers import ModelConfig
from electra_nb.objectives.rtd import RTD
from electra_nb.text.corpus import iterable_corpus
from electra_nb.text.examples import build_examples
from electra_nb.text.packing import ExamplesConfig
from electra_nb.text.tokenizer import tiny_tokenizer
from electra_nb.training.checkpoints import newest_checkpoint
from electra_nb.training.loop import pretrain_learner
from electra_nb.training.log import read_log
from electra_nb.training.loop import train
from electra_nb.training.optim import OptimConfig
from electra_nb.training.loop import run_fingerprint
from electra_nb.training.steps import CostLimit, SaveSteps, TrainConfig
from fastai.callback.core import Callback, CancelFitException, CancelStepException
from fastai.callback.fp16 import MixedPrecision
from fastcore.foundation import L
from safetensors.torch import load_file
from torch.amp import GradScaler, autocast

towers = dict(hidden_size=32, n_layers=2, n_heads=2, embedding_size=32, generator_size=1., generator_layers=.5, generator_heads=2)
shape = ModelConfig(**towers, max_positions=64, init='local')
cfg,optim = TrainConfig(steps=40, bs=4, eval_every=20, log_every=5, save_every=10),OptimConfig(lr=3e-3, warmup=5)
few = replace(cfg, steps=12, eval_every=4, save_every=5)
tok = tiny_tokenizer()

@pytest.fixture(scope='module')
def examples(tmp_path_factory):
    "Rows for training and for evaluation."
    corpus = iterable_corpus(tiny_text.split('\n\n'), 'harbour')
    return build_examples(corpus, tok, ExamplesConfig(max_len=64), tmp_path_factory.mktemp('rows'))

@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    "Saving may cost what it likes, for runs this short would be over before a second checkpoint."
    monkeypatch.setattr(CostLimit, 'share', float('inf'))

@pytest.fixture
def new_learner(examples):
    "A function that makes a learner as a new process would."
    def new(cfg=few):
        torch.manual_seed(cfg.seed)
        objective = RTD()
        return pretrain_learner(*examples, tok, objective, objective.build(shape, len(tok)), cfg, optim, 'cpu')
    return new

def lines(home):
    "The log without its times."
    return [{k:v for k,v in line.items() if k not in ('tokens_per_s','seconds')} for line in read_log(home/'log.jsonl')]

def newest(home): return newest_checkpoint(home/'checkpoints').name

def weights(home):
    "The weights of both towers at the newest checkpoint."
    folder = newest_checkpoint(home/'checkpoints')
    return {f'{t}.{k}':v for t in ('generator','discriminator') for k,v in load_file(folder/t/'model.safetensors').items()}

def check_same(home, whole):
    "Two runs have the same log and the same weights, bit for bit."
    a,b = weights(home),weights(whole)
    assert lines(home)==lines(whole)
    assert a.keys()==b.keys() and [k for k in a if not a[k].equal(b[k])]==[]

@pytest.fixture
def whole(new_learner, tmp_path):
    "A run of twelve steps that nothing disturbed."
    assert train(new_learner(), tmp_path/'whole', tok, few, optim)==''
    return tmp_path/'whole'

class AskToStop(Callback):
    "Ask for a stop after a batch."
    order = 40
    def __init__(self, batch): self.batch = batch
    def after_step(self):
        if self.learn.steps.batches==self.batch: self.learn.save_steps.reason = 'asked'

class SkipSteps(Callback):
    "No update for these batches, or for any, as when 16-bit gradients overflow."
    order = MixedPrecision.order
    def __init__(self, *batches): self.batches = batches
    def before_step(self):
        if not self.batches or self.learn.steps.batches in self.batches: raise CancelStepException()

# -- Stops

def test_fingerprint(new_learner):
    "What may differ when a run goes on does not change its fingerprint."
    learn = new_learner(cfg)
    mark = lambda **kw: run_fingerprint(learn, replace(cfg, **kw), optim)
    assert {k:mark(**{k:v})==mark() for k,v in dict(keep=9, save_every=7, threads=3, unpad=True, seed=1, bs=8).items()}=={
        'keep':True, 'save_every':True, 'threads':True, 'unpad':True, 'seed':False, 'bs':False}
    whole,real = (run_fingerprint(learn, replace(cfg, hours=t(1)), replace(optim, clip=t(1), warmup=t(5), beta1=t(0))) for t in (int,float))
    assert whole==real # a command line has 1.0 where a script may have 1

def test_time_limit(new_learner, whole, tmp_path):
    "A session whose time is over makes one step; the next goes on to the end."
    learn,home = new_learner(),tmp_path/'limited'
    assert train(learn, home, tok, few, optim, max_hours=1, began=time.perf_counter()-3600)=='max_hours=1 reached'
    assert learn.steps.done==1
    assert train(new_learner(), home, tok, few, optim)==''
    check_same(home, whole)

def test_damaged_checkpoint(new_learner, whole, tmp_path):
    "A damaged newest checkpoint costs the steps since the one before."
    home = shutil.copytree(whole, tmp_path/'damaged')
    shutil.rmtree(home/'checkpoints'/'step_12')
    victim = home/'checkpoints'/'step_10'/'generator'/'model.safetensors'
    victim.write_bytes(victim.read_bytes()[:-1]+b'x')
    with pytest.warns(UserWarning, match='damaged'): assert train(new_learner(), home, tok, few, optim)==''
    check_same(home, whole)

def test_no_checkpoint_left(new_learner, whole):
    "A finished run whose checkpoints are gone is not begun again."
    (whole/'discriminator').mkdir()
    shutil.rmtree(whole/'checkpoints')
    with pytest.raises(ValueError, match='none of its checkpoints'): train(new_learner(), whole, tok, few, optim)
    assert lines(whole)

@pytest.mark.parametrize('event,n,training,kept', [('before_batch',7,True,6),('after_loss',7,True,6),('before_step',7,True,6),('after_step',7,True,7),
    ('after_batch',7,True,7),('after_step',12,True,12),('before_batch',8,False,6),('after_validate',8,False,6),('after_epoch',8,False,8)])
def test_a_callback_ends_the_training(new_learner, whole, tmp_path, event, n, training, kept):
    "It may do so at any moment, even during a step or an evaluation; an evaluation that is missing then is made up for."
    class Once(Callback): pass
    def act(self):
        if self.learn.steps.done==n and self.training==training: raise CancelFitException()
    setattr(Once, event, act)
    home = tmp_path/'ended'
    train(new_learner(), home, tok, few, optim, cbs=[Once()])
    assert newest(home)==f'step_{kept}'
    assert train(new_learner(), home, tok, few, optim)==''
    check_same(home, whole)

def test_callbacks_that_fail(new_learner, whole, tmp_path, monkeypatch):
    "A callback that ends the training is a stop like any other, one that fails is heard, and another run's checkpoint is refused."
    class Enough(Callback):
        def after_epoch(self): raise CancelFitException()
    class Never(Callback):
        def before_train(self): raise CancelFitException()
    class Full(Callback):
        def after_pred(self): raise torch.OutOfMemoryError('CUDA out of memory')
    class Broken(Callback):
        def before_fit(self): raise KeyError('my own words')
    home = tmp_path/'run'
    def go_on(*cbs, optim=optim): return train(new_learner(), home, tok, few, optim, cbs=cbs)
    assert go_on(Enough())=='a callback ended the training' and newest(home)=='step_4'
    assert go_on(Never())=='a callback ended the training'
    with pytest.raises(RuntimeError, match='another out='): go_on(Full())
    with pytest.raises(KeyError, match='my own words'): go_on(Broken())
    with pytest.raises(ValueError, match='belongs to another run'): go_on(optim=replace(optim, lr=1e-4))
    with monkeypatch.context() as m:
        m.setattr('electra_nb.training.loop.row_order', 'older')
        with pytest.raises(ValueError, match='in another order'): go_on()
    assert go_on()==''
    check_same(home, whole)
    monkeypatch.setattr('electra_nb.training.loop.row_order', 'older')
    assert go_on()=='' # a finished run is opened, whatever its order

def test_broken_off(new_learner, whole, tmp_path):
    "A learner that was broken off between the gradients and the update starts clean."
    class Break(Callback):
        def after_backward(self):
            if self.learn.steps.done==7: raise KeyboardInterrupt
    learn,home,brk = new_learner(),tmp_path/'broken',Break()
    learn.add_cb(brk)
    with pytest.raises(KeyboardInterrupt): train(learn, home, tok, few, optim)
    learn.remove_cb(brk)
    assert train(learn, home, tok, few, optim)==''
    check_same(home, whole)

code = SaveSteps.after_batch.__code__
saving = sorted({n for _,_,n in code.co_lines() if n and n>code.co_firstlineno})
assert len(saving)>1

@pytest.mark.parametrize('line', saving)
def test_signal(new_learner, tmp_path, line):
    "SIGTERM before any line of what `SaveSteps` does after step 3 stops the run with a checkpoint of that step."
    learn = new_learner(cfg)
    def trace(frame, event, arg):
        if frame.f_code is code and event=='line' and frame.f_lineno==line and learn.steps.done==3:
            sys.settrace(None)
            signal.raise_signal(signal.SIGTERM)
        return trace
    old = sys.gettrace()
    sys.settrace(trace)
    try: stopped = train(learn, tmp_path, tok, cfg, optim)
    finally: sys.settrace(old)
    assert (stopped,learn.steps.done,newest(tmp_path))==('SIGTERM',3,'step_3')

# -- Updates that are left out, and numbers that are not finite

def test_accumulate(new_learner, tmp_path):
    "Updates count, not batches."
    two = replace(cfg, accumulate=2, steps=10)
    learn = new_learner(two)
    assert train(learn, tmp_path, tok, two, optim)==''
    assert (learn.steps.done,len(learn.recorder.losses))==(10,20)
    assert [line['step'] for line in lines(tmp_path) if 'loss' in line]==[5,10]

def test_skipped_steps(new_learner, tmp_path):
    "A run that skips two steps and is stopped in between goes on with the rows that come next, and evaluates at the same steps."
    def run(name, *cbs):
        learn = new_learner()
        learn.add_cb(SkipSteps(3, 9))
        return train(learn, tmp_path/name, tok, few, optim, cbs=cbs)
    assert [run('at_once'),run('twice', AskToStop(6)),run('twice')]==['','asked','']
    check_same(tmp_path/'twice', tmp_path/'at_once')
    assert [line['step'] for line in lines(tmp_path/'twice') if 'valid' in line]==[4,8,12]

@pytest.mark.parametrize('skipped,accumulate', [((3,),1),((),2)])
def test_norms_of_updates(new_learner, tmp_path, skipped, accumulate):
    "The log has the mean norm of five updates; a step that was left out is none."
    class Gather(Callback):
        def __init__(self): self.norms = []
        def after_step(self):
            if not self.learn.steps.skipped: self.norms.append(self.learn.clip_grads.norm.item())
    own,gather = replace(few, accumulate=accumulate),Gather()
    learn = new_learner(own)
    if skipped: learn.add_cb(SkipSteps(*skipped))
    train(learn, tmp_path, tok, own, optim, cbs=[gather])
    logged = [line['grad_norm'] for line in lines(tmp_path) if 'loss' in line][:2]
    assert logged==pytest.approx([sum(gather.norms[i:i+5])/5 for i in (0,5)], abs=1e-5)

def test_skipping_all(new_learner, tmp_path):
    "A run that skips every step does not try for ever, and stops when it is asked to."
    learn = new_learner()
    learn.add_cb(SkipSteps())
    assert train(learn, tmp_path/'asked', tok, few, optim, cbs=[AskToStop(1)])=='asked'
    assert learn.steps.done==0
    learn = new_learner()
    learn.add_cb(SkipSteps())
    with pytest.raises(FloatingPointError, match='100 steps after step 0'): train(learn, tmp_path/'all', tok, few, optim)

def test_scale_of_the_loss(new_learner, tmp_path):
    "In half precision the first steps may overflow until the scale of the loss has become small enough; the run comes to its end all the same."
    class HighScale(MixedPrecision):
        name = 'mixed_precision'
        def before_fit(self): # a scale that overflows 32-bit floats, as 65,536 overflows those of 16 bit
            self.autocast,self.learn.scaler,self.scales = autocast('cpu', enabled=False),GradScaler('cpu', init_scale=2.**126),L()
    learn = new_learner()
    learn.add_cb(HighScale())
    assert train(learn, tmp_path, tok, few, optim)=='' and learn.steps.done==12
    assert [line['step'] for line in lines(tmp_path) if 'valid' in line][-1]==12

def test_loss_not_finite(new_learner, tmp_path):
    "The error names tower and step, no checkpoint of such weights is saved, and the batch is kept."
    learn = new_learner(replace(cfg, steps=20))
    learn.model.generator.generator_lm_head.bias.data.fill_(float('nan'))
    own = replace(cfg, log_every=40, save_every=1)
    with pytest.raises(FloatingPointError, match='generator became non-finite at step 1,'): train(learn, tmp_path, tok, own, optim)
    assert not list((tmp_path/'checkpoints').glob('step_*'))
    assert load_file(tmp_path/'bad_batch'/'batch.safetensors')['ids'].shape==(4,64)

def test_gradient_not_finite(new_learner, tmp_path):
    "It is found at the update, and the checkpoint before is whole."
    class Explode(Callback):
        def after_backward(self):
            if self.learn.steps.done==16: next(self.learn.model.discriminator.parameters()).grad[0,0] = float('inf')
    own = replace(cfg, log_every=20, save_every=15)
    with pytest.raises(FloatingPointError, match='became non-finite at step 17,'):
        train(new_learner(cfg), tmp_path, tok, own, optim, cbs=[Explode()])
    assert newest(tmp_path)=='step_15'

def test_stored_losses(tmp_path, new_learner):
    "With the lab's rows the forty steps of the loop's page give the losses that are stored; another processor's rounding changes some thousandths."
    import electra_nb.lab.register
    train(new_learner(cfg), tmp_path, tok, cfg, optim)
    losses = torch.tensor([line['loss'] for line in lines(tmp_path) if 'loss' in line])
    stored = torch.tensor(json.loads((Path(__file__).parent/'losses.json').read_text())['lab'])
    torch.testing.assert_close(losses, stored, atol=.05, rtol=0)
