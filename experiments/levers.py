"""Three changes of `tiny` against counting: the case of words as token types, a second target, a pair of teachers.

    python levers.py TEXT SENTENCES TAGGING OUT --trials tiny case vectors short taught --seeds 0 1 2 3 4

TEXT as in paper_tables.py (the first 20 million characters train); SENTENCES and TAGGING as in recipe_trials.py, whose
tasks are asked. One line of JSON a run; runs that OUT has already are left out.

`case`: a token's type says beside its segment whether its word is lower-case, Title, UPPER, or mixed or with digits; the
type stays where the token is masked or replaced. `vectors`: at the slots the
discriminator also says what the true token's vector is, from counting which tokens share a row (cosine, one dense layer).
`short`: a third of the steps. `taught`: as many steps, beside two runs of `short` as teachers: the generator learns their
mean probabilities at the slots, the discriminator their mean verdict, each half from the teachers and half from the truth.
Its teachers are runs of `short` with the two next seeds, so these come first.
"""
import argparse, json, shutil, torch, torch.nn.functional as F
import electra_nb.lab.register # the kinds of tasks
import numpy as np
from contextlib import contextmanager
from electra_nb.glue import features
from electra_nb.lab.tags import tagger
from electra_nb.model import towers
from electra_nb.model.families import mlm_logits, rtd_logits
from electra_nb.model.forward import at_slots, length_masks
from electra_nb.objectives.masking import MaskTokens
from electra_nb.recipe import make_recipe
from electra_nb.text import examples
from electra_nb.text.corpus import get_corpus
from electra_nb.text.tokenizer import line_encoder, text_backend
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder
from fastai.callback.core import Callback
from functools import partial
from paper_tables import add_line, last_evaluation, one_run, write_part
from pathlib import Path
from recipe_trials import fine_tune, make_tasks
from sklearn.decomposition import TruncatedSVD
from scipy.sparse import csr_matrix
from torch import nn
from transformers import ElectraForMaskedLM, ElectraForPreTraining

n_cases,third = 4,1267 # kinds of words; a third of the steps of `tiny`
trials = dict(tiny={}, case={}, vectors={}, short=dict(steps=third), taught=dict(steps=third))

def case_of(word):
    "0 lower-case or without letters, 1 Title, 2 UPPER, 3 mixed or with digits."
    if any(c.isdigit() for c in word) and any(c.isalpha() for c in word): return 3
    if word==word.lower(): return 0
    if len(word)>1 and word==word.upper(): return 2
    return 1 if word[1:]==word[1:].lower() else 3

def case_encoder(tok):
    "Lines -> the case of the word of every token."
    backend = text_backend(tok)
    def cases(line):
        e = backend.encode(line, add_special_tokens=False)
        spans = {}
        for w,(a,b) in zip(e.word_ids, e.offsets): spans[w] = (min(a, spans[w][0]),b) if w in spans else (a,b)
        return [case_of(line[slice(*spans[w])]) for w in e.word_ids]
    return lambda lines: [cases(l) for l in lines]

def coded(tok):
    "Lines -> ids with the case above them: id + size of the vocabulary × case."
    encode,cases = line_encoder(tok),case_encoder(tok)
    def both(lines):
        lines = list(lines)
        return [[i+len(tok)*c for i,c in zip(*o)] for o in zip(encode(lines), cases(lines))]
    return both

def split_case(size, kept, module, args, kwargs):
    "Before the embeddings: token type = segment + 2 × case; the case is that of the batch, or stands above the ids."
    ids,types = kwargs['input_ids'],kwargs.get('token_type_ids')
    case = ids//size if kept.get('case') is None else kept['case']
    types = torch.zeros_like(ids) if types is None else types
    return args,dict(kwargs, input_ids=ids%size, token_type_ids=types+2*case)

def with_case(encoder, size, kept=None):
    encoder.embeddings.register_forward_pre_hook(partial(split_case, size, kept or {}), with_kwargs=True)
    return encoder

@contextmanager
def more_types():
    "Towers have a token type for each segment and case, and fine-tuning reads cases."
    make = towers.tower_configs
    def more(*args, **kwargs):
        cfgs = make(*args, **kwargs)
        for c in cfgs: c.type_vocab_size = 2*n_cases
        return cfgs
    plain = [(m,m.line_encoder) for m in (features,tagger)]
    towers.tower_configs = more
    for m,_ in plain: m.line_encoder = coded
    try: yield
    finally:
        towers.tower_configs = make
        for m,f in plain: m.line_encoder = f

class Case(Callback):
    "Give both towers the case of every token of a batch."
    order = MaskTokens.order-1
    def __init__(self, text, home): self.text,self.home,self.kept = text,Path(home)/'cases',{}
    def before_fit(self):
        "Pack the text once more, with cases in the place of ids: rows depend on lengths alone."
        if not hasattr(self, 'cases'):
            tok,recipe,make = self.learn.mask_tokens.tok,make_recipe('tiny'),examples.line_encoder
            examples.line_encoder = case_encoder
            try: self.cases = examples.build_examples(get_corpus(self.text), tok, recipe.packing, str(self.home))
            finally: examples.line_encoder = make
            for tower in self.learn.model.parts.values(): with_case(tower.electra, len(tok), self.kept)
    def before_batch(self):
        rows = self.dl.rows(self.iter)
        own = self.cases[0 if self.training else 1].batch(rows)[0]
        ids = self.xb[0]
        assert own.shape==ids.shape
        own = own.long()
        tok = self.learn.mask_tokens.tok
        special = torch.isin(ids, torch.tensor([tok.pad_token_id, tok.cls_token_id, tok.sep_token_id]))
        self.kept['case'] = torch.where(special, 0, own)
        if self.iter==0 and self.training: print('tokens of each case', np.bincount(self.kept['case'][~special]))

def row_vectors(rows, n_words, size=64):
    "(v, size) of unit length: which tokens share a row, by counting (logarithms, inverse frequency, SVD)."
    ids,at = np.asarray(rows.ids[:]),np.repeat(np.arange(len(rows)), np.diff(rows.offsets).astype(np.int64))
    counts = csr_matrix((np.ones(len(ids), np.float32), (at,ids)), (len(rows),n_words))
    counts.sum_duplicates()
    counts.data = 1+np.log(counts.data)
    seen = np.bincount(counts.indices, minlength=n_words)
    counts = counts.multiply(np.log(len(rows)/(1+seen)).clip(0)).tocsr()
    svd = TruncatedSVD(size, random_state=0).fit(counts)
    return F.normalize(torch.tensor(svd.components_.T*svd.singular_values_, dtype=torch.float32), dim=-1)

class Vectors(Callback):
    "A second target of the discriminator: the counted vector of the true token at each slot."
    def __init__(self, weight): self.weight = weight
    def before_fit(self):
        if hasattr(self, 'head'): return
        disc = self.learn.model.discriminator
        self.table,self.head = row_vectors(self.dls.train.dataset, len(self.learn.mask_tokens.tok)),nn.Linear(disc.config.hidden_size, 64)
        self.adam = torch.optim.Adam(self.head.parameters(), lr=2e-3) # the layer is no part of the model
        disc.discriminator_predictions.register_forward_pre_hook(self.keep)
    def keep(self, module, args): self.hidden = args[0]
    def after_loss(self):
        if not self.training: return
        slots,ids,weights = self.pred.slots,self.xb[0],self.yb[0]
        said,true = self.head(at_slots(self.hidden, slots)),self.table[ids.gather(1, slots)]
        self.cosine = (F.cosine_similarity(said, true, dim=-1)*weights).sum()/weights.sum()
        self.learn.loss_grad = self.learn.loss_grad+self.weight*(1-self.cosine)
    def after_step(self):
        self.adam.step()
        self.adam.zero_grad()
    def after_fit(self): print(f'cosine with the counted vectors {self.cosine:.3f}')

class Taught(Callback):
    "Two runs as teachers of both towers."
    def __init__(self, runs):
        def load(kind, run, tower): return kind.from_pretrained(Path(run)/tower).eval().requires_grad_(False)
        self.generators = [load(ElectraForMaskedLM, r, 'generator') for r in runs]
        self.discriminators = [load(ElectraForPreTraining, r, 'discriminator') for r in runs]
    def before_fit(self):
        if not hasattr(self, 'logits'): self.learn.model.generator.generator_lm_head.register_forward_hook(self.keep)
    def keep(self, module, args, output): self.logits = output
    def after_loss(self):
        if not self.training: return
        ids,lens,n_a,masked,slots,*_ = self.xb
        out,weights,cfg = self.pred,self.yb[0],self.learn.loss_func.cfg
        inputs = length_masks(lens, n_a, ids.shape[1])
        with torch.no_grad():
            words = torch.stack([mlm_logits(g, masked, slots, *inputs).softmax(-1) for g in self.generators]).mean(0)
            verdicts = torch.stack([rtd_logits(d, out.corrupted, *inputs).sigmoid() for d in self.discriminators]).mean(0)
        mlm = -(words*self.logits.log_softmax(-1)).sum(-1)
        rtd = F.binary_cross_entropy_with_logits(out.logits, .5*verdicts+.5*out.is_replaced.float(), reduction='none')
        gen = ((.5*mlm+.5*out.nll)*weights).sum()/weights.sum()
        disc = (rtd*out.real).sum()/out.real.sum()
        self.learn.loss_grad = cfg.gen_weight*gen+cfg.disc_weight*disc

def measure(run, tune, pairs, seed, at_random, case=False, keep=None):
    "The evaluation of a run and its scores on tasks."
    tok = encoder_tokenizer(run)
    def start(): return with_case(load_encoder(run), len(tok)) if case else load_encoder(run)
    found = dict(evaluation=last_evaluation(run), tasks=tune(start, tok))
    if keep: shutil.copytree(run, keep, ignore=shutil.ignore_patterns('checkpoint*'), dirs_exist_ok=True)
    return found

def one_trial(name, seed, text, home, tasks):
    "Pre-train and measure one run of one trial."
    run,keep = home/f'{name}-{seed}',home/'short'
    score = partial(measure, case=name=='case', keep=keep/str(seed) if name=='short' else None)
    cbs = None
    if name=='case': cbs = [Case(text, home)]
    elif name=='vectors': cbs = [Vectors(5.)]
    elif name=='taught': cbs = [Taught([keep/str((seed+k)%5) for k in (1,2)])]
    about,tune = dict(trial=name, seed=seed, steps=trials[name].get('steps', make_recipe('tiny').train.steps)),partial(fine_tune, tasks=tasks, seed=seed)
    def go(): return one_run(about, dict(unpad=False), text, run, tune, (), cbs=cbs, measure=score)
    if name!='case': return go()
    with more_types(): return go()

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('text','sentences','tagging','out'): ask.add_argument(word)
    ask.add_argument('--trials', nargs='+', default=list(trials), choices=list(trials))
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2,3,4])
    ask.add_argument('--tasks', nargs='+', default=['word_order_2000','subj_200','mr_2000','chunk_2000'])
    ask.add_argument('--home', type=Path, default=Path('lever_runs'), help='folder for runs under way')
    ask.add_argument('--steps', type=int, help='of every run, for a trial of the script')
    a = ask.parse_args()
    torch.set_num_threads(1)
    if a.steps:
        for t in trials.values(): t['steps'] = a.steps
    text,out,tasks = str(write_part(a.text, 20_000_000, a.home)),Path(a.out),[t for t in make_tasks(a.text, a.sentences, a.tagging) if t[0].name in a.tasks]
    for seed in a.seeds:
        for name in a.trials:
            done = {(r['trial'],r['seed']) for r in map(json.loads, out.read_text().splitlines())} if out.exists() else set()
            if (name,seed) not in done: add_line(out, one_trial(name, seed, text, a.home, tasks))
