"The wide head for texts: without the encoder it is the rival; its folder in another process; what is refused."
import json, pandas as pd, pytest, torch
import numpy as np

from electra_nb import export, finetune, predict
from electra_nb.glue.kinds import kind_of
from electra_nb.glue.twin import load_head
from electra_nb.lab.study.folder import read_predictions
from electra_nb.model.hf import save_models
from electra_nb.model.towers import get_models, sizes
from electra_nb.text.tokenizer import tiny_tokenizer
from fastai.learner import load_learner
from test_process import run

moods = dict(good='good fine kind glad', bad='bad sad poor dull', dry='dry dusty plain flat')
rows = pd.DataFrame([dict(text=f'a {w} {n} in {p}', mood=m) for m,ws in moods.items() for w in ws.split() for n in ('day','fish','boat') for p in ('Rome','May')])
test = pd.DataFrame([dict(text=f'the {w} old {n}', mood=m) for m,ws in moods.items() for w in ws.split() for n in ('cow','day')])
asked = ['a good fish','such a dusty boat','Ein Tag']

@pytest.fixture(scope='module')
def home(tmp_path_factory):
    home,tok = tmp_path_factory.mktemp('texts'),tiny_tokenizer()
    torch.manual_seed(42)
    save_models(*get_models(sizes['tiny'], len(tok)), home/'model', tok)
    return home

@pytest.fixture(scope='module')
def study(home):
    return finetune(home/'model', data=rows, test=test, name='moods', text_head='wide', valid=.2, runs=2, rivals=True, device='cpu', out=home/'one')

def test_passes(study):
    "Four are the default."
    n = study.lines[0]['n']['train']
    assert all(r['recipe']['text_head']=='wide' and r['steps']==4*-(-n//32) for r in study.lines)

@pytest.mark.slow
def test_two_processes(home, study):
    "Runs one after another and side by side are equal."
    both = finetune(home/'model', data=rows, test=test, name='moods', text_head='wide', valid=.2, runs=2, at_once=2, device='cpu', out=home/'two')
    scores = [sorted((r['seed'],r['score'],json.dumps(r['scores'])) for r in s.lines) for s in (study,both)]
    assert scores[0]==scores[1] and len(scores[0])==2

def test_without_the_encoder(home, study):
    "With no share of the encoder the answers are those of tf-idf, row by row; the share is in the folder."
    none = finetune(home/'model', data=rows, test=test, name='moods', text_head='wide', text_share=0., valid=.2, device='cpu', out=home/'none')
    assert load_head(none.models()[0], kind_of(study.data['moods'].task).models).head.share==0
    alone = predict(str(none.models()[0]), test.text.tolist()).label.tolist()
    _,rival = read_predictions(study.out/'predictions/moods-tf-idf-seed0-test.tsv')
    names = kind_of(study.data['moods'].task).names
    assert alone==[names[int(i)] for i in rival] and len({*alone})==3

def test_folder(home, study):
    "The card says how the folder is used, and another process uses it."
    folder = study.models()[0]
    card = (folder/'README.md').read_text()
    assert 'no class with this head' in card and 'import predict' in card
    here = predict(str(folder), asked)
    code = f"from electra_nb import predict; print(predict({str(folder)!r}, {asked!r}).to_json())"
    rc,out,err = run(home, code)
    assert rc==0, err
    assert out.splitlines()[-1]==here.to_json()
    learn = study.learner()
    assert torch.equal(learn.model.head.keys, load_head(folder, kind_of(study.data['moods'].task).models).head.keys)
    with pytest.raises(ValueError, match="text_head='plain'"): export(folder, 'onnx', home/'onnx')

def test_calibrated(study):
    "The temperature divides what the encoder and what tf-idf says."
    learn = study.learner()
    *batch,_ = learn.dls.valid.examples.batch(np.arange(3))
    model = learn.model.eval()
    with torch.no_grad():
        before = model(*batch)
        for p in model.head.parameters(): p.div_(3)
        assert torch.allclose(model(*batch), before/3, atol=1e-5)
    assert study.lines[0]['recipe']['calibrate'] and study.lines[0]['temperature']>=1

def test_fastai_export(study, home):
    "A learner goes into one file of fastai and answers the same."
    learn = study.learner()
    before = learn.predict(asked[0])
    learn.export(home/'learner.pkl')
    after = load_learner(home/'learner.pkl').predict(asked[0])
    assert before[0]==after[0] and torch.equal(before[2], after[2])

def test_refused(home):
    "Pairs, and settings that tf-idf does not have."
    pairs = rows.assign(other=rows.text[::-1].values)
    with pytest.raises(ValueError, match='no effect on pairs'): finetune(home/'model', data=pairs, text='text,other', text_head='wide', device='cpu', out=home/'pairs')
    for k,v in dict(class_weights='balanced', label_smoothing=.1).items():
        with pytest.raises(ValueError, match=f'{k} has no meaning'): finetune(home/'model', data=rows, text_head='wide', device='cpu', out=home/k, **{k:v})
    with pytest.raises(ValueError, match='text_head'): finetune(home/'model', data=rows, text_head='both', device='cpu', out=home/'both')

def test_advice(home, capfd):
    "Where tf-idf is better than the plain head, the summary names the other one."
    finetune(home/'model', data=rows, dev=test, name='moods', epochs=1, rivals=True, device='cpu', out=home/'plain')
    said = capfd.readouterr().out
    assert 'tf-idf is better by' in said and "; text_head='wide' begins with tf-idf" in said, said

def test_scores(home):
    "Texts with scores."
    numbers = pd.DataFrame(dict(text=rows.text, score=[float(m!='good')+.5*(m=='dry') for m in rows.mood]))
    study = finetune(home/'model', data=numbers, regression=True, text_head='wide', valid=.3, epochs=1, device='cpu', out=home/'scores')
    assert study.lines[0]['score']>80
    assert predict(str(study.models()[0]), asked).score.between(-1, 3).all()
