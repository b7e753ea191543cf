"""One change of the recipe `tiny` at a time, with the same CPU time: one line of JSON a run.

    python recipe_trials.py TEXT SENTENCES TAGGING PAIRS OUT --trials tiny vocab_2k … --seeds 0 1 2 3 4

TEXT as in paper_tables.py; or the word builtin: the docstrings, where the rows on word order are from those held out.
SENTENCES: a folder with MR/ and SUBJ/, each with train.tsv and test.tsv. TAGGING: a folder with chunk/train.txt
(CoNLL-2000), of which a tenth is scored. PAIRS: pairs of Zorro, .jsonl.
The trial named `tiny` is the third version of that recipe; `mask_falls`, which won, is the fourth;
today's is `mask_falls` with `carry_overflow`.
A trial has as many steps as take the CPU time of 4,500 steps of `tiny`; the first run of a trial measures that, in
turns with `tiny`, and writes it beside OUT. Runs that OUT has already are left out.
"""
import argparse, json, torch
import electra_nb.lab.register # gives the family 'modernbert'
import numpy as np
from dataclasses import replace
from electra_nb.model.hf import quiet_hf
from electra_nb.objectives.masking import MaskTokens
from electra_nb.recipe import make_recipe
from electra_nb.lab.own_data.builtin import word_order_task
from electra_nb.lab.kinds import kind_of
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, task_features, task_learner
from electra_nb.glue.loading import load_files
from electra_nb.text.batches import token_positions
from electra_nb.text.corpus import get_corpus
from electra_nb.text.tokenizer import load_tokenizer
from electra_nb.lab.planning.clock import time_step
from electra_nb.pretraining import prepare_text
from electra_nb.training.nonfinite import DumpBadBatch
from electra_nb.lab.scoring.towers import Scorer
from fastai.callback.core import Callback
from functools import partial
from paper_tables import add_line, bits, by_phenomenon, documents, earlier, last_evaluation, measure, one_run, sentence_task
from paper_tables import some_pairs, write_part
from pathlib import Path
from statistics import mean, median
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import AutoModel, AutoModelForMaskedLM

falling = dict(mask_prob=.3, final_mask_prob=.15)
trials = dict( # name -> what `pretrain` is told, beside `earlier`
    tiny=dict(), disc_weight_10=dict(disc_weight=10.), disc_weight_20=dict(disc_weight=20.), mask_25=dict(mask_prob=.25),
    mask_40=dict(mask_prob=.4), mask_falls=falling, whole_words=dict(mask_unit='word'), all_tokens=dict(objective='all_tokens_mlm'),
    vocab_2k=dict(vocab_size=2048), vocab_8k=dict(vocab_size=8192),
    lossless=dict(carry_overflow=True), short_rows=dict(max_len=32, bs=16), bs_16=dict(bs=16), bs_4=dict(bs=4),
    bs_16_falls=dict(bs=16, **falling), bs_16_mask_25=dict(bs=16, mask_prob=.25), bs_16_falls_1e3=dict(bs=16, lr=1e-3, **falling),
    lr_1e3=dict(lr=1e-3), lr_4e3=dict(lr=4e-3), slow_disc=dict(lr=7e-4, generator_lr=2e-3), slower_disc=dict(lr=4e-4, generator_lr=2e-3),
    dropout_10=dict(dropout=.1, attention_dropout=.1), disentangled=dict(tie='disentangled'), generator_2=dict(generator_layers=1.),
    layers_3=dict(n_layers=3, generator_layers=.3333), no_lexical=dict(lexical_start=False),
    normal=dict(init='normal', lexical_start=False), average=dict(), muon=dict(), muon_torch=dict(), muon_2=dict(), muon_half=dict(),
    muon_16_falls=dict(bs=16, **falling), vocab_8k_falls=dict(vocab_size=8192, **falling),
    lr_1e3_falls=dict(lr=1e-3, **falling), bf16_falls=dict(precision='bf16', **falling), wide=dict(hidden_size=96, embedding_size=96),
    one_wide_layer=dict(hidden_size=128, embedding_size=128, n_layers=1, generator_layers=1.),
    grow_batch=dict(bs=16), grow_rows=dict(bs=16), modern=dict(family='modernbert'), modern_no_lexical=dict(family='modernbert', lexical_start=False))

class Average(Callback):
    "End with an exponential average of the weights in place of the last ones."
    def __init__(self, steps, decay=.999): self.steps,self.update = steps,get_ema_multi_avg_fn(decay)
    def before_fit(self): self.averaged = AveragedModel(self.model, multi_avg_fn=self.update)
    def after_step(self):
        self.averaged.update_parameters(self.model)
        if self.averaged.n_averaged==self.steps: self.model.load_state_dict(self.averaged.module.state_dict())

def orthogonal(x):
    "(n, rows, columns) -> as `x`, with singular values near 1: five steps of Newton and Schulz, with Muon's coefficients."
    x = x/(x.norm(dim=(1,2), keepdim=True)+1e-7)
    for _ in range(5):
        square = x.mT@x # (n, columns, columns)
        x = 3.4445*x+x@(2.0315*square@square-4.775*square)
    return x

class Muon(Callback):
    """Muon in place of Adam for the matrices of the layers; a step is as long as one of Adam, times `times`.
    The same as PyTorch's (`TorchMuon`), but for all matrices of a shape at once, which costs less than half the time."""
    order = DumpBadBatch.order+1 # after the clipping
    def __init__(self, steps, times=1.): self.times = times
    def before_fit(self):
        matrices,self.alike = [p for name,p in self.model.named_parameters() if p.ndim==2 and '.layer.' in name],[]
        for shape in {p.shape for p in matrices}:
            alike = [p for p in matrices if p.shape==shape]
            self.alike.append((alike,torch.zeros(len(alike), *shape)))
    @torch.no_grad()
    def before_step(self):
        lr = self.opt.hypers[-1]['lr']*self.times
        for alike,mean in self.alike:
            grad = torch.stack([p.grad for p in alike])
            mean.lerp_(grad, .05)
            step = grad.lerp(mean, .95)
            wide = step.shape[1]<step.shape[2]
            step = orthogonal(step.mT).mT if wide else orthogonal(step)
            for p,s in zip(alike, step):
                p.mul_(1-.01*lr).sub_(s, alpha=lr*.2*max(s.shape)**.5)
                p.grad = None # nothing is left for Adam

class TorchMuon(Callback):
    "PyTorch's Muon in place of Adam for the matrices of the layers."
    order = Muon.order
    def __init__(self, steps): pass
    def before_fit(self):
        self.matrices = [p for name,p in self.model.named_parameters() if p.ndim==2 and '.layer.' in name]
        self.inner = torch.optim.Muon(self.matrices, weight_decay=.01, adjust_lr_fn='match_rms_adamw')
    def before_step(self):
        self.inner.param_groups[0]['lr'] = self.opt.hypers[-1]['lr']
        self.inner.step()
        for p in self.matrices: p.grad = None

class Grow(Callback):
    "Small batches at first: in each part of the training the first rows of a batch, and the first tokens of each."
    order = MaskTokens.order-1
    def __init__(self,
        steps, # of the training
        phases, # (rows, tokens) of each part
    ): self.steps,self.phases = steps,phases
    def before_batch(self):
        if not self.training: return
        rows,n = self.phases[self.learn.steps.done*len(self.phases)//self.steps]
        ids,lens,n_a,*indices = (*self.xb,*self.yb)
        ids,lens,n_a = ids[:rows,:n].clone(),lens[:rows],n_a[:rows].clamp(max=n)
        ids[lens>n,-1] = self.learn.mask_tokens.tok.sep_token_id
        lens = lens.clamp(max=n)
        if indices: indices = [torch.from_numpy(token_positions(lens.numpy(), ids.shape[1], self.dls.train.unpad))]
        self.learn.xb,self.learn.yb = (ids,lens,n_a,*indices),()

growing = dict(grow_batch=[(4,64),(8,64),(16,64)], grow_rows=[(16,32),(8,64)])
callbacks = dict( # trial -> what makes its callback from the number of steps
    average=Average, muon=Muon, muon_torch=TorchMuon, muon_16_falls=Muon, muon_2=partial(Muon, times=2.), muon_half=partial(Muon, times=.5),
    **{name:partial(Grow, phases=phases) for name,phases in growing.items()})

def few(data, n_train, n_dev=2000):
    "A task with the first of its training rows, and of its dev rows."
    train,dev = (rows.take(np.arange(len(rows))<n) for rows,n in ((data.splits['train'],n_train),(data.splits['dev'],n_dev)))
    return replace(data, name=f'{data.name}_{n_train}', splits=dict(train=train, dev=dev))

@quiet_hf()
def measure_modern(run, tune, pairs, seed, at_random):
    "What a run with towers of ModernBERT's layout is worth."
    tok = load_tokenizer(run/'tokenizer')
    gen = AutoModelForMaskedLM.from_pretrained(run/'generator').eval()
    pairs = {'generator trained':by_phenomenon(Scorer(gen, tok, 'generator', gen.config.max_position_embeddings), pairs)}
    def start(): return AutoModel.from_pretrained(run/'discriminator')
    return dict(evaluation=last_evaluation(run), tasks=tune(start, tok), pairs=pairs)

def make_tasks(text, sentences, tagging):
    "The tasks, and how many times each passes over its training rows."
    unseen = None if text=='builtin' else documents(text, 20_000_000, 26_000_000)
    few_shot = [word_order_task(unseen), *(sentence_task(sentences, k) for k in ('SUBJ','MR'))]
    return [(few(t, n), epochs) for t in few_shot for n,epochs in ((200,30.),(2000,5.))]+[(few(load_files('chunk', tagging), 2000), 5.)]

def fine_tune(start, tok, tasks, seed):
    "The score of each task; of a classifier, which rows were right as well."
    out = {}
    for data,epochs in tasks:
        encoder = start()
        own = dict(tag_head='linear') if data.task.kind=='tag' else dict(pooling='mean')
        cfg = finetune_config(encoder.config, data.task.kind, epochs=epochs, max_len=min(data.task.max_len, encoder.config.max_position_embeddings), **own)
        feats = task_features(data, tok, cfg)
        learn = task_learner(data, feats, encoder, cfg, seed)
        fit_task(learn, cfg)
        pred,rows = dev_predictions(learn)[1],data.splits['dev']
        out[data.name] = dict(score=round(next(iter(kind_of(data.task).score(rows, pred).values())), 3), rows=len(rows))
        if data.task.kind=='classify': out[data.name]['right'] = bits(pred==rows.labels)
    return out

def step_seconds(name, make_callback=None):
    "Seconds of a step of a trial, on rows of random words; of one that grows, the mean over its parts."
    if name in growing and not make_callback:
        return mean(step_seconds(name, partial(Grow, phases=[phase])) for phase in growing[name])
    make_callback = make_callback or callbacks.get(name)
    options = {**earlier, **trials[name]}
    if options['final_mask_prob']: options['mask_prob'] = (options['mask_prob']+options.pop('final_mask_prob'))/2 # on average
    recipe = make_recipe('tiny', **options)
    text = prepare_text(recipe, get_corpus())
    return time_step(recipe, text, 'cpu', cbs=[make_callback(10**9)] if make_callback else []).step

def equal_time(name, times):
    "Steps of a trial that take the CPU time of 4,500 steps of `tiny`; `times` keeps them."
    kept = json.loads(times.read_text()) if times.exists() else {}
    if name not in kept:
        took = {k:[] for k in ('tiny',name)}
        for _ in range(5):
            for k,seconds in took.items(): seconds.append(step_seconds(k))
        ratio = median(took[name])/median(took['tiny'])
        kept[name] = dict(ratio=round(ratio, 4), steps=4500 if name=='tiny' else round(4500/ratio))
        times.write_text(json.dumps(kept, indent=1)+'\n')
    return kept[name]['steps']

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('text','sentences','tagging','pairs','out'): ask.add_argument(word)
    ask.add_argument('--trials', nargs='+', default=list(trials), choices=list(trials))
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2,3,4])
    ask.add_argument('--home', default='trial_runs', help='folder for runs under way')
    a = ask.parse_args()
    torch.set_num_threads(1)
    text = None if a.text=='builtin' else str(write_part(a.text, 20_000_000, a.home))
    out,tasks,pairs = Path(a.out),make_tasks(a.text, a.sentences, a.tagging),some_pairs(a.pairs)
    for seed in a.seeds:
        for name in a.trials:
            done = {(r['trial'],r['seed']) for r in map(json.loads, out.read_text().splitlines())} if out.exists() else set()
            if (name,seed) in done: continue
            about = dict(trial=name, seed=seed, steps=equal_time(name, out.with_suffix('.times.json')))
            tune,run = partial(fine_tune, tasks=tasks, seed=seed),Path(a.home)/f'{name}-{seed}'
            cbs = [callbacks[name](about['steps'])] if name in callbacks else None
            score = measure_modern if name.startswith('modern') else measure
            add_line(out, one_run(about, {**earlier, **trials[name]}, text, run, tune, pairs, name=='tiny', cbs, score))
