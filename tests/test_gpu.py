"""What a GPU would refuse, found without one. First the step, in shapes only: a fake tensor computes nothing and needs no GPU, but it has a
device: an operation on tensors of two devices fails, and so does asking for a number, which on a GPU makes the host wait; the backward pass
is PyTorch's and is left out. Then whole runs on a GPU that is none (`pretend_gpu`)."""
import json, traceback
from contextlib import contextmanager

import pandas, pytest, torch
from fastai.callback.core import Callback
from safetensors.torch import load_file
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from electra_nb import Study, evaluate_pairs, finetune, open_run, pretrain, score
from electra_nb.core.tiny import tiny_text
from electra_nb.finetuning import load_data
from electra_nb.objectives.contract import Evaluate
from electra_nb.objectives.table import objectives
from electra_nb.recipe import make_recipe
from electra_nb.pretraining import build_learner, prepare_text
from electra_nb.glue.learner import task_features, task_learner
from electra_nb.glue.learner import finetune_config
from electra_nb.model.towers import get_models, sizes
from electra_nb.text.corpus import get_corpus
from electra_nb.text.tokenizer import tiny_tokenizer
from pretend_gpu import pretend_gpu
from quick import rest

class Copies(TorchDispatchMode):
    "Notes copies between host and device."
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        place = {torch.ops.aten._to_copy:0, torch.ops.aten.copy_:1}.get(func.overloadpacket)
        source = None if place is None else args[place]
        if torch.is_tensor(source) and source.device.type!=out.device.type: self.seen.append(''.join(traceback.format_stack(limit=12)))
        return out

@contextmanager
def fake_gpu():
    "Fake tensors, and the copies that were made."
    with FakeTensorMode(allow_non_fake_inputs=True), Copies() as copies: yield copies

@contextmanager
def half_precision():
    "bfloat16 on a GPU; `torch.autocast` itself turns it off where there is none."
    torch.set_autocast_dtype('cuda', torch.bfloat16)
    torch.set_autocast_enabled('cuda', True)
    try: yield
    finally: torch.set_autocast_enabled('cuda', False)

def test_what_fails():
    "Two devices in one operation, a number read by the host, and a shape that depends on numbers; a copy is noted."
    with fake_gpu() as copies:
        x,layer = torch.ones(4, device='cuda'),torch.ones(4, 4, device='cuda')
        with half_precision(): assert nn.functional.linear(x, layer).dtype==torch.bfloat16
        with pytest.raises(Exception, match='devices'): x+torch.ones(4)
        with pytest.raises(DataDependentOutputException): x.sum().item()
        with pytest.raises(DynamicOutputShapeException): x[x>0]
        assert not copies.seen
        x.cpu()
        assert len(copies.seen)==1

def on_gpu(x, memo):
    "A fake tensor on a GPU for each tensor; the same one for the same tensor."
    if id(x) not in memo:
        fake = torch.empty(x.shape, dtype=x.dtype, device='cuda')
        memo[id(x)] = x,nn.Parameter(fake, x.requires_grad) if isinstance(x, nn.Parameter) else fake
    return memo[id(x)][1]

def move(learn, batch):
    "The model of a `Learner` and a batch, fake and on a GPU, and an optimizer for them."
    memo = {}
    for m in learn.model.modules():
        for tensors in (m._parameters,m._buffers): tensors.update({k:on_gpu(t, memo) for k,t in tensors.items() if t is not None})
    learn.dls.device = torch.device('cuda')
    learn.remove_cbs(learn.cbs.filter(lambda cb: type(cb).__name__ in ('ProgressCallback','Recorder')))
    learn.create_opt()
    return tuple(on_gpu(o, memo) for o in batch)

def forward(learn, batch, training):
    "What fastai does up to the loss, in bfloat16."
    learn.training,learn.iter,learn.n_iter,learn.pct_train = training,0,2,.5
    learn.model.train(training)
    learn._split(batch)
    learn('before_batch')
    with half_precision(), torch.set_grad_enabled(training):
        learn.pred = learn.model(*learn.xb)
        learn('after_pred')
        learn.loss_grad = learn.loss_func(learn.pred, *learn.yb)
    learn.loss = learn.loss_grad.detach().clone()
    learn('after_loss')

def step(learn, batch):
    "A training step; gradients have the shapes of the weights."
    forward(learn, batch, True)
    assert learn.loss.device.type=='cuda' and learn.loss.shape==()
    for p in learn.model.parameters(): p.grad = torch.zeros_like(p)
    learn('before_step')
    learn.opt.step()
    learn('after_step')
    learn.opt.zero_grad()

def evaluate(learn, batch):
    "A batch of the evaluation."
    metrics, = learn.cbs.filter(lambda cb: isinstance(cb, Evaluate))
    metrics.start()
    forward(learn, batch, False)

settings = dict(bs=4, max_len=32, eval_every=2, valid=.2, dropout=.1, attention_dropout=.1, init='paper', lexical_start=False)

def fake_learner(**own):
    "A `Learner` of the recipe `tiny`, with two batches."
    recipe = make_recipe('tiny', **{**settings, **own})
    learn = build_learner(recipe, prepare_text(recipe, get_corpus(tiny_text.split('\n\n'))), 'cpu')
    return learn,learn.dls.train.one_batch(),learn.dls.valid.one_batch()

others = dict(word=dict(mask_unit='word'), span=dict(mask_unit='span'), falling=dict(final_mask_prob=.1),
    untied=dict(tie='none'), tied=dict(tie='all'), disentangled=dict(tie='disentangled'), unpadded=dict(unpad=True),
    small=dict(generator_size=.5), rates=dict(generator_lr=1e-3))
cases = {**{o:dict(objective=o) for o in objectives}, **others}

@pytest.mark.parametrize('case', cases)
def test_pretraining(case):
    "From its second step on, pre-training copies nothing between host and device; the host reads no number in a step or an evaluation."
    learn,batch,valid = fake_learner(**cases[case])
    with fake_gpu() as copies:
        batch,valid = move(learn, batch),tuple(on_gpu(o, {}) for o in valid)
        step(learn, batch)
        copies.seen.clear()
        step(learn, batch)
        rows = 1 if case=='sas' else 0 # the numbers of its rows, by which their samples are found
        assert len(copies.seen)==rows, copies.seen[0]
        evaluate(learn, valid)

words,tags = ['the','river','runs'],['O','B-X','O']
def question(text, at): return dict(context=f'{text} River runs.', question='What runs?', answers=dict(text=['River'], answer_start=[at]))
one_step = dict(classify=[dict(text='the river runs', label='a'), dict(text='the sea', label='b')],
    regression=[dict(text='the river runs', label=1.5), dict(text='the sea', label=.5)],
    tag=[dict(words=words, tags=tags), dict(words=words, tags=tags[::-1])], answer=[question('A', 2), question('The', 4)])

@pytest.mark.parametrize('kind', one_step)
def test_finetuning(kind, tmp_path):
    "A step of fine-tuning on each kind of task: one device, and nothing that the host waits for."
    path = tmp_path/'rows.jsonl'
    path.write_text(''.join(json.dumps(r)+'\n' for r in one_step[kind]*20))
    tok = tiny_tokenizer()
    electra = get_models(sizes['tiny'], len(tok))[1].electra
    data, = load_data(data=str(path), dev=str(path), **(dict(regression=True) if kind=='regression' else {}))
    cfg = finetune_config(electra.config, data.task.kind, max_len=96)
    learn = task_learner(data, task_features(data, tok, cfg), electra, cfg)
    batch = learn.dls.train.one_batch()
    with fake_gpu() as copies:
        batch = move(learn, batch)
        step(learn, batch)
        copies.seen.clear()
        step(learn, batch)
        assert not copies.seen, copies.seen[0]

# Whole runs

docs = [f'{d} {i}' for i in range(20) for d in tiny_text.split('\n\n')]
short = dict(corpus=docs, steps=6, bs=4, max_len=32, eval_every=3, eval_batches=2, log_every=2, save_every=4, threads=1, resume='auto')
same = dict(precision='fp32', unpad=False, sampler='gumbel') # what a CPU does in another way by itself

def weights(run): return {f'{p.parent.name}.{k}':v for p in sorted(run.glob('*/model.safetensors')) for k,v in load_file(p).items()}
def equal(a, b):
    a,b = weights(a),weights(b)
    return len(a)>20 and a.keys()==b.keys() and all(torch.equal(a[k], b[k]) for k in a)

class StopAt(Callback):
    "Ask for the end after a step, as a signal does."
    order = 40
    def after_step(self):
        if self.learn.steps.done==4: self.learn.save_steps.reason = 'test'

def test_pretended():
    "What the GPU that is none refuses."
    with pretend_gpu():
        x,layer = torch.ones(4, device='cuda'),torch.nn.Linear(4, 4).to('cuda')
        assert x.device.type==layer(x).device.type==layer.weight.device.type=='cuda' and x.cpu().device.type=='cpu'
        with pytest.raises(RuntimeError, match='same device'): x+torch.ones(4)
        with pytest.raises(RuntimeError, match='same device'): layer(torch.ones(4))
        with pytest.raises(TypeError, match='NumPy'): x.numpy()
        assert x.sum().item()==4 and x.cpu().numpy().sum()==4
    assert x.device.type=='cpu'

@pytest.fixture(scope='module')
def home(tmp_path_factory):
    "A folder with a run on a CPU."
    home = tmp_path_factory.mktemp('gpu')
    pretrain(**short, **same, device='cpu', cache=home/'cache', out=home/'cpu')
    return home

def test_whole_run(home):
    "A run that is stopped and resumed on a GPU has the weights of the one on a CPU; it can be opened, and resumed on a CPU."
    own = dict(short, **same, cache=home/'cache')
    with pretend_gpu():
        for cbs in ([StopAt()],[]): pretrain(**own, device='cuda', out=home/'gpu', cbs=cbs)
        learn = open_run(home/'gpu', corpus=docs, cache=home/'cache')
        learn.validate()
        learn.show_results()
        pretrain(**own, device='cuda', out=home/'both', cbs=[StopAt()])
    assert {'report.html','samples.jsonl','README.md'}<={p.name for p in (home/'gpu').iterdir()} and equal(home/'cpu', home/'gpu')
    pretrain(**own, device='cpu', out=home/'both')
    assert equal(home/'cpu', home/'both')

runs = {o:dict(objective=o, precision='fp32') for o in ('sas','electric','two_stage')}
runs.update(bf16=dict(precision='bf16'), fp16=dict(precision='fp16', accumulate=2), unpadded=dict(unpad=True))

@pytest.mark.parametrize('name', rest(runs, 'two_stage', 'fp16'))
def test_other_runs(home, name):
    "Other objectives, 16-bit numbers, and without padding."
    with pretend_gpu(): pretrain(**short, **runs[name], device='cuda', cache=home/'cache', out=home/name)
    assert (home/name/'report.html').exists()

def labelled(kind):
    "A file with labelled rows of a kind, and rows to predict."
    if kind=='texts': return 'rows.csv','text,label\n'+''.join(f'the {w} runs {i},{w}\n' for i in range(30) for w in ('river','boat')),['the river runs']
    if kind=='tags': return 'rows.conll','\n\n'.join(f'the O\nriver B-X\nruns O\n{i} O' for i in range(30))+'\n',['the river runs']
    asked = [dict(question=f'what runs {i}?', context=f'the river runs {i}', answers=dict(text=['river'], answer_start=[4])) for i in range(30)]
    return 'rows.jsonl','\n'.join(map(json.dumps, asked)),[('what runs?', 'the river runs')]

@pytest.mark.parametrize('kind', ['texts','tags','questions'])
def test_predictions(home, kind):
    "Fine-tuning, predictions and scores of each kind; a CPU gives the same."
    name,text,ask = labelled(kind)
    (home/name).write_text(text)
    def asked(study): return study.predict(ask),study.evaluate(str(home/name))
    with pretend_gpu():
        finetune(home/'cpu', data=str(home/name), epochs=1, runs=2, baseline=True, out=home/kind, device='cuda')
        table,scores = asked(Study(home/kind, device='cuda'))
    assert len(table)==(3 if kind=='tags' else 1) and scores
    again,same_scores = asked(Study(home/kind, device='cpu'))
    pandas.testing.assert_frame_equal(table, again)
    assert scores==same_scores

def test_scores(home):
    "Words and pairs of sentences."
    pairs = home/'pairs.jsonl'
    pairs.write_text(json.dumps(dict(sentence_good='the river runs', sentence_bad='river the runs'))+'\n')
    with pretend_gpu():
        assert len(score(home/'cpu', ['the river runs','the sea']))==2
        for by in ('generator','discriminator'): evaluate_pairs(home/'cpu', pairs, by)
