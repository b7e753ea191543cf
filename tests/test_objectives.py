"Another objective than replaced-token detection goes through everything that a run has."
import json
from dataclasses import dataclass

import pytest, torch
from fastai.callback.core import Callback
from safetensors.torch import load_file

from electra_nb import diagnose, plan, pretrain
from electra_nb.objectives.contract import Curve, Panel
from electra_nb.objectives.mlm import MLM, MLMEval, MLMLoss, MLMModel
from electra_nb.objectives.rtd import MaskTokens
from electra_nb.objectives.table import objectives
from electra_nb.tiny import tiny_text

docs = tiny_text.split('\n\n')
settings = dict(corpus=docs, objective='mlm', steps=30, bs=4, max_len=32, eval_every=10, log_every=5, save_every=10, device='cpu', threads=1)

class StopAt(Callback):
    "Ask for the end after a step, as a signal does."
    order = 40
    def __init__(self, n): self.n = n
    def after_step(self):
        if self.learn.steps.done==self.n: self.learn.save_steps.reason = 'test'

@pytest.fixture(scope='module')
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp('mlm')
    pretrain(**settings, cache=home/'cache', out=home/'whole')
    return home/'whole'

def timeless(run): return [{k:v for k,v in json.loads(l).items() if k not in ('tokens_per_s','seconds')} for l in open(run/'log.jsonl')]

def test_everything_is_there(run):
    "Log, pictures, card, report, and the one tower as a Hugging Face folder."
    assert {'log.jsonl','curves.png','README.md','report.html','encoder','checkpoints','samples.jsonl'}<={p.name for p in run.iterdir()}
    assert not (run/'discriminator').exists()
    line,valid = timeless(run)[0],next(l['valid'] for l in timeless(run) if 'valid' in l)
    assert {'loss','mlm_loss','grad_norm','encoder_norm','batch','lr'}<=set(line) and 'disc_loss' not in line
    assert {'mask_loss','unigram_loss','mask_accuracy'}<=set(valid) and 'disc_auc' not in valid
    card,report = (run/'README.md').read_text(),(run/'report.html').read_text()
    assert 'masked language modelling' in card and '`encoder/`' in card and 'discriminator' not in card
    assert 'masked language modelling' in report and 'Discriminator' not in report
    assert json.loads((run/'recipe.json').read_text())['recipe']['objective']=='mlm'

def test_resume_is_exact(run):
    "Stopped twice and gone on with: the same weights and the same log, bit for bit."
    broken = run.parent/'broken'
    for n in (7,23,99): pretrain(**settings, cache=run.parent/'cache', out=broken, cbs=[StopAt(n)])
    a,b = (load_file(r/'encoder'/'model.safetensors') for r in (run,broken))
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert timeless(run)==timeless(broken)

def test_diagnosis(run):
    "The rules of the objective apply, and no rule about a discriminator."
    assert diagnose(run)==[] and 'too early' in diagnose(run).line()
    broken = run.parent/'frozen'
    class Freeze(Callback):
        def after_backward(self):
            for p in self.learn.model.parameters(): p.grad.zero_()
    pretrain(**settings, cache=run.parent/'cache', out=broken, cbs=[Freeze()])
    assert diagnose(broken).names==['a tower is not trained']

def test_plan():
    "A plan counts the arithmetic of the objective."
    both = [plan('tiny', docs, objective=name, steps=100, device='cpu') for name in ('electra','mlm')]
    assert both[0].flops>both[1].flops>0
    assert 'operations' in str(both[1])

def test_table():
    "Every objective declares what the rest of the program asks for."
    for o in objectives.values():
        assert o.encoder in o.towers and o.losses and o.panels and o.tiles and o.words
        assert o.fills is None or o.fills in o.towers
        assert callable(o.headline) and callable(o.healthy) and callable(o.flops)

def test_no_head_for_gaps(tmp_path, caplog, monkeypatch):
    "Where no tower has a head for it, nobody is told to fill a gap."
    monkeypatch.setattr(MLM, 'fills', None)
    with caplog.at_level('INFO', 'electra_nb'): pretrain(**{**settings, 'steps':10}, cache=tmp_path/'cache', out=tmp_path/'run')
    last = caplog.messages[-1]
    assert last.startswith('finished: ') and 'is the encoder' in last and 'fill' not in last
    assert all('fill-mask' not in (tmp_path/'run'/name).read_text() for name in ('README.md','report.html'))

class Hide(MaskTokens):
    "The masks of `MaskTokens` under another name."
    name = 'hide'

class PlainLoss(MLMLoss):
    "The loss under another name."
    def __call__(self, out, weights):
        loss = super().__call__(out, weights)
        self.last = dict(plain_loss=loss.detach())
        return loss

class PlainEval(MLMEval):
    "One metric only."
    def compute(self): return {'plain_loss':v['mlm_loss']} if (v := super().compute()) else v

@dataclass(frozen=True)
class Plain(MLM):
    "An objective with other names for everything, to which all rules of the diagnosis apply."
    losses,rules,fills = dict(plain_loss='model'),None,None
    tiles,panels = {'loss':'plain_loss'},(Panel('Loss', (Curve('plain_loss', 'held-out text'),)),)
    def headline(self, v, baseline): return f"loss {v['plain_loss']:.3f}"
    def healthy(self, v): return 'Well.'
    def __call__(self, towers, tok):
        return dict(model=MLMModel(**towers), loss_func=PlainLoss(), cbs=[Hide(tok, self.mask),PlainEval(tok.mask_token_id)], metrics=[])

def test_names_of_its_own(tmp_path, monkeypatch):
    "An objective need not know the names that others use: plan, run, diagnosis, report and card work, without samples."
    monkeypatch.setitem(objectives, 'plain', Plain())
    own = dict(settings, objective='plain')
    assert plan('tiny', docs, objective='plain', steps=100, device='cpu').flops>0
    pretrain(**own, cache=tmp_path/'cache', out=tmp_path/'run')
    assert diagnose(tmp_path/'run')==[] and not (tmp_path/'run'/'samples.jsonl').read_text()
    card,report = ((tmp_path/'run'/name).read_text() for name in ('README.md','report.html'))
    assert '| plain_loss |' in card and 'The same texts' not in report
