"Runs that are long enough to be judged: a healthy one must not be called ill, and each fault must get its right name. The rest is in `reports.doctor`."
import json, os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

wikipedia = Path(__file__).parent.parent.parent/'shared'/'data'/'corpus'/'wikipedia-en'/'wiki-000.txt.xz'
code = """
import json, sys, torch
from electra_nb import diagnose, pretrain
from fastai.callback.core import Callback
from electra_nb.objectives.rtd import MaskTokens

class Shuffle(Callback):
    "Destroy the order of the words."
    order = MaskTokens.order-1
    def before_batch(self):
        ids,lens,n_a = self.xb if len(self.xb)==3 else (*self.xb,*self.yb)
        n = int(lens.min())
        at = torch.cat([torch.tensor([0]), 1+torch.randperm(n-2), torch.arange(n-1, ids.shape[1])])
        rest = self.xb[1:]
        self.learn.xb = (ids[:,at],*rest)

class Deaf(Callback):
    "Train nothing of the discriminator but the bias of its last layer."
    def before_fit(self):
        disc = self.learn.model.discriminator
        for p in [*disc.electra.encoder.parameters(),*disc.discriminator_predictions.parameters()]: p.requires_grad_(False)
        torch.nn.init.zeros_(disc.discriminator_predictions.dense_prediction.weight)
        disc.discriminator_predictions.dense_prediction.bias.requires_grad_(True)

name,kw,cbs = json.loads(sys.argv[1])
pretrain(out=name, log_every=20, device='cpu', cbs=[globals()[c]() for c in cbs], **kw)
found = diagnose(name)
print(json.dumps([found.names, found.line()]))
"""
settled,mature = (dict(steps=n, bs=16, eval_every=n//4, eval_batches=25, threads=1) for n in (460,1100))
cases = dict(shuffled=(mature,['Shuffle'],['generator not beyond word frequencies']), deaf=(mature,['Deaf'],['discriminator predicts only original']),
    high=(dict(settled, lr=.05),[],['learning rate too high']), low=(dict(settled, lr=2e-6),[],['learning rate too low']),
    hot=(dict(settled, temperature=100.),[],['fakes nearly always differ']), healthy=(dict(settled, seed=1),[],[]))
if wikipedia.exists(): cases['healthy'] = (dict(settled, corpus=str(wikipedia)),[],[])

@pytest.fixture(scope='module')
def diagnoses(tmp_path_factory):
    "All runs, two at a time."
    tmp = tmp_path_factory.mktemp('ill')
    env = {**os.environ, 'ELECTRA_NB_CACHE':str(tmp/'cache'), 'HF_HOME':str(tmp/'hf'), 'CUDA_VISIBLE_DEVICES':'', 'OMP_NUM_THREADS':'1', 'ELECTRA_NB_VERBOSITY':'error'}
    def go(item):
        name,(kw,cbs,_) = item
        p = subprocess.run([sys.executable, '-c', code, json.dumps([name,kw,cbs])], cwd=tmp, env=env, capture_output=True, text=True)
        return name,p
    with ThreadPoolExecutor(2) as ex: return dict(ex.map(go, cases.items()))

@pytest.mark.parametrize('name', list(cases))
def test_name(diagnoses, name):
    p = diagnoses[name]
    assert p.returncode==0, p.stderr
    names,line = json.loads(p.stdout.splitlines()[-1])
    assert names==cases[name][2], line
