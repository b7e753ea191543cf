"A text that is trained on while it is read, and one that is packed by several processes: the same rows, whatever happened on the way."
import json, shutil

import pandas as pd, pytest
from datasets import Dataset, load_dataset
from electra_nb import pack, pretrain
from electra_nb.core.tiny import tiny_text
from electra_nb.lab.stream import parts, shards
from electra_nb.lab.stream.pack import cli
from electra_nb.text.corpus import get_corpus, is_held_out
from electra_nb.text.tokenizer import load_tokenizer
from pathlib import Path
from test_process import run
from test_processes import same, sober, start, end, wait_for, weights

small = '''
from electra_nb.lab.stream import parts, shards
shards.shard_chars,parts.part_bytes = 20_000,1
'''
common = "corpus='texts', stream=True, steps=160, bs=12, max_len=32, eval_every=40, log_every=5, save_every=20, device='cpu', seed=3"
slow = '''
import time
from fastai.callback.core import Callback
class Slow(Callback):
    def after_step(self): time.sleep(.02)
'''

@pytest.fixture(scope='module')
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp('stream')
    (home/'texts').mkdir()
    for k in range(3): (home/f'texts/{k}.txt').write_text('\n\n'.join(f'{d} {i+k}' for i in range(0, 60, 3) for d in tiny_text.split('\n\n')))
    return home

def job(out, extra='', before='', cache='cache'):
    return f"{small}{before}\nfrom electra_nb import pretrain\nlearn = pretrain(out={out!r}, cache={cache!r}, {common}{extra})\n"

def losses(run): return {r['step']:r['loss'] for r in map(json.loads, (run/'log.jsonl').read_text().splitlines()) if 'loss' in r}

def files(folder): return {p.relative_to(folder).as_posix():p.read_bytes() for p in folder.rglob('*') if p.is_file() and '.lock' not in p.name}

@pytest.fixture(scope='module')
def undisturbed(home):
    rc,out,err = end(start(home, job('undisturbed'), 1))
    assert rc==0, err
    assert 'packing the first shard' in out
    facts = json.loads((home/'undisturbed/data.json').read_text())
    assert 1<facts['epochs']<3 # so the end of the text lies within
    docs = list(get_corpus(str(home/'texts')))
    assert 'first shard: ' in out and facts['documents']==sum(not is_held_out(d, .02) for d in docs) # of all, not of the first shard
    return home/'undisturbed'

def test_killed_while_it_streams(home, undisturbed):
    "Kill -9 twice, with other shards packed at each time and the cache lost between: the same command ends with the same weights and log."
    for k in range(2):
        p, = start(home, job('killed', ', cbs=[Slow()]', slow, cache=f'cache{k}'), 1)
        wait_for(home/f'killed/checkpoints/step_{40*(k+1)}', p)
        p.kill()
        p.communicate()
    rc,out,err = end(start(home, job('killed', cache='cache1'), 1))
    assert rc==0 and 'going on from step_' in out, err
    assert same(weights(home/'killed'), weights(undisturbed))
    assert losses(home/'killed')==losses(undisturbed)
    packed = [files(next((home/c/'examples').iterdir())) for c in ('cache','cache1')]
    assert packed[0]==packed[1]

def test_two_processes_stream(home):
    "The second process waits for the shards that the first one packs; without dropout both runs have the same losses."
    for n in (1,2):
        rc,_,err = end(start(home, job(f'by{n}', sober, cache=f'cache_by{n}').replace('steps=160', 'steps=40'), n))
        assert rc==0, err
    one,two = (losses(home/f'by{n}') for n in (1,2))
    assert one.keys()==two.keys()
    assert pd.Series(one).sub(pd.Series(two)).abs().max()<1e-3

def test_text_that_changed(home, undisturbed):
    "A run does not go on with another text."
    (home/'other').mkdir()
    for p in (home/'texts').iterdir(): (home/'other'/p.name).write_text(p.read_text().replace('harbour', 'haarbor', 1) if p.name=='0.txt' else p.read_text())
    rc,_,err = end(start(home, job('undisturbed', '').replace("'texts'", "'other'"), 1))
    assert rc==1 and 'corpus' in err

def test_opened_again(home, undisturbed):
    "A run that has streamed opens with the rows that it has packed."
    from electra_nb import open_run
    learn = open_run(str(undisturbed), cache=str(home/'cache'))
    assert len(learn.dls.train.examples)>0 and len(learn.dls.valid.examples)>0

@pytest.mark.parametrize('source', [['a text'],pd.DataFrame(dict(text=['a text'])),None,(t for t in 'ab')], ids=['list','frame','none','generator'])
def test_not_streamed(source, tmp_path):
    "What is in memory, or can be read once only, is refused before anything is written."
    with pytest.raises(ValueError, match='cannot be streamed'): pretrain(corpus=source, stream=True, out=str(tmp_path/'run'))
    assert not (tmp_path/'run').exists()

def test_options_that_read_all(home, tmp_path, monkeypatch):
    "Options that need the whole text say so."
    monkeypatch.chdir(home)
    kw = dict(corpus='texts', stream=True, out=str(tmp_path/'run'), cache=str(tmp_path/'cache'), device='cpu')
    with pytest.raises(ValueError, match='streamed or packed already'): pretrain(duplicates='drop', **kw)
    with pytest.raises(ValueError, match='packed as a whole'): pretrain(objective='sas', **kw)
    with pytest.raises(ValueError, match='stream=3'): pretrain(**{**kw, 'stream':3})
    with pytest.raises(FileNotFoundError): pretrain(**{**kw, 'corpus':'no_such_texts'})

def test_data_set_of_several_files(tmp_path):
    "A streamed data set gives each of its files as a part, and the same documents as when it is loaded."
    docs = tiny_text.split('\n\n')
    for k in range(3): Dataset.from_dict(dict(text=docs[2*k:2*k+2])).to_parquet(tmp_path/f'{k}.parquet')
    ds = load_dataset('parquet', data_files=str(tmp_path/'*.parquet'), split='train', streaming=True)
    found = parts.parts_of(ds)[1]
    assert len(found)==3 and [d for p in found for d in p]==docs==list(get_corpus(str(tmp_path)))

def test_text_without_end(tmp_path, monkeypatch):
    "A generator function that never ends is read no further than a run needs."
    monkeypatch.setattr(shards, 'shard_chars', 100_000)
    read = []
    def endless():
        while True:
            read.append(f'{tiny_text} {len(read)}')
            yield read[-1]
    learn = pretrain(corpus=endless, stream=True, out=str(tmp_path/'run'), cache=str(tmp_path/'cache'), steps=20, bs=4, max_len=32, vocab_size=200, valid=.1, probe=False, device='cpu')
    assert learn.steps.done==20 and not learn.dls.train.examples.ended

def test_dry_run(home, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    pretrain(corpus=str(home/'texts'), stream=True, dry_run=True, device='cpu', cache=str(tmp_path/'cache'))
    assert not (tmp_path/'runs').exists()

packing = "corpus='texts', size='tiny', max_len=32, tokenizer='vocab.txt'"

@pytest.fixture(scope='module')
def packed(home):
    load_tokenizer(Path(__file__).parent/'oracles/vocab_small.txt').backend_tokenizer.model.save(str(home))
    rc,_,err = end(start(home, f"{small}\nfrom electra_nb import pack\npack(out='packed', {packing})", 1))
    assert rc==0, err
    return home/'packed'

def test_killed_while_it_packs(home, packed):
    "Kill -9 after the first shard: the same call packs the rest, and leaves what is there."
    code = f"{small}\nfrom electra_nb import pack\npack(out='half', {packing})"
    dies = "\nimport os, signal\nfrom electra_nb.lab.stream import shards\nreal = shards.make_rows\ndef make_rows(path, *a, **kw):\n    if path.name=='00001-00000': os.kill(os.getpid(), signal.SIGKILL)\n    real(path, *a, **kw)\nshards.make_rows = make_rows\n"
    rc,_,_ = end(start(home, dies+code, 1))
    there = {p.parent.name:p.stat().st_mtime_ns for p in (home/'half/shards').glob('0*-*/manifest.json')}
    assert rc==-9 and len(list((home/'half/shards').glob('00000-*')))>=1
    rc,_,err = end(start(home, code, 1))
    assert rc==0, err
    assert files(home/'half/shards')==files(packed/'shards')
    assert there=={p.parent.name:p.stat().st_mtime_ns for p in (home/'half/shards').glob('0*-*/manifest.json') if p.parent.name in there}

def test_one_damaged_shard(home, packed):
    "Training refuses it and says what to do; the same call packs it again, alone."
    before = files(packed/'shards')
    broken = sorted((packed/'shards').glob('*-*/train.ids'))[1]
    times = {p:p.stat().st_mtime_ns for p in (packed/'shards').glob('*-*/train.ids')}
    broken.write_bytes(b'')
    with pytest.raises(ValueError, match='the same electra_pack packs it again, alone'): pretrain('tiny', corpus=str(packed), max_len=32, steps=20, out=str(home/'damaged'), device='cpu')
    rc,_,err = end(start(home, f"{small}\nfrom electra_nb import pack\npack(out='packed', {packing})", 1))
    assert rc==0, err
    assert files(packed/'shards')==before
    assert [p for p,t in times.items() if p.stat().st_mtime_ns!=t]==[broken]

def test_damaged_tokenizer(home, packed):
    "The same call writes the tokenizer of a packed text again; one that was written before a crash, for another call, is not taken."
    name = packed/'tokenizer'/'tokenizer.json'
    before = files(packed)
    name.write_bytes(name.read_bytes()[:1000])
    code = f"{small}\nfrom electra_nb import pack\npack(out='packed', {packing})"
    assert end(start(home, code, 1))[0]==0
    assert files(packed)==before
    shutil.copytree(packed/'tokenizer', home/'begun'/'tokenizer')
    rc,_,err = end(start(home, code.replace("'packed'", "'begun'").replace("'vocab.txt'", "'bpe'"), 1))
    assert rc==0, err
    assert (home/'begun'/'tokenizer'/'tokenizer.json').read_bytes()!=name.read_bytes()

def test_command(home, packed, capsys):
    "The command packs with two processes the bytes that the function packs with one, and another recipe is refused."
    argv = '--corpus texts --out by_command --size tiny --max_len 32 --tokenizer vocab.txt --at_once 2'.split()
    rc,_,err = run(home, 'from electra_nb.commands import pack; pack()', *argv)
    assert rc==0, err
    pack(home/'texts', home/'by_function', size='tiny', max_len=32, tokenizer=str(home/'vocab.txt'))
    assert files(home/'by_command/shards')==files(home/'by_function/shards')
    with pytest.raises(SystemExit): cli(['--corpus', 'texts', '--out', str(home/'x'), '--sise', 'tiny'])
    assert "unknown option 'sise'" in capsys.readouterr().err
    with pytest.raises(ValueError, match='packed with 32'): pretrain('tiny', corpus=str(packed), steps=20, device='cpu')
