"""Runs with known mistakes and sound runs, and what `diagnose` says about them: a JSON file with one record a case.

    python doctor_cases.py TEXTS OUT --home FOLDER

TEXTS: a folder with wikipedia.txt and gutenberg.txt (plain text), spanish.txt and columns.conllu (one word a line, as
CoNLL writes them), sentences.tsv (CoLA's) and vocab.txt (a WordPiece vocabulary of English). Cases that OUT has already
are left out, so the same command goes on where it was stopped; a run that is still in FOLDER is only diagnosed again. `--earlier` adds
what earlier rules said about the same runs.
"""
import argparse, base64, json, lzma, random, sysconfig, time, torch
from electra_nb import diagnose, pretrain
from electra_nb.lab.bench.measure import commit
from electra_nb.core.files import atomic_file
from electra_nb.model.families import mlm_logits, rtd_logits
from electra_nb.objectives.rtd import RTDOutput, SampleTokens
from electra_nb.lab.reports.run_folder import RunFolder
from electra_nb.training.folder import versions
from fastai.callback.core import Callback
from pathlib import Path

# Texts

def head(path, n=4_000_000):
    "The documents in the first characters of a text."
    return path.read_text(errors='replace')[:n].split('\n\n')

def tagged_sentences(path):
    "The words of files with a word a line; a document is what stands between two lines of a dash."
    docs,doc = [],[]
    for line in path.read_text().splitlines():
        word = line.split(' ')[0] if line else '\n'
        if word=='-' and doc: docs,doc = [*docs,' '.join(doc)],[]
        elif word!='-': doc.append(word)
    return [*docs,' '.join(doc)]

def library(n=4_000_000):
    "The modules of Python's own library, a document each."
    paths = sorted(Path(sysconfig.get_paths()['stdlib']).glob('*.py'))
    docs = [p.read_text(errors='replace') for p in paths]
    return docs if sum(map(len, docs))<n else docs[:300]

def cyrillic(docs):
    "A text in another script: each letter stands for one of English."
    table = str.maketrans('abcdefghijklmnopqrstuvwxyz', 'абцдефгхийклмнопярстувшжыз')
    return [doc.lower().translate(table) for doc in docs]

def cut_anew(docs, n=60_000, times=60):
    "The same text again and again, cut elsewhere each time."
    rng,text = random.Random(0),' '.join('\n'.join(docs)[:n].split())
    def again():
        at = rng.randrange(len(text))
        turned = text[at:]+text[:at]
        while turned:
            size = rng.randrange(300, 3000)
            yield turned[:size]
            turned = turned[size:]
    return [doc for _ in range(times) for doc in again()]

def packed_bytes(docs):
    "A compressed file, written in letters as in an e-mail."
    packed = lzma.compress('\n\n'.join(docs).encode())
    lines = base64.encodebytes(packed).decode().splitlines()
    return ['\n'.join(lines[i:i+30]) for i in range(0, len(lines), 30)]

def word_list(docs):
    "One word a document."
    rng,words = random.Random(0),[w for doc in docs[:200] for w in doc.split()]
    return rng.sample(words, 40_000)

# Mistakes in the code

class AnotherStep(Callback):
    "Another forward pass."
    def before_fit(self):
        model = self.learn.model
        def step(ids, masked, slots, inputs): return self.step_of(model, ids, masked, slots, inputs)
        model.step = step
    before_validate = before_fit

def judge(model, proposal, read, inputs, slots):
    return RTDOutput((*proposal,rtd_logits(model.discriminator, read, *inputs),inputs[0],slots))

class ReadsMasks(AnotherStep):
    "The discriminator is given the text with [MASK], not the corrupted one."
    def step_of(self, model, ids, masked, *args): return judge(model, model.propose(ids, masked, *args), masked, args[1], args[0])

class ReadsOriginal(AnotherStep):
    "The discriminator is given the original text."
    def step_of(self, model, ids, masked, *args): return judge(model, model.propose(ids, masked, *args), ids, args[1], args[0])

class SeesNothing(AnotherStep):
    "The generator is given a text of which every word is masked."
    def step_of(self, model, ids, masked, slots, inputs):
        blank = torch.full_like(ids, self.learn.mask_tokens.tok.mask_token_id)
        proposal = model.propose(ids, blank, slots, inputs)
        return judge(model, proposal, proposal.corrupted, inputs, slots)

class MasksAreLabels(Callback):
    "A token counts as replaced if it was masked, even where the sample is right."
    def after_pred(self):
        chosen = torch.zeros_like(self.pred.real).scatter(1, self.pred.slots, self.yb[0]>0)
        self.learn.pred = self.pred._replace(is_replaced=chosen)

class Likeliest(Callback):
    "The likeliest word instead of a sample."
    order = SampleTokens.order+1
    def before_fit(self): self.learn.model.sample = lambda logits,log_probs,targets: log_probs.argmax(-1)
    before_validate = before_fit

class Uphill(Callback):
    "The gradient of the discriminator has the wrong sign."
    def after_backward(self):
        for p in self.learn.model.discriminator.discriminator_predictions.parameters(): p.grad.neg_()

class Alone(Callback):
    "The main model of `replace_mlm` sees one token, and nothing around it."
    def before_fit(self):
        model,kind = self.learn.model,type(self.learn.model)
        def step(ids, masked, slots, inputs):
            out = kind.step(model, ids, masked, slots, inputs)
            seen = out.corrupted.gather(1, slots).view(-1, 1)
            logits = mlm_logits(model.tower, seen, torch.zeros_like(seen)).view(*slots.shape, -1)
            log_probs = logits.float().log_softmax(-1)
            nll = -log_probs.gather(-1, ids.gather(1, slots)[...,None]).squeeze(-1)
            return out._replace(main_nll=nll, main_preds=log_probs.argmax(-1))
        model.step = step
    before_validate = before_fit

# Cases: text, settings, callbacks, and the problem that is to be named

def make_cases(texts):
    "All cases, by name; those of the second round were chosen after the rules had been mended for the first."
    wiki = head(texts/'wikipedia.txt')
    sick = dict(
        few_masks=(wiki, dict(mask_prob=.01), [], 'unusual share of masks'),
        dropout=(wiki, dict(dropout=.9), [], 'a setting is far from the recipe'),
        masks_to_discriminator=(wiki, {}, [ReadsMasks], 'labels are given away'),
        original_to_discriminator=(wiki, {}, [ReadsOriginal], 'discriminator predicts only original'),
        blind_generator=(wiki, {}, [SeesNothing], 'guesses not beyond word frequencies'),
        masks_as_labels=(wiki, {}, [MasksAreLabels], 'labels and mask disagree'),
        generator_rate=(wiki, dict(generator_lr=.2), [], 'learning rate too high'),
        other_script=(cyrillic(wiki), dict(tokenizer=str(texts/'vocab.txt')), [], 'characters instead of words'),
        repeated_text=(cut_anew(wiki), {}, [], 'data repeats'),
        compressed_bytes=(packed_bytes(wiki), {}, [], 'no order in the text'))
    second = dict(
        weight_decay=(wiki, dict(wd=30.), [], 'a setting is far from the recipe'),
        likeliest_words=(wiki, {}, [Likeliest], 'fakes are not drawn at random'),
        token_alone=(wiki, dict(objective='replace_mlm'), [Alone], 'main model only copies'),
        single_words=(word_list(wiki), {}, [], 'texts are too short'),
        uphill=(wiki, {}, [Uphill], 'a gradient has the wrong sign'),
        mlm=(wiki, dict(objective='mlm'), [], None),
        electra_15=(wiki, dict(objective='electra_15'), [], None),
        replace_mlm=(wiki, dict(objective='replace_mlm'), [], None))
    healthy = dict(spanish=tagged_sentences(texts/'spanish.txt'), python=library(), gutenberg=head(texts/'gutenberg.txt'),
        short_sentences=[l.split('\t')[3] for l in (texts/'sentences.tsv').read_text().splitlines()],
        columns=head(texts/'columns.conllu'))
    first = dict(sick, **{k:(docs, {}, [], None) for k,docs in healthy.items()})
    return {k:(n,*case) for n,cases in ((1,first),(2,second)) for k,case in cases.items()}

shown = ('mlm_loss','mask_loss','unigram_loss','mask_accuracy','expected_accuracy','sampled_accuracy','disc_loss','disc_floor','disc_auc',
    'unigram_auc','replaced','main_loss','copy_floor','main_accuracy','replaced_accuracy')

def one_case(name, number, docs, options, cbs, expected, home):
    "Train, ask, and write down."
    run = home/name
    if not any((run/name).exists() for name in ('encoder','discriminator')):
        pretrain(corpus=(doc for doc in docs), out=str(run), cache=str(home/'cache'), steps=800, eval_every=200, threads=1, device='cpu',
            cbs=[cb() for cb in cbs], **options)
    found,folder = diagnose(str(run)),RunFolder(run)
    figures = {k:round(folder.metrics[k], 4) for k in shown if k in folder.metrics}
    right = found.names==([expected] if expected else [])
    return dict(case=name, round=number, expected=expected, found=found.names, right=right, said=found.line(), figures=figures,
        text=folder.data)

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('texts','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--home', type=Path, required=True)
    ask.add_argument('--only', nargs='+')
    ask.add_argument('--earlier', type=Path, nargs='*', default=[], help='files of this kind, made with earlier rules')
    args = ask.parse_args()
    done = json.loads(args.out.read_text())['cases'] if args.out.exists() else []
    known = [d for path in args.earlier for d in json.loads(path.read_text())['cases']]
    earlier = {d['case']:d['found'] for d in reversed(known)} # the earliest counts
    cases = make_cases(args.texts)
    for name in args.only or cases:
        if name in [d['case'] for d in done]: continue
        record = one_case(name, *cases[name], args.home)
        done.append(dict(record, found_earlier=earlier[name]) if name in earlier else record)
        head_of = dict(what='what the diagnosis says about runs of 800 steps at size tiny', commit=commit(), date=time.strftime('%Y-%m-%d'),
            device='2 CPU cores (shared), one thread', versions=versions(), cases=done)
        atomic_file(args.out, json.dumps(head_of, indent=1, ensure_ascii=False)+'\n')
        print(name, '|', done[-1]['right'], '|', done[-1]['said'], flush=True)
