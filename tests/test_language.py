"Text in other languages: kinds of tokenizer, documents that occur twice, advice; and smoothed labels."
import json, lzma, math, os, re, subprocess, sys
from pathlib import Path

import numpy as np, pytest, torch

from electra_nb import finetune, pretrain, score, survey
from electra_nb.core.messages import logger
from electra_nb.core.tiny import tiny_text
from electra_nb.lab.language.duplicates import drop_duplicates
from electra_nb.lab.language.subwords import subwords, words_of
from electra_nb.objectives.masking import continues_word
from electra_nb.objectives.show import piece_names
from electra_nb.text.corpus import get_corpus
from electra_nb.text.docstrings import builtin_docs
from electra_nb.text.tokenizer import line_encoder, vocab_kinds
from test_process import run

spanish = Path(__file__).parent.parent.parent/'shared'/'data'/'tagging'/'ner-es'/'train.txt.xz'
docs = [f'{word}: {d}' for word in ('Harbour','Market','City') for d in tiny_text.split('\n\n')]
small = dict(corpus=docs, steps=40, bs=4, max_len=32, vocab_size=300, valid=.3, eval_every=20, log_every=10, save_every=20, device='cpu',
    mask_unit='word', probe=False)
line = 'The teacher hid a fish; ΟΔΟΣ Père ζ-7.'

@pytest.fixture(autouse=True)
def at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logger.setLevel('ERROR')
    yield
    logger.setLevel('INFO')

def python(code, **env):
    "What a fresh process prints."
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, env={**os.environ, **env})
    assert done.returncode==0, done.stderr[-2000:]
    return done.stdout.strip()

def equal_weights(a, b): return all(map(torch.equal, a.model.state_dict().values(), b.model.state_dict().values()))

def english(n): # characters
    "Docstrings of everywhere, to train on and to measure."
    some = builtin_docs()[::5]
    sizes = np.cumsum([*map(len, some)])
    return some[:np.searchsorted(sizes, n)],some[np.searchsorted(sizes, n):][:100]

@pytest.mark.parametrize('kind', vocab_kinds)
def test_a_run_of_each_kind(kind, tmp_path):
    "It trains with masks of whole words, goes on bit for bit, is fine-tuned on tags, scores texts, and its tokenizer is one of transformers."
    logger.setLevel('ERROR')
    whole = pretrain('tiny', out='whole', tokenizer=kind, **small)
    pretrain('tiny', out='parts', tokenizer=kind, max_hours=1e-9, **small)
    assert not (tmp_path/'parts'/'discriminator').exists()
    assert equal_weights(whole, pretrain('tiny', out='parts', tokenizer=kind, **small))
    tok = whole.mask_tokens.tok
    assert type(tok.backend_tokenizer.model).__name__.lower()==kind and tok.convert_tokens_to_ids(['[PAD]','[UNK]','[CLS]','[SEP]','[MASK]'])==[0,1,2,3,4]
    read = f"from transformers import AutoTokenizer\nprint(AutoTokenizer.from_pretrained('whole/discriminator')({line!r}).input_ids)"
    assert json.loads(python(read))==tok(line).input_ids==[2,*line_encoder(tok)([line])[0],3]
    words = dict(words=[d.split()[:6] for d in docs], tags=[['B-X' if w[0].isupper() else 'O' for w in d.split()[:6]] for d in docs])
    study = finetune('whole', data=words, tag_head='linear', epochs=1, out='tags', device='cpu', max_len=32)
    assert len(study.lines)==1 and len(study.predict(['Ann saw a Boat'.split()]))==4
    assert len(score('whole', ['The fisher sells fish.'], device='cpu'))==1

def test_the_kind_of_a_run_stays(tmp_path):
    "A run that began with one kind is not continued with another, nor is a ready tokenizer trained."
    pretrain('tiny', out='run', tokenizer='bpe', max_hours=1e-9, **small)
    with pytest.raises(ValueError, match="began with a tokenizer of the kind 'bpe', not 'unigram'"): pretrain('tiny', out='run', tokenizer='unigram', **small)
    with pytest.raises(ValueError, match="pass './bpe'"): pretrain('tiny', out='more', start='run', tokenizer='bpe', **small)
    assert not (tmp_path/'more').exists()

@pytest.mark.slow
def test_same_text_same_vocabulary():
    "In processes with other hash seeds too."
    code = """from electra_nb.lab.language.subwords import subwords
from electra_nb.text.tokenizer import tokenizer_fingerprint
from electra_nb.text.docstrings import builtin_docs
docs = builtin_docs()[:100]
print(*(tokenizer_fingerprint(subwords(docs, 1000, kind=k)) for k in ('unigram','bpe')))"""
    assert python(code, PYTHONHASHSEED='1')==python(code, PYTHONHASHSEED='2', RAYON_NUM_THREADS='1')

def test_unigram_is_worth_it():
    "Fewer tokens than WordPiece, and the library's own training a third more than ours: why it is not used."
    from tokenizers import Tokenizer, models, trainers
    texts,unseen = english(600_000)
    def n_tokens(tok): return sum(map(len, line_encoder(tok)([l for d in unseen for l in d.split('\n') if l.strip()])))
    ours,wordpiece = subwords(texts, 4096),vocab_kinds['wordpiece'](texts, 4096)
    n = n_tokens(ours)
    assert n<n_tokens(wordpiece)
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = words_of
    trainer = trainers.UnigramTrainer(vocab_size=4096, unk_token='[UNK]', show_progress=False, special_tokens=['[PAD]','[UNK]','[CLS]','[SEP]','[MASK]'])
    tok.train_from_iterator([ours.backend_tokenizer.normalizer.normalize_str(t) for t in texts], trainer)
    ours.backend_tokenizer.model = tok.model
    assert n_tokens(ours)>1.25*n

@pytest.mark.parametrize('kind', ('unigram','bpe'))
def test_words_are_those_of_wordpiece(kind):
    "The same words are masked whole, shown and aligned, whatever marks them."
    tok,paper = subwords(docs, 300, kind=kind),vocab_kinds['wordpiece'](docs, 300)
    for text in (line,"don't: x_y, «naïve» 5%"):
        ours,theirs = tok(text, add_special_tokens=False),paper(text, add_special_tokens=False)
        assert len(set(ours.word_ids()))==len(set(theirs.word_ids()))
        starts = [i for i,w in enumerate(ours.word_ids()) if i==0 or w!=ours.word_ids()[i-1]]
        known = [i for i,t in enumerate(ours.input_ids) if t!=tok.unk_token_id]
        continues = continues_word(tok)[ours.input_ids].tolist()
        assert [not continues[i] for i in known]==[i in starts for i in known]
        names = piece_names(tok, ours.input_ids)
        assert [names[i].startswith('##') for i in known]==[i not in starts for i in known]

def test_equal_documents(tmp_path):
    "The first of equal documents stays; the run has another text than that with all of them, and goes on as itself only."
    again = [*docs,docs[3],docs[0]+'\n',*docs[5:7]]
    assert list(drop_duplicates(get_corpus(again)))==docs
    kw = {**small, 'corpus':again}
    whole = pretrain('tiny', out='whole', duplicates='drop', **kw)
    pretrain('tiny', out='parts', duplicates='drop', max_hours=1e-9, **kw)
    with pytest.raises(ValueError, match='corpus_fingerprint'): pretrain('tiny', out='parts', **kw)
    assert equal_weights(whole, pretrain('tiny', out='parts', duplicates='drop', **kw))
    with pytest.raises(ValueError, match="duplicates='all' is unknown"): pretrain('tiny', out='other', duplicates='all', **kw)
    (tmp_path/'text.txt').write_text('\n\n'.join(again))
    folders = [pretrain('tiny', duplicates=how, **{**small, 'corpus':'text.txt', 'steps':2, 'eval_every':2, 'save_every':2}) for how in (None,'drop')]
    assert len(list((tmp_path/'runs').iterdir()))==2 and len(folders)==2

def test_near_documents():
    "Copies in which one word of a hundred differs are mostly found; in one of five none; the same ones in another process."
    pytest.importorskip('datasketch', reason='datasketch is not installed')
    some = [d for d in builtin_docs() if 150<len(d.split())<400][:40]
    def changed(d, every): return ' '.join(f'{w}x' if i%every==50%every else w for i,w in enumerate(d.split()))
    def n_dropped(every): return 80-len(list(drop_duplicates(get_corpus(some+[changed(d, every) for d in some]), 'drop_near')))
    found = n_dropped(100)
    assert found>20 and n_dropped(5)==0 and found==n_dropped(100)
    assert list(drop_duplicates(get_corpus(some+some), 'drop_near'))==list(drop_duplicates(get_corpus(some), 'drop_near'))

def test_survey_of_english(tmp_path):
    "Of sound English text nothing is advised but what its size asks for; the line that it ends with works; the answer is repeatable."
    texts,_ = english(300_000)
    (tmp_path/'text.txt').write_text('\n\n'.join(re.sub(r'\n\s*\n', '\n', t) for t in texts))
    found = survey('text.txt')
    assert not {'lower','strip_accents','duplicates'} & found.options.keys() and str(survey('text.txt'))==str(found)
    assert found.notes[-1].startswith("pretrain('tiny', corpus='text.txt'")
    assert len(found.candidates)==5 and all(1<c['tokens_per_word']<2 for c in found.candidates)
    options = dict(found.options, steps=4, eval_every=4, eval_batches=1, device='cpu', out='run', probe=False)
    assert pretrain('tiny', corpus='text.txt', **options).steps.done==4

def test_survey_of_other_scripts():
    "A text without blanks gets a tokenizer that can cut it; capitals, accents, the Turkish i, broken letters and copies are seen."
    from electra_nb.lab.language.survey import character_facts
    rng = np.random.default_rng(0)
    pairs = [''.join(rng.choice([*'学校山川日本文字海天空人中上下'], 2)) for _ in range(60)]
    chinese = [''.join(rng.choice(pairs, 200))+'。' for _ in range(40)]
    found = survey(chinese)
    assert found.options['tokenizer'] in ('unigram','bpe') and 'without blanks' in found.notes[0] and 'mask_unit' in found.notes[0]
    by_kind = {c['kind']:c for c in reversed(found.candidates)}
    assert by_kind['wordpiece']['chars_per_token']==1<1.5<by_kind[found.options['tokenizer']]['chars_per_token']
    words = [f'{a}{b}ğ{c}ş' for a in 'abcd' for b in 'eiou' for c in 'klmn']
    turkish = [' '.join(rng.choice(words+['ırmak','İzmir'], 60)) for _ in range(40)]
    assert survey(turkish).options['lower'] is False
    copies = survey([*turkish[:20],*turkish[:20]])
    assert copies.options['duplicates']=='drop_near' and copies.facts['equal']==.5
    german = [' '.join(rng.choice(['der','das','ist','Baum','Haus','müde','große'], 80)) for _ in range(40)]
    assert survey(german).options['lower'] is False and 'strip_accents' not in survey(german).options
    french = [' '.join(rng.choice(['été','le','père','mange','déjà'], 80)) for _ in range(40)]
    assert survey(french).options['strip_accents'] is False
    assert character_facts(['na\ufffdve Ã©tÃ© \ue000'])['broken']==pytest.approx(4/13)
    assert character_facts(['12 345']*9+['θάλασσα'])['other_script']==character_facts(['12 🙂'])['other_script']==0 # they have no letters
    with pytest.raises(ValueError, match='needs 10 or more'): survey(['one text'])

@pytest.mark.skipif(not spanish.exists(), reason='../shared/data/tagging/ner-es is missing')
def test_survey_of_spanish():
    "A Spanish newspaper: accents stay, words are separated."
    text = lzma.open(spanish, 'rt', encoding='utf-8').read()[:2_000_000]
    words = [l.split()[0] if l.strip() else '\n' for l in text.splitlines()]
    sentences = [s.strip() for s in ' '.join(words).split('\n') if s.strip()]
    found = survey(['\n'.join(sentences[i:i+20]) for i in range(0, len(sentences), 20)])
    assert found.options['strip_accents'] is False and 'lower' not in found.options and found.facts['unspaced']==0

def test_command(tmp_path):
    "`electra_survey` prints the table, and refuses in a line."
    (tmp_path/'text.txt').write_text('\n\n'.join(docs))
    code = 'import sys; from electra_nb.commands import survey; sys.exit(survey())'
    rc,out,_ = run(tmp_path, code, 'text.txt')
    assert rc==0 and "pretrain('tiny', corpus='text.txt'" in out.splitlines()[-1]
    rc,_,err = run(tmp_path, code, 'nowhere.txt')
    assert rc==2 and 'Traceback' not in err

def test_label_smoothing_by_hand():
    "Three labels, smoothing .3: targets .8, .1, .1; with the weights of labels; a row's own loss is without both."
    from electra_nb.glue.head import TaskLoss
    from electra_nb.glue.tasks import Task
    from electra_nb.lab.tags.tagger import TagLoss
    out,y = torch.tensor([[0.,1.,2.],[1.,0.,0.]]),torch.tensor([1,0])
    log_p = [[x-math.log(sum(map(math.exp, row))) for x in row] for row in out.tolist()]
    rows = [-sum((.8 if j==t else .1)*log_p[i][j] for j in range(3)) for i,t in enumerate(y.tolist())]
    task = Task(('text',), ('a','b','c'))
    assert TaskLoss(task, smoothing=.3)(out, y).item()==pytest.approx(sum(rows)/2)
    assert TaskLoss(task, torch.tensor([2.,.5,1.]), .3)(out, y).item()==pytest.approx((.5*rows[0]+2*rows[1])/2)
    alone = TaskLoss(task, smoothing=.3)
    alone.reduction = 'none'
    assert alone(out, y).tolist()==pytest.approx([-log_p[0][1],-log_p[1][0]])
    tags = TagLoss()
    tags.smoothing = .3
    padded = torch.tensor([[1,0,-100]])
    assert tags(torch.cat([out,out[:1]])[None], padded).item()==pytest.approx(sum(rows))

def test_label_smoothing_in_finetune(tmp_path):
    "It changes the training and stands in the study; scores, questions, shares above 1 and the wide head refuse it in a sentence."
    pretrain('tiny', out='run', **{**small, 'steps':4, 'eval_every':4})
    rows = dict(text=[f'{d} {i}' for i,d in enumerate(docs*2)], label=['a','b']*len(docs))
    def tune(name, **kw): finetune('run', data=rows, epochs=1, max_len=32, out=name, device='cpu', runs=1, **kw)
    tune('plain')
    tune('smooth', label_smoothing=.2)
    loss = [json.loads((tmp_path/n/'results.jsonl').read_text().splitlines()[0])['loss'] for n in ('plain','smooth')]
    assert loss[0]!=loss[1] and json.loads((tmp_path/'smooth'/'study.json').read_text())['recipe']['label_smoothing']==.2
    with pytest.raises(ValueError, match='label_smoothing=1.5 must be a number from 0'): tune('bad', label_smoothing=1.5)
    scores = dict(text=rows['text'], label=[i/7 for i in range(len(rows['text']))])
    with pytest.raises(ValueError, match='this task has scores, not labels'): finetune('run', data=scores, label_smoothing=.1, out='scores', device='cpu', epochs=1, max_len=32)
    words = dict(words=[d.split()[:6] for d in docs], tags=[['O']*5+['B-X'] for d in docs])
    with pytest.raises(ValueError, match="label_smoothing would have no effect on the wide head"):
        finetune('run', data=words, label_smoothing=.1, out='tags', device='cpu', epochs=1, max_len=32)
