"Extractive question answering from a file to answers: training, the ledger, official files, real data."
import json, random, tracemalloc
from pathlib import Path

import pytest, torch

from electra_nb.finetuning import finetune, load_data
from electra_nb.model.hf import save_models
from electra_nb.model.towers import get_models, sizes
from electra_nb.lab.questions.spans import answer_finder
from electra_nb.glue.kinds import kind_of
from electra_nb.lab.questions.rows import QuestionRows
from electra_nb.glue.learner import FinetuneConfig
from electra_nb.lab.questions.windows import max_context, Windows
from electra_nb.text.tokenizer import load_tokenizer, special_tokens, tiny_tokenizer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

shared = Path(__file__).parents[2]/'shared'/'data'
real = pytest.mark.skipif(not (shared/'squad').is_dir(), reason='SQuAD is not here (../shared/data/squad)')
who,does = ('doctor','fisher','teacher'),('waits','reads','walks')

def squad_file(path, n=110):
    "Paragraphs about two people, in SQuAD's format; every fifth question has no answer."
    rng,paragraphs = random.Random(0),[]
    for i in range(n):
        (a,b),(x,y,z) = rng.sample(who, 2),rng.sample(does, 3)
        context = f'{i} The {a} {x} near the river. The {b} {y} near the harbour.'
        texts = {f'Who {x}?':a, f'Who {y}?':b, f'Where is the {a}?':'river', f'Where is the {b}?':'harbour', f'Who {z}?':''}
        def answers(t): return [dict(text=t, answer_start=context.index(t))] if t else []
        qas = [dict(id=f'{i}-{k}', question=q, answers=answers(t), is_impossible=not t) for k,(q,t) in enumerate(texts.items())]
        paragraphs.append(dict(context=context, qas=qas))
    path.write_text(json.dumps(dict(version='v2.0', data=[dict(title='people', paragraphs=paragraphs)])))
    return path

@pytest.fixture(scope='module')
def study(tmp_path_factory):
    "A fine-tuning on made-up questions, from random values."
    home = tmp_path_factory.mktemp('questions')
    torch.manual_seed(42)
    tok = tiny_tokenizer()
    save_models(*get_models(sizes['tiny'], len(tok)), home/'run', tok)
    options = dict(data=str(squad_file(home/'people.json')), epochs=12, lr=2e-3, no_answer_above=0., out=str(home/'study'), device='cpu')
    return finetune(home/'run', **options),home,options

def test_learns(study):
    "It learns to answer, far above always giving the commonest answer."
    s,_,_ = study
    line, = s.lines
    assert line['metric']=='exact_match' and line['failure']==''
    assert line['scores']['dev']['has_answer_exact_match']>line['guess']+20, line['scores']
    assert line['guess']==pytest.approx(20) # no answer

def test_nothing_twice(study):
    "The same call does no run again; another seed is one line more; other constants are refused."
    s,home,options = study
    assert len(finetune(home/'run', **options).lines)==1
    with pytest.raises(ValueError, match='head'): finetune(home/'run', head='joint', **options)
    with pytest.raises(ValueError, match='no_answer_above'): finetune(home/'run', **{**options, 'no_answer_above':1.})

def test_files(study):
    "The official scripts' files hold what was scored."
    s,_,_ = study
    folder = s.out/'predictions'
    found = {k:json.loads((folder/f'people-pretrained-seed0-dev-{k}.json').read_text()) for k in ('predictions','null_odds')}
    assert found['predictions'].keys()==found['null_odds'].keys()
    rows = s.data['people'].splits['dev']
    assert list(found['predictions'])==rows.ids
    right = [(found['predictions'][i] if found['null_odds'][i]<=0 else '')==(a[0] if a else '') for i,a in zip(rows.ids, rows.answers)]
    assert 100*sum(right)/len(right)==pytest.approx(s.lines[0]['scores']['dev']['exact_match'])

def test_asking(study):
    "Answers are pieces of their contexts, alone or in a list, and from the learner too."
    s,_,_ = study
    context = '7 The teacher reads near the river. The doctor waits near the harbour.'
    table = s.predict([('Who reads?',context),('Where is the doctor?',context)])
    for r in table.to_dict('records'): assert r['answer']==context[r['start']:r['end']]
    alone = s.predict(('Who reads?',context), form='n_best')
    assert alone.answer[0]==(table.answer[0] or alone.answer[0])
    assert alone.probability.sum()==pytest.approx(1, abs=1e-6)
    text,p,place = s.learner().predict(('Who reads?',context))
    assert (text,place)==(table.answer[0],(table.start[0],table.end[0])) and (0<p<=1 if text else p!=p)
    with pytest.raises(ValueError, match='a pair'): s.predict('Who reads?')

def test_scored_again(study, tmp_path):
    "`evaluate` on the dev questions gives the score of the ledger; `top_losses` shows questions."
    s,home,_ = study
    ids = set(s.data['people'].splits['dev'].ids)
    content = json.loads((home/'people.json').read_text())
    for p in content['data'][0]['paragraphs']: p['qas'] = [q for q in p['qas'] if q['id'] in ids]
    (tmp_path/'dev.json').write_text(json.dumps(content))
    assert s.evaluate(tmp_path/'dev.json')==pytest.approx(s.lines[0]['scores']['dev'], abs=1e-3)
    assert list(s.top_losses(2).columns)==['question','context','target','prediction','loss']

def test_bad_files(study, tmp_path):
    "Broken files are refused before a run, with the place in the file."
    _,home,_ = study
    content = json.loads((home/'people.json').read_text())
    del content['data'][0]['paragraphs'][3]['qas'][1]['question']
    (tmp_path/'torn.json').write_text((home/'people.json').read_text()[:-9])
    (tmp_path/'missing.json').write_text(json.dumps(content))
    for name,says in dict(torn='broken JSON', missing=r"paragraphs\[3\].qas\[1\]: no 'question'").items():
        with pytest.raises(ValueError, match=says): finetune(home/'run', data=str(tmp_path/f'{name}.json'), out=str(tmp_path/'none'))
    assert not (tmp_path/'none').exists()

languages = { # context -> answers in it
    'यह दिल्ली। बांग्लादेश की राजधानी ढाका है।':['दिल्ली','बांग्लादेश','ढाका'],
    'أسسها الخليفة أَبُو جَعْفَرٍ الْمَنْصُورُ، وتقع على نهر دجلة.':['أَبُو جَعْفَرٍ الْمَنْصُورُ','نهر دجلة'],
    '서울특별시는 대한민국의 수도이자 최대 도시이다.':['서울특별시','대한민국'],
    'กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย':['กรุงเทพมหานคร','ประเทศไทย'],
    '北京是首都，位于华北平原北部，2019年人口2153.6万人。':['北京','华北平原北部','2019年'],
    'Моско́ва стоит на реке Москве́.':['Моско́ва','Москве́'],
    'Wien („Vindobona“) hat 656 250 Einwohner (2020).':['Vindobona','656 250','2020']}

def small_tokenizer(name, texts):
    "A tokenizer of letters, so that every answer has its own tokens."
    tok = Tokenizer(dict(bert=models.WordPiece, cased=models.WordPiece, bpe=models.BPE, unigram=models.Unigram)[name]())
    of = dict(special_tokens=[*special_tokens])
    if name in ('bert','cased'):
        tok.normalizer,tok.pre_tokenizer = normalizers.BertNormalizer(lowercase=name=='bert'),pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=1, **of)
    elif name=='bpe':
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=262, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **of)
    else:
        tok.pre_tokenizer,trainer = pre_tokenizers.Metaspace(),trainers.UnigramTrainer(vocab_size=400, unk_token='[UNK]', **of)
    tok.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tok, cls_token='[CLS]', sep_token='[SEP]', pad_token='[PAD]', unk_token='[UNK]')

@pytest.mark.parametrize('name', ['bert', 'cased', 'bpe', 'unigram'])
def test_other_languages(name):
    "What a model is taught as the answer becomes the text of the answer again, whatever the script and the tokenizer."
    asked = [(c, a) for c,answers in languages.items() for a in answers]
    contexts,answers = map(list, zip(*asked))
    tok,spans = small_tokenizer(name, [*languages]),[(c.index(a),c.index(a)+len(a)) for c,a in asked]
    rows = QuestionRows(['?']*len(asked), contexts, [[a] for a in answers], spans, [*map(str, range(len(asked)))])
    feats,find = Windows(rows, tok, 512),answer_finder(tok)
    for i,(text,wanted) in enumerate(asked):
        (first,last,_),shift = feats.y[i].tolist(),feats.n_a[i]
        got,(a,b) = find(feats.contexts[text], first-shift, last-shift)
        assert got==text[a:b]==wanted

def test_memory():
    "Windows of a large file need few bytes beside their ids, and contexts of one length are cut once."
    rng,words = random.Random(0),'the boat sails from a harbour near Rome and carries salt to Oslo in May'.split()
    contexts = [' '.join(rng.choices(words, k=300)) for _ in range(300)]
    rows = QuestionRows(['Where from?']*300, contexts, [[]]*300, [None]*300, [*map(str, range(300))])
    tok = tiny_tokenizer()
    Windows(rows.take([True]+[False]*299), tok)
    max_context.cache_clear()
    tracemalloc.start()
    feats = Windows(rows, tok)
    kept,peak = (b/len(feats.ids) for b in tracemalloc.get_traced_memory())
    tracemalloc.stop()
    assert kept<25 and peak<40
    assert max_context.cache_info().misses==len({len(c.ids) for c in feats.contexts.values()})

@real
def test_official_files():
    "SQuAD by name: counts, questions without answers, and windows of all dev questions."
    data, = load_data('squad2:train=dev-v1.1.json.xz', None, str(shared))
    assert [len(data.splits[k]) for k in ('train','dev')]==[10570,11873]
    assert sum(not a for a in data.splits['dev'].answers)==5945
    assert 'no_answer_f1' in data.task.metrics
    kind,tok = kind_of(data.task),load_tokenizer(shared/'vocab.txt')
    feats = kind.features(data.splits['dev'], tok, data.task.max_len, kind.settings(), train=True)
    assert len(set(feats.row))==11873 and not data.splits['dev'].lost
    for i in range(0, len(feats), 500):
        ids,_,(a,b,none) = feats[i]
        accepted = data.splits['dev'].answers[feats.row[i]]
        assert bool(none)==(not accepted)
        if b: assert tok.decode(ids[a:b+1])==tok.decode(tok(accepted[0], add_special_tokens=False).input_ids)
