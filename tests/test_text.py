"Packing in processes of their own: one that is killed, and two that want the same rows; and a text that is not read again."
import hashlib, json, os, signal, time
from pathlib import Path

import pytest
from electra_nb.text import examples
from electra_nb.text import prepare as preparing
from electra_nb.text.corpus import get_corpus
from electra_nb.text.examples import build_examples
from electra_nb.text.packing import ExamplesConfig
from electra_nb.glue.features import row_ids
from electra_nb.glue.encoders import encoder_tokenizer
from electra_nb.model.hf import quiet_hf, save_tower
from electra_nb.model.towers import get_models, ModelConfig
from electra_nb.text.tokenizer import line_encoder, tiny_tokenizer, tokenizer_fingerprint, wordpiece
from electra_nb.core.tiny import tiny_text
from forked import Program
from tokenizers import ByteLevelBPETokenizer, processors, Tokenizer
from transformers import AutoTokenizer, BertConfig, BertModel, DistilBertTokenizer, PreTrainedTokenizerFast, RobertaTokenizer

begin = '''
import os, signal, sys, time
from dataclasses import replace
from electra_nb.text import examples
from electra_nb.text.corpus import iterable_corpus
from electra_nb.text.packing import ExamplesConfig
from electra_nb.text.tokenizer import tiny_tokenizer
from electra_nb.core.tiny import tiny_text
texts = [f'{d} {i}' for i in range(1500) for d in tiny_text.split('\\n\\n')]
examples.note_blocks = 1
def pack(corpus, cache): return examples.build_examples(corpus, tiny_tokenizer(), ExamplesConfig(max_len=64), cache)
corpus = iterable_corpus(texts)
'''
kill = '''
def read():
    for i,d in enumerate(texts):
        if i==8000: os.kill(os.getpid(), signal.SIGKILL)
        yield d
pack(replace(corpus, read=read), sys.argv[1])
'''
slow = '''
def read():
    for i,d in enumerate(texts):
        if i==2000:
            print('reading', flush=True)
            while not os.path.exists('go'): time.sleep(.05)
        yield d
pack(replace(corpus, read=read), sys.argv[1])
'''

def start(code, cache): return Program(begin+code, cache.parent, dict(os.environ), [str(cache)])

def wait_for(word, p):
    "Wait until a program has said a word."
    end = time.time()+120
    while word not in p.said('out'): assert p.poll() is None and time.time()<end, p.communicate()

def rows(cache):
    folder, = [p for p in (Path(cache)/'examples').iterdir() if p.is_dir()]
    return {p.name:p.read_bytes() for p in folder.iterdir()}

def test_killed_packing_goes_on(tmp_path):
    "What a killed packing had noted is used, and the rows are those of a packing that was not killed."
    assert start(kill, tmp_path/'killed').wait()==-signal.SIGKILL
    rest, = (tmp_path/'killed'/'examples').glob('.*.tmp')
    assert (rest/'progress.json').exists() and (rest/'train.ids').stat().st_size>0
    said,_ = start('pack(corpus, sys.argv[1])', tmp_path/'killed').communicate()
    assert 'packing goes on after' in said
    start('pack(corpus, sys.argv[1])', tmp_path/'whole').communicate()
    assert rows(tmp_path/'killed')==rows(tmp_path/'whole')

def test_waiting_is_said(tmp_path):
    "A second process says that it waits, and then uses the rows of the first."
    cache = tmp_path/'cache'
    first = start(slow, cache)
    wait_for('reading', first)
    second = start('pack(corpus, sys.argv[1])', cache)
    wait_for('waiting for it', second)
    (tmp_path/'go').touch()
    assert (first.wait(),second.wait())==(0,0)
    assert len(rows(cache))>6

def test_hashed_once(tmp_path, monkeypatch):
    "Text and packed rows that have been hashed before are not read for it again."
    monkeypatch.setenv('ELECTRA_NB_CACHE', str(tmp_path/'cache'))
    for name,value in dict(_least=0, _rest=-1.).items(): monkeypatch.setattr(f'electra_nb.core.files.{name}', value) # small and new files too
    (tmp_path/'texts.txt').write_text(tiny_text)
    def pack(): return build_examples(get_corpus(tmp_path/'texts.txt'), tiny_tokenizer(), ExamplesConfig(max_len=32))[0].path
    def refuse(*args): raise AssertionError('a file is hashed again')
    assert pack()==pack()
    monkeypatch.setattr(hashlib, 'file_digest', refuse)
    pack()

def test_sigma_before_a_long_row_of_dots():
    "The rule for the Greek final sigma never goes back over what it has read: a line of dots is no trap."
    tok = tiny_tokenizer()
    assert tok.backend_tokenizer.normalizer.normalize_str('ΑΣ'+'.'*12_000_000)[:3]=='ας.'

def lines(name, n): return ''.join(f'Line {i} of {name} says what boat {i%97} had in its nets.\n' for i in range(n))

@pytest.mark.parametrize('form', ['one file','two novels','one line','records'])
def test_few_documents(tmp_path, form):
    "Without blank lines about the share that was asked for is held out, nothing is lost, and no document is too long for a tokenizer."
    novels = [lines(name, 40_000) for name in ('a novel','another')]
    if form=='one file': (tmp_path/'text.txt').write_text(''.join(novels))
    if form=='two novels': (tmp_path/'text.txt').write_text('\n'.join(novels))
    if form=='one line': (tmp_path/'text.txt').write_text(''.join(novels).replace('\n', ' '))
    if form=='records': (tmp_path/'text.jsonl').write_text(''.join(json.dumps(dict(text=n*2))+'\n' for n in novels))
    corpus = get_corpus(next(tmp_path.glob('text.*')))
    assert not examples.whole_documents(corpus, .02)
    sides = list(examples.sides(corpus, .02, whole=False))
    held = sum(len(d) for side,d in sides if side=='valid')
    assert .01<held/sum(len(d) for _,d in sides)<.04
    assert sum(len(d.split()) for _,d in sides)==sum(len(d.split()) for d in corpus)
    assert max(len(d) for _,d in examples.sides(corpus, .02))<2**22

def test_refused_before_work(tmp_path, monkeypatch):
    "A text that cannot be divided is refused before a vocabulary is trained."
    monkeypatch.setattr(preparing, 'get_tokenizer', lambda *args: pytest.fail('a vocabulary was trained'))
    (tmp_path/'text.txt').write_text('One line.\nAnd another.\n')
    with pytest.raises(ValueError, match='at least two different'): preparing.prepare(get_corpus(tmp_path/'text.txt'), cache=tmp_path)

# what plain transformers reads

def _foreign_tokenizers():
    "Name -> a tokenizer that puts something else around texts, or nothing."
    bert = tiny_tokenizer()
    bare,names = Tokenizer.from_str(bert.backend_tokenizer.to_str()),bert.special_tokens_map
    bare.post_processor = processors.Sequence([])
    bare.enable_padding(length=9)
    words = ByteLevelBPETokenizer()
    words.train_from_iterator([tiny_text], vocab_size=400, special_tokens=['<s>','<pad>','</s>','<unk>','<mask>'])
    rules = json.loads(words.to_str())['model']
    roberta = RobertaTokenizer(rules['vocab'], [*map(tuple, rules['merges'])])
    return dict(own=bert, distilbert=DistilBertTokenizer(bert.get_vocab()), roberta=roberta, bare=PreTrainedTokenizerFast(tokenizer_object=bare, **names))

@pytest.mark.parametrize('name', ['own','distilbert','roberta','bare'])
def test_pairs_in_plain_transformers(tmp_path, name):
    "The tokenizer beside a model makes the ids and token types of the rows that it was trained on; the given one stays as it is."
    tok = _foreign_tokenizers()[name]
    before = tokenizer_fingerprint(tok)
    tower = get_models(ModelConfig(hidden_size=32, n_layers=1, n_heads=2, embedding_size=16, max_positions=64), len(tok))[1]
    save_tower(tower, tmp_path, tok)
    saved,text,other = AutoTokenizer.from_pretrained(tmp_path),' Déjà vu <mask>  in\nthe [MASK] harbour','the boats come'
    a,b = line_encoder(tok)([text,other])
    assert line_encoder(saved)([text,other])==[a,b] and tokenizer_fingerprint(tok)==before and saved.get_vocab()==tok.get_vocab()
    ids,n_a,_ = row_ids(*line_encoder(tok)([other]*2), tok, 64)
    pair = saved(other, other)
    assert pair.input_ids==ids and pair.token_type_ids==[0]*n_a+[1]*(len(ids)-n_a)
    assert saved(other).input_ids==row_ids(b, [], tok, 64)[0] and saved.mask_token_id==tok.mask_token_id and saved.pad_token_id==tok.pad_token_id
    if name=='roberta': assert saved(text, return_offsets_mapping=True).offset_mapping==tok(text, return_offsets_mapping=True).offset_mapping

def test_capitals_that_are_lost(tmp_path, capsys):
    "A vocabulary with capitals that would be read in lower case is named, with the setting that mends it."
    cased = wordpiece([tiny_text], 300, lower=False, min_frequency=1)
    with quiet_hf(): BertModel(BertConfig(vocab_size=len(cased), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=40)).save_pretrained(tmp_path)
    (tmp_path/'vocab.txt').write_text('\n'.join(sorted(cased.get_vocab(), key=cased.get_vocab().get)))
    for config,says,piece in (None,1,'the'),('{"do_lower_case": false}',0,'The'):
        if config: (tmp_path/'tokenizer_config.json').write_text(config)
        assert encoder_tokenizer(tmp_path).tokenize('The')==[piece]
        assert capsys.readouterr().out.count('pieces have capitals and can never occur')==says

def test_splits_that_are_left_out(capsys):
    "Of a `DatasetDict` the training split is read, and the others are named."
    from datasets import Dataset, DatasetDict
    rows = Dataset.from_dict(dict(text=['a boat','a fish']))
    assert list(get_corpus(DatasetDict(train=rows, test=rows, dev=rows)))==['a boat','a fish']
    assert "'train' is read, and 'test', 'dev' left out" in capsys.readouterr().out
    get_corpus(DatasetDict(train=rows))
    assert 'left out' not in capsys.readouterr().out

@pytest.mark.skipif(not Path('/dev/full').exists(), reason='a device that is always full')
def test_no_room_for_a_generator(monkeypatch):
    "A full disk under the temporary files is said in words."
    monkeypatch.setattr('tempfile.TemporaryFile', lambda *a, **kw: open('/dev/full', 'w', encoding='utf-8'))
    with pytest.raises(OSError, match='TMPDIR names another place.*could not be written: the disk is full'): get_corpus(d for d in ['a boat','a fish'])

def test_advice_on_a_vocabulary_fits_a_start():
    "A run with `start=` cannot train a vocabulary, so the advice to train one says so."
    tok = wordpiece(['a boat and a fish '*20], vocab_size=100, min_frequency=1)
    with pytest.raises(ValueError, match=r'Train a vocabulary \(tokenizer=None, without start=\)'): preparing.get_tokenizer(tok, ['漢字 仮名']*20)
