"Arbitrary bytes and arbitrary text: strings or a ValueError, never anything else, and never a hang."
import gzip, json, lzma, os, signal, tempfile
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa, pyarrow.parquet as pq, pytest, torch
from hypothesis import HealthCheck, given, settings, strategies as st

from electra_nb.glue.encoders import load_encoder
from electra_nb.text.corpus import get_corpus, iterable_corpus
from electra_nb.text.examples import build_examples
from electra_nb.model.towers import get_models, sizes
from electra_nb.text.packing import ExamplesConfig
from electra_nb.core.tiny import tiny_text
from electra_nb.text.tokenizer import tiny_tokenizer
from electra_nb.text.tokenizer import check_tokenizer, load_tokenizer
from electra_nb.model.hf import save_models

some = lambda n: settings(max_examples=n, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
tok = tiny_tokenizer()
packers = {'':bytes, '.gz':lambda b: gzip.compress(b, mtime=0), '.xz':lzma.compress, '.zst':lambda b: pa.compress(b, 'zstd', asbytes=True)}

@contextmanager
def limit(seconds=20):
    "Fail instead of hanging."
    def late(*_): raise AssertionError(f'still busy after {seconds} s')
    old = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try: yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)

@pytest.fixture(scope='module')
def tmp(): return Path(tempfile.mkdtemp())

def records(docs): return '\n'.join(json.dumps(dict(text=d)) for d in docs).encode()

def table(docs):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(text=docs)), sink)
    return sink.getvalue().to_pybytes()

docs = tiny_text.split('\n\n')
whole = {'.txt':tiny_text.encode(), '.jsonl':records(docs), '.parquet':table(docs), **{f'.txt{k}':f(tiny_text.encode()) for k,f in packers.items() if k}, '.jsonl.gz':packers['.gz'](records(docs))}

def harmed(data):
    "A file of which some bytes were overwritten, cut out or cut off."
    def harm(at, n, new): return data[:at]+new+data[at+n:]
    return st.builds(harm, st.integers(0, len(data)), st.sampled_from([0,1,2,50,10**6]), st.binary(max_size=20))

def read(path):
    with limit():
        try: assert all(isinstance(d, str) and d.encode() is not None for d in get_corpus(path))
        except ValueError as e: assert path.name in str(e) and len(str(e))<1000, e

@pytest.mark.parametrize('suffix', whole)
def test_bytes_as_corpus(tmp, suffix):
    "Any bytes under any suffix."
    path = tmp/f'any{suffix}'
    @some(300)
    @given(st.one_of(st.binary(max_size=2000), harmed(whole[suffix])))
    def check(data):
        path.write_bytes(data)
        read(path)
    check()

json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3), max_leaves=8)

def test_values_as_records(tmp):
    "Any JSON under `text`, and any JSON as a record."
    @some(200)
    @given(json_values)
    def check(v):
        for row in (v, dict(text=v), dict(text='fine', other=v)):
            (tmp/'rows.jsonl').write_text(json.dumps(row))
            read(tmp/'rows.jsonl')
    check()

def test_text_to_rows(tmp):
    "Any documents, half characters included, are packed into rows of valid ids."
    @some(60)
    @given(st.lists(st.text(st.characters(exclude_categories=()), max_size=300), min_size=2, max_size=6), st.sampled_from([8,16,64]))
    def check(texts, max_len):
        with tempfile.TemporaryDirectory(dir=tmp) as cache, limit():
            try: splits = build_examples(iterable_corpus(texts), tok, ExamplesConfig(max_len=max_len), cache)
            except ValueError as e:
                assert 'has no text' in str(e) or 'at least two different ones' in str(e)
                return
            for rows in splits:
                for ids,n_a in (rows[i] for i in range(len(rows))):
                    assert 2<len(ids)<=max_len and 2<n_a<=len(ids) and int(ids.max())<len(tok)
                    assert ids[0]==tok.cls_token_id and ids[-1]==tok.sep_token_id and list(ids).count(tok.mask_token_id)==0
    check()

line = st.text(st.characters(categories=('L','N','P','S','Zs')), min_size=1, max_size=60).map(str.strip).filter(bool)

def test_round_trip(tmp):
    "Ordinary lines come back from every format and compression."
    @some(40)
    @given(st.lists(st.lists(line, min_size=1, max_size=4).map('\n'.join), min_size=1, max_size=4))
    def check(texts):
        for suffix,pack in packers.items():
            for kind,data in {'.txt':'\n\n'.join(texts).encode(), '.jsonl':records(texts)}.items():
                path = tmp/f'round{kind}{suffix}'
                path.write_bytes(pack(data))
                assert list(get_corpus(path))==texts
        (tmp/'round.parquet').write_bytes(table(texts))
        assert list(get_corpus(tmp/'round.parquet'))==texts==list(get_corpus(texts))
    check()

@pytest.mark.parametrize('name', ['tokenizer.json','vocab.txt'])
def test_bytes_as_tokenizer(tmp, name):
    "Any bytes as a vocabulary: a tokenizer that works, or a ValueError."
    sound = tok.backend_tokenizer.to_str().encode() if name.endswith('.json') else '\n'.join(sorted(tok.get_vocab(), key=tok.get_vocab().get)).encode()
    @some(300)
    @given(st.one_of(st.binary(max_size=500), harmed(sound)))
    def check(data):
        (tmp/name).write_bytes(data)
        with limit():
            try: assert check_tokenizer(load_tokenizer(tmp/name))('The fisher sells fish.').input_ids
            except ValueError: pass
    check()

@pytest.fixture(scope='module')
def model(tmp):
    torch.manual_seed(0)
    save_models(*get_models(sizes['tiny'], len(tok)), tmp/'model', tok)
    return tmp/'model'/'discriminator'

@pytest.mark.parametrize('name', ['config.json','model.safetensors'])
def test_bytes_as_model(model, name):
    "Any bytes as configuration or weights: an encoder, or a ValueError."
    sound = (model/name).read_bytes()
    head = st.integers(0, 4000).flatmap(lambda at: st.builds(lambda new: sound[:at]+new+sound[at+len(new):], st.binary(max_size=8)))
    @some(60)
    @given(st.one_of(st.binary(max_size=300), harmed(sound), head))
    def check(data):
        (model/name).write_bytes(data)
        with limit():
            try: load_encoder(model)
            except ValueError: pass
    try: check()
    finally: (model/name).write_bytes(sound)

def test_values_as_config(model):
    "Any JSON under any key of a configuration."
    sound = json.loads((model/'config.json').read_text())
    keys = st.sampled_from([*sound,'auto_map','trust_remote_code','quantization_config','_attn_implementation','_attn_implementation_internal','dtype','pruned_heads','base_model_tp_plan'])
    @some(200)
    @given(st.dictionaries(keys, json_values | st.integers(-2, 600), min_size=1, max_size=3))
    def check(change):
        (model/'config.json').write_text(json.dumps({**sound, **change}))
        with limit():
            try: load_encoder(model)
            except ValueError: pass
    try: check()
    finally: (model/'config.json').write_text(json.dumps(sound))
