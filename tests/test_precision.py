"Mixed precision on a CPU, in whole runs. Every processor can compute them; where it has no instructions for it, only slowly, so here it is allowed everywhere."
import json, math

import pytest, torch
from fastai.callback.core import Callback, CancelFitException
from safetensors.torch import load_file

from electra_nb import finetune, open_run, plan, pretrain
from electra_nb.core.tiny import tiny_text
from electra_nb.objectives.table import objectives
from electra_nb.training import device as precision
from quick import rest

docs = [f'{d} {i}' for i in range(9) for d in tiny_text.split('\n\n')]
kw = dict(corpus=docs, steps=12, bs=4, eval_every=6, eval_batches=2, log_every=1, save_every=1000, max_len=32, vocab_size=500, valid=.1, threads=1, device='cpu',
    n_layers=2, hidden_size=32, embedding_size=16, init='paper')
unpadded = dict(unpad=True, dropout=.1, attention_dropout=.1)

@pytest.fixture(autouse=True)
def allowed(tmp_path, monkeypatch):
    monkeypatch.setenv('ELECTRA_NB_CACHE', str(tmp_path/'cache'))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(precision, 'cpu_has_bf16', lambda: True)

def log(run): return [{k:v for k,v in json.loads(l).items() if k not in ('seconds','tokens_per_s')} for l in (run/'log.jsonl').read_text().splitlines()]
def losses(run): return [line['loss'] for line in log(run) if 'loss' in line]
def weights(run): return {(p.parent.name,k):v for p in sorted(run.glob('*/model.safetensors')) for k,v in load_file(p).items()}

def test_kept_shapes(monkeypatch):
    "oneDNN is asked to keep few shapes of products where a CPU computes with 16 bits, and only there; a user's own number stays."
    name = 'ONEDNN_PRIMITIVE_CACHE_CAPACITY'
    for kind,before,after in (('cuda',None,None),('cpu',None,'128'),('cpu','1024','1024')):
        if before: monkeypatch.setenv(name, before)
        else: monkeypatch.delenv(name, raising=False)
        precision.Autocast('bf16', kind)
        assert precision.os.environ.get(name)==after

@pytest.mark.parametrize('objective', rest(objectives, 'electra', 'electric', 'sas'))
@pytest.mark.parametrize('dropout', rest([0.,.1], .1))
def test_every_objective(tmp_path, objective, dropout):
    "The first loss is that of full precision up to the rounding, products are rounded, and weights are not."
    seen = set()
    class Look(Callback):
        def after_pred(self): seen.add(torch.is_autocast_enabled('cpu'))
    runs = {p:tmp_path/p for p in ('fp32','bf16')}
    for p,run in runs.items():
        pretrain(**kw, objective=objective, dropout=dropout, attention_dropout=dropout, precision=p, out=run, cbs=[Look()] if p=='bf16' else [])
    first = [losses(run)[0] for run in runs.values()]
    assert seen=={True} and not torch.is_autocast_enabled('cpu')
    assert first[0]!=first[1] and math.isclose(*first, rel_tol=.01), first
    assert all(map(math.isfinite, losses(runs['bf16']))) and len(losses(runs['bf16']))==12
    assert {w.dtype for w in weights(runs['bf16']).values()}=={torch.float32}

def test_layer_norms(tmp_path):
    "What a LayerNorm reads has 32 bits, so that PyTorch does not add its gradients in 16; nothing is left on the model."
    seen,hooks = {},[]
    class Look(Callback):
        def before_fit(self):
            norms = {n:m for n,m in self.model.named_modules() if isinstance(m, torch.nn.LayerNorm)}
            for n,m in norms.items(): hooks.append(m.register_forward_hook(lambda m, args, out, n=n: seen.setdefault(n, set()).add(out.dtype)))
        def after_fit(self):
            while hooks: hooks.pop().remove()
    learn = pretrain(**kw, dropout=0., attention_dropout=0., precision='bf16', out=tmp_path/'run', cbs=[Look()])
    assert len(seen)==8 and {t for of in seen.values() for t in of}=={torch.float32}
    assert not any(m._forward_pre_hooks for m in learn.model.modules())

@pytest.mark.parametrize('changes', rest([{}, dict(accumulate=2), unpadded, dict(compile=True)], unpadded), ids=str)
def test_resume(tmp_path, changes):
    "A run that was stopped in the middle of a step and goes on ends with the weights and the log of one that was not."
    class Stop(Callback):
        def after_loss(self):
            if self.training and self.learn.steps.done==7: raise CancelFitException()
    whole,stopped = tmp_path/'whole',tmp_path/'stopped'
    pretrain(**kw, **changes, precision='bf16', out=whole)
    pretrain(**kw, **changes, precision='bf16', out=stopped, cbs=[Stop()])
    assert not (stopped/'discriminator').exists() and not torch.is_autocast_enabled('cpu')
    pretrain(**kw, **changes, precision='bf16', out=stopped)
    a,b = weights(whole),weights(stopped)
    assert a.keys()==b.keys() and all(a[k].equal(b[k]) for k in a) and log(whole)==log(stopped)

def test_fine_tuning(tmp_path, monkeypatch):
    "Every step of a fine-tuning is computed so, and nothing after it."
    entered,before_batch = [],precision.Autocast.before_batch
    monkeypatch.setattr(precision.Autocast, 'before_batch', lambda self: (entered.append(self.training), before_batch(self)))
    pretrain(**kw, out=tmp_path/'run')
    rows = dict(text=[f'the {w} is {c}' for w in ('boat','river','harbour','fish')*10 for c in ('blue','old')], label=['blue','old']*40)
    for p in ('fp32','bf16'):
        study = finetune(tmp_path/'run', data=rows, runs=1, epochs=3, device='cpu', precision=p, out=tmp_path/p)
        assert entered.count(True)==(p=='bf16')*study.lines[0]['steps'] and not torch.is_autocast_enabled('cpu')

def test_other_doors(tmp_path):
    "A plan hints at it unless it is asked for, and a run is opened in full precision."
    wide = {**kw, 'hidden_size':128, 'n_heads':2}
    del wide['threads']
    assert [any("precision='bf16'" in note for note in plan(**wide, precision=p).notes) for p in ('auto','bf16','fp32')]==[True,False,False]
    pretrain(**kw, precision='bf16', out=tmp_path/'run')
    learn = open_run(tmp_path/'run')
    learn.validate()
    assert not torch.is_autocast_enabled('cpu')

def test_refused(tmp_path, monkeypatch):
    "Where the processor has no instructions for it, it is refused before any work."
    monkeypatch.setattr(precision, 'cpu_has_bf16', lambda: False)
    with pytest.raises(ValueError, match='would be slower'): pretrain(**kw, precision='bf16', out=tmp_path/'run')
    with pytest.raises(ValueError, match="pass 'bf16' where"): pretrain(**kw, precision='fp16', out=tmp_path/'run')
    assert not (tmp_path/'run').exists()
    pretrain(**kw, out=tmp_path/'run')
    with pytest.raises(ValueError, match='would be slower'): finetune(tmp_path/'run', precision='bf16', device='cpu', out=tmp_path/'study')
    assert not (tmp_path/'study').exists()

def test_one_precision(tmp_path):
    "A run that was stopped does not go on in another precision."
    pretrain(**{**kw, 'steps':6}, out=tmp_path/'run')
    with pytest.raises(ValueError, match="precision: this run was started with 'auto', you passed 'bf16'"): pretrain(**{**kw, 'steps':6}, precision='bf16', out=tmp_path/'run')

def test_hint(tmp_path, monkeypatch, caplog):
    "A new run says what it could gain, one that goes on does not, and no narrow one."
    caplog.set_level('INFO', 'electra_nb')
    def said(**changes):
        caplog.clear()
        pretrain(**{**kw, 'steps':6, 'save_every':3, **changes})
        return "precision='bf16'" in caplog.text
    wide = dict(hidden_size=128, n_heads=2, out=tmp_path/'wide')
    assert said(**wide) and not said(**wide)
    assert not said(out=tmp_path/'narrow')
    monkeypatch.setattr(precision, 'cpu_has_bf16', lambda: False)
    assert not said(**{**wide, 'out':tmp_path/'older'})
