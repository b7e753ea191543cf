"Every objective of the table, and one of a stranger, goes through everything that a run has."
import json, math, os
from dataclasses import dataclass
from pathlib import Path

import pytest, torch
from fastai.callback.core import Callback
from forked import Program
from safetensors.torch import load_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from types import SimpleNamespace

from electra_nb import diagnose, open_run, plan, pretrain
from electra_nb.model.towers import ModelConfig, get_models, sizes
from electra_nb.objectives.contract import Curve, Panel
from electra_nb.objectives.masking import MaskConfig, mask_tokens, n_used
from electra_nb.objectives.sampling import SampleConfig
from electra_nb.objectives.mlm import MLM, MLMEval, MLMLoss, MLMModel
from electra_nb.objectives.masking import MaskTokens
from electra_nb.objectives.evaluation import RTDEval
from electra_nb.objectives.table import get_objective, objectives
from electra_nb.recipe import make_recipe, recipe_from_file, stored_recipe
from electra_nb.core.tiny import tiny_text
from quick import pictures, rest

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
    with pictures(): pretrain(**settings, cache=home/'cache', out=home/'whole')
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
    title = next(l for l in card.splitlines() if l.startswith('# '))
    assert title.endswith('by masked language modelling') and '`encoder/`' in card and 'discriminator' not in card
    assert 'masked language modelling' in report and 'Discriminator' not in report
    assert json.loads((run/'recipe.json').read_text())['recipe']['objective']=='mlm'

@pytest.fixture(scope='module', params=list(objectives))
def each(request, tmp_path_factory):
    "A run of each objective of the table."
    home = tmp_path_factory.mktemp(request.param)
    own = dict(settings, objective=request.param, cache=tmp_path_factory.getbasetemp()/'cache')
    with pictures(): pretrain(**own, out=home/'whole') # of every panel that an objective declares
    return own,home/'whole'

def test_every_objective_has_everything(each):
    "Towers as Hugging Face folders, the losses and metrics that it declares, and a report, a card and samples in its own words."
    own,run = each
    objective,lines = objectives[own['objective']],timeless(run)
    valid = [l['valid'] for l in lines if 'valid' in l]
    assert {t for t in objective.towers if (run/t/'model.safetensors').exists()}==set(objective.towers)
    assert set(objective.losses)|{f'{t}_norm' for t in objective.towers}<=set(lines[0])
    shown = {c.key for p in objective.panels for c in p.curves if c.kind!='train'}|set(objective.headline_metrics.values())|set(objective.table)
    assert len(valid)==3 and shown<=set(valid[-1])
    card,report = (run/'README.md').read_text(),(run/'report.html').read_text()
    def known_curve(c): return c.kind=='train' or any(math.isfinite(v[c.key]) for v in valid) # where no sample is right, an area is not
    drawn = [panel.title for panel in objective.panels if any(map(known_curve, panel.curves))]
    assert all(objective.description in page for page in (card,report)) and drawn and all(title in report for title in drawn)
    assert 'generator' in objective.towers or not any('generator' in page for page in (card.replace('Generators', ''),report))
    assert objective.uses_mask_token or not any(words in card for words in ('a hidden one','hidden words'))
    judged = objective.rtd_tower or own['objective']=='electra_15' # that one at masked tokens only
    assert 'replaced tokens' not in card or judged, 'Electric looks for drawn tokens, replaced or not'
    known = [label for label,key in objective.headline_metrics.items() if math.isfinite(valid[-1][key])]
    assert known and all(label in card for label in known) and 'The same texts' in report
    assert objective.summary(valid[-1])

@pytest.mark.slow
def test_resume_is_exact(each):
    "Stopped between evaluations and gone on with: the same weights and the same log, bit for bit."
    own,run = each
    broken = run.parent/'broken'
    for n in (13,99): pretrain(**own, out=broken, cbs=[StopAt(n)])
    for tower in objectives[own['objective']].towers:
        a,b = (load_file(r/tower/'model.safetensors') for r in (run,broken))
        assert all(torch.equal(a[k], b[k]) for k in a)
    assert timeless(run)==timeless(broken)

@pytest.mark.parametrize('start', ['generator', 'random'])
def test_switch_of_stages(start, tmp_path):
    "Stopped just before, at and after the step where the generator is frozen: the same weights and log, and the start is made once."
    own = dict(settings, objective='two_stage', disc_start=start, generator_layers=1., cache=tmp_path/'cache')
    learn = pretrain(**own, out=tmp_path/'whole')
    for n in (14,15,16) if start=='generator' else (15,): pretrain(**own, out=tmp_path/'broken', cbs=[StopAt(n)])
    again = pretrain(**own, out=tmp_path/'broken')
    assert again.model.switched==learn.model.switched==15 and again.model.stage==2
    for tower in ('generator','discriminator'):
        a,b = (load_file(tmp_path/run/tower/'model.safetensors') for run in ('whole','broken'))
        assert all(torch.equal(a[k], b[k]) for k in a)
    assert timeless(tmp_path/'whole')==timeless(tmp_path/'broken')
    weights = {n:load_file(tmp_path/'whole'/'checkpoints'/f'step_{n}'/'generator'/'model.safetensors') for n in (15,30)}
    assert all(torch.equal(v, weights[30][k]) for k,v in weights[15].items()), 'the generator is not frozen'
    with open_run(tmp_path/'whole', docs, tmp_path/'cache', 'cpu').no_bar() as opened: opened.validate()
    assert opened.model.stage==2 and opened.evaluation['disc_loss']==pytest.approx(learn.evaluation['disc_loss'], rel=1e-5)

def test_adversarial_without_weight(tmp_path):
    "A generator whose reward has no weight is trained as in joint training, bit for bit."
    own = dict(settings, cache=tmp_path/'cache')
    pretrain(**dict(own, objective='electra'), out=tmp_path/'joint')
    pretrain(**dict(own, objective='adversarial'), adv_weight=0., gen_weight=1., out=tmp_path/'same')
    for tower in ('generator','discriminator'):
        a,b = (load_file(tmp_path/run/tower/'model.safetensors') for run in ('joint','same'))
        assert all(torch.equal(a[k], b[k]) for k in a)
    for a,b in zip(timeless(tmp_path/'joint'), timeless(tmp_path/'same')): # but for the rounding of a norm over more groups
        assert all(b[k]==(pytest.approx(v) if k.endswith('_norm') else v) for k,v in a.items())

def test_baseline_is_kept(tmp_path):
    "The baseline of the reward is in the checkpoints, with its moments, and not in the towers."
    own = dict(settings, objective='adversarial', cache=tmp_path/'cache')
    learn = pretrain(**own, out=tmp_path/'run')
    kept = load_file(tmp_path/'run'/'checkpoints'/'step_30'/'trainer.safetensors')
    assert kept['own.baseline.weight'].equal(learn.model.baseline.weight) and kept['exp_avg.baseline.weight'].any()
    assert all('baseline_norm' in line for line in timeless(tmp_path/'run') if 'batch' in line)

@pytest.mark.slow
def test_diagnosis(each):
    "No rule is broken by a sound run; a tower without gradients is noticed."
    own,run = each
    assert diagnose(run)==[] and 'too short to judge' in diagnose(run).line()
    class Freeze(Callback):
        def after_backward(self):
            for p in self.learn.model.parameters():
                if p.grad is not None: p.grad.zero_()
    pretrain(**own, out=run.parent/'frozen', cbs=[Freeze()])
    assert diagnose(run.parent/'frozen').names==['a tower is not trained']

def test_masks_of_bert(tmp_path):
    "80 % hidden, 10 % random words, 10 % as they are: settings of the masks, refused where nobody reads the masked text."
    masks = dict(keep_prob=.1, random_prob=.1)
    learn = pretrain(**{**settings, 'steps':10}, **masks, cache=tmp_path/'cache', out=tmp_path/'run')
    assert abs(learn.evaluation['masked_share']-.8)<.25 and diagnose(tmp_path/'run')==[]
    for name in ('electra_uniform','electra_two_tower','electric'):
        with pytest.raises(ValueError, match='keep_prob, random_prob would have no effect'): pretrain(objective=name, corpus=docs, **masks)

def test_falling_share_of_masks(tmp_path):
    "Fewer and fewer slots count, evaluations have those of the end, and a run that was stopped goes on exactly."
    cfg,seen = MaskConfig(mask_prob=.4, final_mask_prob=.1),{}
    class Count(Callback):
        order = 60
        def after_step(self):
            n = self.learn.steps.done
            wanted = n_used(self.learn.xb[1], 32, cfg.prob_at((n-1)/30))
            seen[n] = torch.equal(self.learn.yb[0].sum(1), wanted.float()),self.learn.yb[0].shape[1]
    own = dict(settings, mask_prob=.4, final_mask_prob=.1, cache=tmp_path/'cache')
    learn = pretrain(**own, out=tmp_path/'whole', cbs=[Count()])
    assert len(seen)==30 and all(equal for equal,_ in seen.values()) and [seen[n][1] for n in (1,30)]==[12,3]
    assert learn.evaluation['slots']<=3*len(learn.dls.valid.examples) and learn.mask_tokens.prob()==pytest.approx(.1)
    for n in (7,99): pretrain(**own, out=tmp_path/'broken', cbs=[StopAt(n)])
    assert timeless(tmp_path/'whole')==timeless(tmp_path/'broken')

def test_falling_temperature(tmp_path):
    "Draws have the temperature of their step, evaluations that of the end, and a run that was stopped goes on exactly."
    cfg,seen = SampleConfig(start_temperature=3., temperature_decay=.2),[]
    class Count(Callback):
        order = 60
        def after_step(self): seen.append((self.sample_tokens.now.item(),cfg.temperature_at((self.learn.steps.done-1)/30)))
    own = dict(settings, objective='electra', start_temperature=3., temperature_decay=.2, cache=tmp_path/'cache')
    learn = pretrain(**own, out=tmp_path/'whole', cbs=[Count()])
    assert len(seen)==30 and all(found==pytest.approx(wanted, rel=1e-6) for found,wanted in seen) and seen[0][0]==3.
    assert learn.sample_tokens.temperature()==pytest.approx(cfg.temperature_at(1.))
    for n in (7,99): pretrain(**own, out=tmp_path/'broken', cbs=[StopAt(n)])
    assert timeless(tmp_path/'whole')==timeless(tmp_path/'broken')

@pytest.mark.parametrize('unit', ['word', 'span'])
def test_units_of_masks(unit, tmp_path):
    "Whole words are masked in a run, but for one that is longer than a row has slots; nothing else of it changes."
    learn = pretrain(**{**settings, 'steps':10}, mask_unit=unit, keep_prob=0., cache=tmp_path/'cache', out=tmp_path/'run')
    ids,lens,n_a = learn.dls.train.new(bs=12).one_batch()[:3]
    (_,_,_,masked,*_),_ = learn.mask_tokens.mask(ids, lens, n_a)
    continues,hidden = learn.mask_tokens.continues[ids],masked!=ids
    words = (~continues).cumsum(1)
    several = torch.tensor([len(w[h].unique())>1 for w,h in zip(words, hidden)])
    marks = torch.tensor(learn.mask_tokens.tok.all_special_ids)
    inside = continues[:,1:] & several[:,None] & ~torch.isin(ids[:,:-1], marks) # a row may begin within a word
    assert several.sum()>=6 and (hidden[:,1:]==hidden[:,:-1])[inside].all() and (hidden[:,1:] & inside).any()
    assert diagnose(tmp_path/'run')==[]

def test_settings_without_effect():
    "Every objective refuses the settings that would do nothing for it."
    for name,objective in objectives.items():
        for setting in objective.without:
            value = {'tie':'none', 'disc_tokens':'masked', 'generator_heads':1, 'disallow_correct':True, 'final_mask_prob':.1, 'mask_unit':'word'}.get(setting, .7)
            with pytest.raises(ValueError, match=f'{setting} would have no effect'): make_recipe(objective=name, **{setting:value})

@pytest.mark.parametrize('name', objectives)
@pytest.mark.parametrize('kw', [dict(n_heads=2), dict(hidden_size=60, embedding_size=60, n_heads=3)])
def test_other_shape(name, kw):
    "Another number of heads needs no setting that the objective does not have, and the recipe of such a run can be read again."
    if 'generator_heads' in make_recipe(objective=name).flat(): kw = dict(kw, generator_heads=kw['n_heads'])
    recipe = make_recipe(objective=name, **kw)
    again = stored_recipe(dict(size='tiny', recipe=recipe.flat()))
    assert again==recipe and again.objective.build(again.model, 100) and again.objective.flops(again.model, 8, 64, 100)>0

every = {k:v for name in objectives for k,v in make_recipe(objective=name).flat().items()}

@pytest.mark.parametrize('name', list(objectives))
def test_settings_of_another_objective(name):
    "A setting that the objective does not have is refused, whatever its value."
    idle = {k:v for k,v in every.items() if k not in make_recipe(objective=name).flat() and v is not None}
    assert idle
    for k,v in idle.items():
        with pytest.raises(ValueError, match=f'{k} would have no effect'): make_recipe(objective=name, **{k:v})

@pytest.mark.parametrize('size', rest(['tiny','hour','large'], 'tiny'))
def test_recipe_of_another_objective(tmp_path, size):
    "The recipe of a run serves every other objective: what was chosen goes along, what the first had of its own does not."
    for old in objectives:
        (tmp_path/'recipe.json').write_text(json.dumps(dict(size=size, recipe=make_recipe(size, objective=old, lr=3e-4, mask_prob=.2).flat())))
        for new in objectives:
            _,options = recipe_from_file(tmp_path/'recipe.json', dict(objective=new))
            known = {**make_recipe(size, objective=new, lr=3e-4, mask_prob=.2).flat(), 'lexical_start':options['lexical_start']}
            assert make_recipe(size, **options).flat()==known

@pytest.mark.parametrize('name', rest(objectives, 'mlm', 'electric'))
def test_plan(name):
    "A plan counts the arithmetic of the objective."
    own,usual = (plan('tiny', docs, objective=o, steps=100, device='cpu') for o in (name,'electra'))
    assert own.flops>0 and 'operations' in str(own) and (name!='mlm' or usual.flops>own.flops)

shape = ModelConfig(hidden_size=32, n_layers=2, n_heads=2, embedding_size=16, generator_size=.5, max_positions=64)

@pytest.mark.parametrize('name', list(objectives))
def test_flops(name):
    "The operations that an objective declares are those that PyTorch counts; of two stages, the mean of both."
    objective,tok = get_objective(name),SimpleNamespace(cls_token_id=2, sep_token_id=3, mask_token_id=4)
    torch.manual_seed(0)
    args = objective(objective.build(shape, 300), tok)
    ids,lens = torch.randint(5, 300, (4,64)),torch.full((4,), 64)
    masked,slots,weights = mask_tokens(ids, lens, torch.tensor([2,3,4]), 4, objective.mask)
    counts = []
    for stage in (1,2):
        args['model'].stage = stage
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            args['loss_func'](args['model'].train()(ids, lens, lens, masked, slots), weights).backward()
        counts.append(counter.get_total_flops())
    assert sum(counts)/2==pytest.approx(objective.flops(shape, 4, 64, 300), rel=1e-6)

step = """
import electra_nb.lab.register, resource, sys, torch
from types import SimpleNamespace
from electra_nb.model.towers import sizes
from electra_nb.objectives.masking import MaskConfig, mask_tokens, n_used
from electra_nb.objectives.table import get_objective
objective,bs = get_objective(sys.argv[1]),6
torch.manual_seed(0)
args = objective(objective.build(sizes['small'], 30522), SimpleNamespace(cls_token_id=2, sep_token_id=3, mask_token_id=4))
ids,lens = torch.randint(5, 30522, (bs,128)),torch.full((bs,), 128)
masked,slots,weights = mask_tokens(ids, lens, torch.tensor([2,3,4]), 4, objective.mask)
before = int(open('/proc/self/statm').read().split()[1])*resource.getpagesize()
args['loss_func'](args['model'].train()(ids, lens, lens, masked, slots), weights).backward()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss*1024-before)
"""

@pytest.mark.skipif(not Path('/proc/self/statm').exists(), reason='the memory of a process is read from /proc')
def test_memory_of_all_tokens():
    "Predicting every token of 30,522 words takes at most one and a half times the memory of ELECTRA's step (1.12 times with these rows)."
    def needs(name): return int(Program(step, '.', dict(os.environ), [name]).communicate()[0])
    assert needs('all_tokens_mlm')<1.5*needs('electra')

def test_table():
    "Every objective declares what the rest of the program asks for."
    for o in objectives.values():
        assert o.encoder in o.towers and o.losses and o.panels and o.headline_metrics and o.description
        assert o.mlm_tower is None or o.mlm_tower in o.towers
        assert callable(o.summary) and callable(o.flops)

def test_no_head_for_gaps(tmp_path, caplog, monkeypatch):
    "Where no tower has a head for it, nobody is told to fill a gap."
    monkeypatch.setattr(MLM, 'mlm_tower', None)
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
    losses,rules,mlm_tower = dict(plain_loss='model'),None,None
    headline_metrics,panels = {'loss':'plain_loss'},(Panel('Loss', (Curve('plain_loss', 'held-out text'),)),)
    def summary(self, v): return 'Well.'
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

def test_bare_objective(tmp_path, monkeypatch):
    "An objective that shows nothing, neither pictures nor figures, is trained all the same."
    class Bare(MLM): panels,headline_metrics,table = (),{},()
    monkeypatch.setitem(objectives, 'bare', Bare())
    with pictures(): learn = pretrain(**dict(settings, objective='bare', steps=10, probe=False), cache=tmp_path/'cache', out=tmp_path/'run')
    assert learn.steps.done==10 and (tmp_path/'run'/'curves.png').exists()

def test_probe_in_half_precision():
    "The probe of the discriminator is computed in the precision of the training."
    seen,check,row = [],RTDEval(4),torch.tensor([[2,7,8,9,3]])
    check.unigram,check.gathered = torch.ones(20),SimpleNamespace(count=lambda name, logits, *rest: seen.append(logits.dtype))
    discriminator = get_models(sizes['tiny'], 20)[1]
    check.learn = SimpleNamespace(model=SimpleNamespace(discriminator=discriminator), xb=(row,torch.tensor([5]),torch.tensor([5])))
    for precision in ({},dict(mixed_precision=SimpleNamespace(autocast=torch.autocast('cpu', torch.bfloat16)))):
        vars(check.learn).update(precision)
        with torch.no_grad(): check.probe(row, torch.tensor([[1,3]]), torch.ones_like(row))
    assert seen==[torch.float32,torch.bfloat16]

@pytest.mark.parametrize('theirs,ours', dict(untied_generator='tie', fp16='precision', save_steps='save_every', report_to='log_with').items())
def test_names_of_other_programs(theirs, ours):
    "A setting by the name that it has in the original code or in transformers is answered with its name here."
    with pytest.raises(ValueError, match=f"did you mean '{ours}'"): make_recipe('small', **{theirs:1})
