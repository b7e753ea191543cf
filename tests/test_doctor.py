"Runs that are long enough to be judged: a healthy one must not be called ill, and each fault must get its right name. The rest is in `lab.reports.rules` and `lab.reports.doctor`."
import json, random, re
from pathlib import Path

import pytest

from electra_nb.lab.reports.doctor import print_diagnosis
from electra_nb.lab.reports.text_facts import repetition_ratio
from electra_nb.text.docstrings import library_docs
from forked import Program
from quick import rest
from test_process import env, run

wikipedia = Path(__file__).parent.parent.parent/'shared'/'data'/'corpus'/'wikipedia-en'/'wiki-000.txt.xz'
code = """
import json, sys, torch
from electra_nb import diagnose, pretrain
from electra_nb.core.messages import logger
from electra_nb.objectives.masking import MaskTokens
from fastai.callback.core import Callback

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

class NoRate(Callback):
    "A rate of 0 for the discriminator: its own weights are put back after every step."
    def before_fit(self):
        shared = {id(p) for p in self.learn.model.generator.parameters()}
        self.kept = [(p,p.detach().clone()) for p in self.learn.model.discriminator.parameters() if id(p) not in shared]
    def after_step(self):
        for p,was in self.kept: p.data.copy_(was)

class Tell(Callback):
    "Add the labels to the verdicts."
    def after_pred(self): self.learn.pred = self.pred._replace(logits=self.pred.logits+3*(self.pred.is_replaced.float()-.5))

class OtherIds(Callback):
    "Ids of another vocabulary: those of ordinary tokens are exchanged."
    order = MaskTokens.order-1
    def before_fit(self):
        tok = self.learn.mask_tokens.tok
        ordinary = torch.tensor([i for i in range(len(tok)) if i not in tok.all_special_ids])
        self.new = torch.arange(len(tok))
        self.new[ordinary] = ordinary[torch.randperm(len(ordinary), generator=torch.Generator().manual_seed(0))]
    before_validate = before_fit
    def before_batch(self): self.learn.xb = (self.new[self.xb[0]],*self.xb[1:])

class AllIsText(Callback):
    "The length of the batch for the length of each text."
    order = MaskTokens.order-1
    def before_batch(self):
        ids,lens,*rest = self.xb
        self.learn.xb = (ids,torch.full_like(lens, ids.shape[1]),*rest)

name,kw,cbs = json.loads(sys.argv[1])
texts = json.load(open('texts.json'))
kw['corpus'] = texts.get(kw['corpus'], kw['corpus'])
logger.setLevel('ERROR')
pretrain(out=name, device='cpu', threads=1, cbs=[globals()[c]() for c in cbs], **dict(dict(log_every=20), **kw))
found = diagnose(name)
print(json.dumps([found.names, found.line()]))
"""

def make_texts():
    "Texts of each sort, by name: lists of documents."
    rng,letters = random.Random(0),'abcdefghijklmnopqrstuvwxyz'
    docs = [doc for _,doc in library_docs(('sklearn','scipy'))]
    words = ' '.join(docs).split()
    rng.shuffle(words)
    def noise(): return ''.join(rng.choices(letters+' '*5, k=2000))
    return dict(usual=docs, words=[' '.join(words[i:i+200]) for i in range(0, len(words), 200)], noise=[noise() for _ in range(500)],
        few=[doc[:600] for doc in docs[:20]], again=[doc[:150] for _ in range(40) for doc in docs[:25]])

settled,mature = (dict(corpus='usual', steps=n, bs=16, eval_every=n//4, eval_batches=25) for n in (460,1100))
default,short = (dict(corpus='usual', steps=n, eval_every=n//4) for n in (800,120)) # of the size's own batches
cases = dict(shuffled=(dict(mature, lexical_start=False),['Shuffle'],['guesses not beyond word frequencies']), deaf=(dict(mature, steps=640, eval_every=160, bs=12),['Deaf'],['discriminator predicts only original']),
    low=(dict(settled, lr=2e-6),[],['learning rate too low']), few_rows=(dict(short, steps=4, bs=1, eval_every=2, log_every=1),[],[]),
    hot=(dict(settled, steps=230, eval_every=115, temperature=100.),[],['fakes nearly always differ']), healthy=(dict(settled, seed=1),[],[]),
    usual=(default,[],[]), high=(dict(default, steps=640, eval_every=160, lr=.05),[],['learning rate too high']), # with 16 rows in `tutorials/watch_a_run`
    words=(dict(short, corpus='words'),[],['no order in the text']), noise=(dict(short, corpus='noise'),[],['no order in the text']),
    few=(dict(short, corpus='few', steps=400, vocab_size=500),[],['data repeats']), again=(dict(short, corpus='again'),[],['data repeats']),
    tell=(short,['Tell'],['labels are given away']), no_rate=(short,['NoRate'],['a tower is not trained']),
    other_ids=(short,['OtherIds'],['vocabulary and ids disagree']), padding=(dict(short, steps=300, eval_every=100),['AllIsText'],['padding in the loss']),
    masks=(dict(short, mask_prob=.9),[],['unusual share of masks']), vocabulary=(dict(short, vocab_size=100),[],['characters instead of words']))
if wikipedia.exists(): cases['healthy'] = (dict(settled, corpus=str(wikipedia)),[],[])

@pytest.fixture(scope='module')
def home(tmp_path_factory):
    "A folder with the texts; prepared rows are shared."
    home = tmp_path_factory.mktemp('ill')
    (home/'texts.json').write_text(json.dumps(make_texts()))
    return home

def test_order_of_long_and_of_small_texts():
    "Letters of a long text and words of a small vocabulary repeat by chance nearly always; there is order in them nevertheless, and none once they are shuffled."
    rng = random.Random(0)
    def reports(): return [f'{rng.choice(("info","error"))} server {rng.choice("abcd")} lost host {rng.randint(1, 40)} for {rng.randint(1, 60)} seconds'.split() for _ in range(4000)]
    letters = [[c for c in d if c.isalnum()] for _,d in library_docs(('sklearn','scipy'))]
    for sequences,n,least in ((letters,4,1.8),(reports(),2,1.3)):
        assert repetition_ratio(sequences, n)>least
        assert .9<repetition_ratio([rng.sample(s, len(s)) for s in sequences], n)<1.1
    assert repetition_ratio([rng.choices('acgt', k=100) for _ in range(500)], 2) is None

@pytest.mark.parametrize('name', rest(cases, 'words', 'again', 'tell', 'no_rate', 'few_rows'))
def test_name(home, name):
    kw,cbs,wanted = cases[name]
    p = Program(code, home, env(home), [json.dumps([name,kw,cbs])])
    out,err = p.communicate(600)
    assert p.returncode==0, err
    names,line = json.loads(out.splitlines()[-1])
    assert names==wanted, line

stopping = """
import os, signal
from electra_nb import pretrain
from electra_nb.core.tiny import tiny_text
from fastai.callback.core import Callback
class Stop(Callback):
    def before_batch(self):
        if self.learn.steps.done==7: {}
pretrain(corpus=tiny_text.split('\\n\\n'), out='mine', steps=40, bs=2, max_len=32, n_layers=1, log_every=2, save_every=4, device='cpu', cbs=[Stop()])
"""

ends = {'os.kill(os.getpid(), signal.SIGTERM)':('Stopped (SIGTERM) at step ','no problem found'),
    "raise RuntimeError('disk gone')":('Stopped by an error (RuntimeError: ','nothing in its log'),
    'os.kill(os.getpid(), signal.SIGKILL)':('Ended after step 6 of 40 without noting why','nothing in its log')}

@pytest.mark.parametrize('end', ends)
def test_why_it_stopped(tmp_path, capsys, end):
    "Of a run that was stopped, failed or was killed, the command says so first, and from where the same call goes on."
    assert run(tmp_path, stopping.format(end))[0]
    print_diagnosis(tmp_path/'mine')
    state,verdict = capsys.readouterr().out.splitlines()
    assert state.startswith(ends[end][0]) and re.search(r'The same call goes on from step_\d[.]$', state)
    assert verdict.startswith(f'Diagnosis: {ends[end][1]}')
    if 'error' in state: assert 'disk gone) at step 7 of 40.' in state
