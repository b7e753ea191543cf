"finetune(…, unlabelled=…): a rival answers texts without labels, and each encoder learns that before the labelled rows."
import json, pandas as pd, pytest, torch
import numpy as np

from electra_nb import finetune
from electra_nb.lab.rivals import teacher
from electra_nb.model.hf import save_models
from electra_nb.model.towers import get_models, sizes
from electra_nb.text.tokenizer import tiny_tokenizer
from transformers import pipeline

moods = dict(good='good fine kind glad', bad='bad sad poor dull', dry='dry dusty plain flat')
rows = pd.DataFrame([dict(text=f'a {w} {n}', mood=m) for m,ws in moods.items() for w in ws.split()[:3] for n in ('day','fish','boat','cow')])
more = [f'a {w} {n} in {p}' for ws in moods.values() for w in ws.split() for n in ('day','fish','boat') for p in ('Rome','May')]
common = dict(data=rows, dev=rows[::2], name='moods', device='cpu')

@pytest.fixture(scope='module')
def home(tmp_path_factory):
    home,tok = tmp_path_factory.mktemp('teacher'),tiny_tokenizer()
    torch.manual_seed(42)
    save_models(*get_models(sizes['tiny'], len(tok)), home/'model', tok)
    (home/'more.txt').write_text('\n'.join([*more,'',rows.text[0],more[0]])+'\n')
    return home

@pytest.fixture(scope='module')
def study(home): return finetune(home/'model', **common, unlabelled=home/'more.txt', runs=2, baseline=True, rivals=True, out=home/'one')

def test_ledger(study):
    "The start names the teacher, for both starts; few rows get more passes."
    assert {r['start'] for r in study.lines}=={'pretrained, tf-idf first','random, tf-idf first'} and len(study.lines)==4
    assert all(r['recipe']['epochs']==16.7 for r in study.lines) # three passes of 200 rows
    assert set(study.compare().against)=={'random','majority','tf-idf'}
    assert not (study.out/'fewer_rows.jsonl').exists()

def test_what_is_learned(home, study, capsys):
    "A file and a list are the same texts; empty, repeated and labelled ones are left out; the surest half stays."
    data = study.data['moods']
    from_file,from_list,from_frame = (teacher.taught_task(data, o, 'none') for o in (home/'more.txt',more,pd.DataFrame(dict(text=more))))
    assert len({t.fingerprint() for t in (from_file,from_list,from_frame)})==1
    first = from_file.splits['train']
    assert 'of 75 texts without labels 3 are left out' in capsys.readouterr().out.replace('\n', ' ')
    assert {*first.text_a}<={*more} and len(more)/2<=len(first)<len(more) and not {*first.text_a}&{*rows.text}
    right = {f'a {w} {n} in {p}':m for m,ws in moods.items() for w in ws.split() for n in ('day','fish','boat') for p in ('Rome','May')}
    said = [data.task.labels[i]==right[t] for t,i in zip(first.text_a, first.labels)]
    assert np.mean(said)>.9

def test_it_changes_the_encoder(home, study):
    "Without the texts the same seeds end in other scores or losses."
    plain = finetune(home/'model', **common, epochs=16.7, runs=2, out=home/'plain')
    losses = [{r['seed']:r['loss'] for r in s.lines if r['start'].startswith('pretrained')} for s in (plain,study)]
    assert all(losses[0][s]!=losses[1][s] for s in (0,1))

@pytest.mark.slow
def test_two_processes(home, study):
    "Runs one after another and side by side are equal, and the same call adds nothing."
    def known(s): return sorted((r['start'],r['seed'],r['score'],r['loss']) for r in s.lines)
    both = finetune(home/'model', **common, unlabelled=more, runs=2, baseline=True, at_once=2, out=home/'two')
    assert known(both)==known(study)
    again = finetune(home/'model', **common, unlabelled=more, runs=2, baseline=True, out=home/'two')
    assert known(again)==known(both)

def test_folder(study):
    "The folder is an ordinary one."
    folder = study.models()[0]
    assert 'from pretrained weights (tf-idf first)' in (card := (folder/'README.md').read_text()) and 'taught by tf-idf' in card
    assert 'tf-idf first' in json.loads((folder/'task.json').read_text())['start']
    asked = ['a good boat','a dusty cow']
    table = study.predict(asked)
    assert [o['label'] for o in pipeline('text-classification', str(folder))(asked)]==table.label.tolist()

def test_wide(home):
    "The wide head counts the labelled rows alone, after a plain head has learned the answers."
    found = finetune(home/'model', **common, unlabelled=more, text_head='wide', out=home/'wide')
    recipe = found.lines[0]['recipe']
    assert (recipe['text_head'],recipe['text_share'],recipe['epochs'])==('wide',.3,11.1)
    own = finetune(home/'model', **common, unlabelled=more, text_head='wide', text_share=1., epochs=1., out=home/'own')
    assert (own.lines[0]['recipe']['text_share'],own.lines[0]['recipe']['epochs'])==(1.,1.)

def test_tags(home):
    "A CRF teaches tags."
    words = pd.DataFrame([dict(words=[n,v,'fish'], tags=['B-PER','O','O']) for n in 'Anna Bob Clara Dora Emil'.split() for v in 'sees eats buys likes sells'.split()])
    texts = [f'{n} {v} fish' for n in 'Fred Greta Hans Ida Jim'.split() for v in 'sees eats buys likes sells'.split()]
    found = finetune(home/'model', data=words, dev=words[::5], name='names', unlabelled=texts, device='cpu', out=home/'tags')
    assert found.lines[0]['start']=='pretrained, CRF first' and found.lines[0]['score']>50

def test_refused(home, study):
    "What has no teacher, no text, or another study."
    def tune(**options): return finetune(home/'model', **{**common, **options})
    with pytest.raises(ValueError, match='there is no text'): tune(unlabelled=['',' '], out=home/'no')
    with pytest.raises(ValueError, match='20 are the least'): tune(unlabelled=[*rows.text], out=home/'no')
    with pytest.raises(FileNotFoundError, match='nowhere.txt'): tune(unlabelled=home/'nowhere.txt', out=home/'no')
    scores = rows.assign(mood=np.linspace(0., 1., len(rows)))
    with pytest.raises(ValueError, match='labels and tags'): tune(data=scores, dev=scores[::2], regression=True, unlabelled=more, out=home/'no')
    one = pd.concat([rows[rows.mood=='dry'],rows[rows.mood!='dry'].iloc[::12]])
    with pytest.raises(ValueError, match='nothing to teach'): tune(data=one, unlabelled=more, out=home/'no')
    assert not (home/'no').exists()
    with pytest.raises(ValueError, match='unlabelled: there'): tune(epochs=16.7, baseline=True, out=study.out)
    with pytest.raises(ValueError, match='unlabelled: there None'): tune(unlabelled=more, out=home/'plain')
