"Scoring as a user meets it: whole processes, pipes, and the pairs of BLiMP and Zorro where their files lie beside the project."
import json, os
from pathlib import Path

import pandas as pd, pytest
from datasets import Dataset, DatasetDict
from electra_nb import score
from electra_nb.core.files import atomic_file
from electra_nb.lab.scoring.texts import read_texts
from electra_nb.scoring import write_lines
from forked import Program

root = Path(__file__).parent.parent
grammar = root.parent/'shared'/'data'/'grammar'

@pytest.fixture(scope='module')
def home(tmp_path_factory):
    "A folder with an untrained run."
    import torch
    from electra_nb.model.hf import save_models
    from electra_nb.model.towers import get_models, sizes
    from electra_nb.text.tokenizer import tiny_tokenizer
    path = tmp_path_factory.mktemp('scoring')
    torch.manual_seed(42)
    tok = tiny_tokenizer()
    save_models(*get_models(sizes['tiny'], len(tok)), path/'runs'/'mine', tok)
    (path/'runs'/'mine'/'recipe.json').write_text('{"size": "tiny", "recipe": {}}')
    return path

def electra_score(
    home:Path, # working folder
    *argv, # arguments
    stdin:bytes=b'', # what a pipe brings
) -> tuple: # exit code, both outputs
    "The command in a process of its own."
    (home/'stdin').write_bytes(stdin)
    p = Program('from electra_nb.scoring import cli; cli()', home, dict(os.environ), [*argv,'--device','cpu'], home/'stdin')
    return p.wait(),*p.communicate()

def test_interrupted(home, capsys):
    "After Ctrl-C it is said where the results are that were there."
    def rows():
        yield from score(home/'runs'/'mine', ['it is good'], device='cpu')
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt): write_lines(rows(), home/'halted.jsonl')
    assert 'halted.jsonl.part' in capsys.readouterr().out
    assert json.loads((home/'halted.jsonl.part').read_text())['text']=='it is good' and not (home/'halted.jsonl').exists()

def test_pipe_keeps_order(home):
    "Lines of JSON on the standard output, nothing else, in the order of the lines that came, empty ones too."
    texts = [f'The {i} boats come back with fish. '*(i%7) for i in range(40)]
    rc,out,err = electra_score(home, '--out', '-', stdin='\n'.join(texts).encode()+b'\n')
    assert rc==0, err
    assert [json.loads(l)['text'] for l in out.splitlines()]==texts

def test_plain_text_when_piped(home):
    "No escape code reaches a file, neither of ours nor of the text."
    rc,out,_ = electra_score(home, 'runs/mine', stdin='The boats \x1b[31mcome back.\n'.encode())
    assert rc==0 and '\x1b' not in out and 'boats' in out

def test_wrong_input_is_one_line(home):
    "What a user can mend has exit code 2 and one line."
    for argv,stdin,says in ((('runs/none',),b'a\n','no model'),(('runs/mine','--by','mlm'),b'a\n',"'generator'"),(('runs/mine',),b'\xff\n','line 1')):
        rc,_,err = electra_score(home, *argv, stdin=stdin)
        assert rc==2 and says in err and 'Traceback' not in err, argv

def test_device_stays_one(home, tmp_path):
    "What is no ordinary file is refused: it would be replaced by one."
    os.mkfifo(tmp_path/'pipe')
    for write in (lambda out: score(str(home/'runs'/'mine'), ['a'], out=out, device='cpu'),lambda out: atomic_file(out, 'a')):
        with pytest.raises(ValueError, match='no ordinary file'): write(tmp_path/'pipe')
        assert (tmp_path/'pipe').is_fifo() and len(list(tmp_path.iterdir()))==1

@pytest.mark.parametrize('name', ['reviews.json','runs/a/b.json','x.conll','notes.docx','my reviews.csv','texts.tar.gz'])
def test_missing_file_is_no_text(name):
    with pytest.raises(FileNotFoundError, match='no file'): list(read_texts(name))

def test_texts_from_memory(tmp_path):
    "Rows in memory are read as a file is; what has no order, or no texts, is refused in a short sentence."
    import pyarrow as pa
    (tmp_path/'a.csv').write_text('text,n\na,1\n,2\n')
    frame = pd.read_csv(tmp_path/'a.csv')
    for source in (tmp_path/'a.csv',frame,Dataset.from_dict(dict(text=['a',None])),frame.to_dict('list'),frame.to_dict('records')): assert list(read_texts(source))==['a','']
    split = DatasetDict(train=Dataset.from_dict(dict(text=['a']*99)))
    for source,says in ((split,'choose a split'),(pa.table(dict(text=['a']*99)),'is a Table'),({'text':1},'is a dict'),({'a','b'},'pass a list'),(open(tmp_path/'a.csv'),'pass its path')):
        with pytest.raises(ValueError, match=says) as e: list(read_texts(source))
        assert len(str(e.value))<200

@pytest.mark.parametrize('name', ['blimp','zorro'])
def test_untrained_model_guesses(home, name):
    "On 20 pairs of each phenomenon two models that were never trained are near one half."
    if not grammar.is_dir(): pytest.skip('no ../shared/data/grammar')
    from electra_nb.lab.scoring.pairs import evaluate_pairs, read_pairs
    kept,seen = [],{}
    for p in read_pairs(grammar/f'{name}.jsonl.xz'):
        seen[p.phenomenon] = seen.get(p.phenomenon, 0)+1
        if seen[p.phenomenon]<=20: kept.append(p)
    table = evaluate_pairs(home/'runs'/'mine', kept, device='cpu').set_index('phenomenon')
    assert len(table)==len(seen)+1 and (table.pairs.iloc[:-1]==20).all()
    assert 35<table.accuracy['mean of phenomena']<65 and 35<table.untrained['mean of phenomena']<65
