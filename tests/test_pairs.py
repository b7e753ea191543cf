"Texts apart: what the head learns, its folder in another process, its settings, and that the paper's way is left as it is."
import json, pandas as pd, pytest, torch
from pathlib import Path

from electra_nb import finetune, predict
from electra_nb.glue.encoders import load_encoder
from electra_nb.glue.head import Classifier
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, task_features, task_learner
from electra_nb.glue.loading import load_files
from electra_nb.glue.tasks import Task, TaskData, TextSplit, tasks
from electra_nb.lab.kinds import kind_of
from electra_nb.lab.pairs.apart import PairModel
from electra_nb.model.hf import save_models
from electra_nb.model.towers import get_models, sizes
from electra_nb.text.tokenizer import tiny_tokenizer
from quick import rest
from test_process import run
from transformers import ElectraConfig, ElectraModel
import numpy as np

glue = Path(__file__).parents[2]/'shared'/'data'/'glue'

def sentences(letters): return [f'the {a} {b} {c}' for a in letters for b in letters for c in letters]

def same_or_not(letters):
    "Half of the pairs have all words in common, in other orders; the labels of the others are 0."
    texts = sentences(letters)
    other = [' '.join(reversed(t.split())) for t in texts]
    return TextSplit(texts*2, other+[*reversed(sentences(letters.upper()[::-1]))][::-1], np.array([1]*len(texts)+[0]*len(texts)))

def trained(head, symmetric=True, epochs=4):
    "A model that has seen other words than it is asked about."
    torch.manual_seed(0)
    tok,task = tiny_tokenizer(),Task(('a','b'), ('no','yes'), symmetric=symmetric)
    data = TaskData('same', task, dict(train=same_or_not('abcd'), dev=same_or_not('uvxyz')))
    data.splits['train'].text_b[64:] = [t.lower().translate(str.maketrans('abcd', 'efgh')) for t in data.splits['train'].text_b[64:]]
    data.splits['dev'].text_b[125:] = [t.lower().translate(str.maketrans('uvxyz', 'klmno')) for t in data.splits['dev'].text_b[125:]]
    encoder = get_models(sizes['tiny'], len(tok))[1].electra
    cfg = finetune_config(encoder.config, lr=2e-3, epochs=epochs, **({} if head is None else dict(pair_head=head)))
    learn = task_learner(data, task_features(data, tok, cfg), encoder, cfg, seed=0)
    return data,learn,cfg,fit_task(learn, cfg)

def test_new_words():
    "Whether two texts have the same words is learned for words that no training row has; both texts in one row do not teach it."
    scores = {}
    for head in (None,'together'):
        data,learn,cfg,_ = trained(head)
        scores[head] = kind_of(data.task).score(data.splits['dev'], dev_predictions(learn)[1])['accuracy']
    assert scores[None]>=99>scores['together'], scores

def test_order():
    "Where the order of the texts has no meaning both orders have one answer, from half the rows; else they need not."
    for symmetric in (True,False):
        data,learn,cfg,_ = trained('apart', symmetric, 1)
        rows,n = data.splits['dev'],len(data.splits['train'])
        kind = kind_of(data.task)
        swapped = TextSplit(rows.text_b, rows.text_a, rows.labels)
        a,b = (dev_predictions(learn, kind.features(o, tiny_tokenizer(), 128, cfg.own))[0] for o in (rows,swapped))
        assert len(learn.dls.train.examples)==n and learn.model.head.symmetric==symmetric
        assert np.allclose(a, b, atol=1e-5)==symmetric

def test_calibrated():
    "The temperature divides the outputs, though they come from two layers."
    data,learn,cfg,fitted = trained(None)
    *batch,_ = learn.dls.valid.examples.batch([0,1])
    model = learn.model.eval()
    with torch.no_grad():
        before = model(*batch)
        for p in model.head.parameters(): p.div_(3)
        assert torch.allclose(model(*batch), before/3, atol=1e-4)
    assert cfg.own.calibrate and fitted['temperature']>=1

def test_defaults():
    "Narrow encoders read pairs apart, those of the paper together; single texts are left as they are, and are refused by name."
    narrow,wide = ElectraConfig(hidden_size=64, num_hidden_layers=2),ElectraConfig()
    assert (finetune_config(narrow).own.pair_head, finetune_config(wide).own.pair_head)==('auto','together')
    with pytest.raises(ValueError, match='pair_head'): finetune_config(wide, pair_head='both')
    encoder = get_models(sizes['tiny'], 100)[1].electra
    for name in ('stsb','mnli','rte'): assert isinstance(kind_of(tasks[name]).model(encoder, .1, finetune_config(narrow).own), PairModel)
    assert isinstance(kind_of(tasks['sst2']).model(encoder, .1, finetune_config(narrow).own), Classifier)
    assert isinstance(kind_of(tasks['stsb']).model(encoder, .1, finetune_config(wide).own), Classifier)

@pytest.fixture(scope='module')
def home(tmp_path_factory):
    "A model, and a study of pairs by two processes."
    home,tok = tmp_path_factory.mktemp('pairs'),tiny_tokenizer()
    torch.manual_seed(42)
    save_models(*get_models(sizes['tiny'], len(tok)), home/'model', tok)
    return home

rows = pd.DataFrame(dict(sentence1=[f'a {a} fish' for a in 'vwxyz' for _ in 'vwxyz'], sentence2=[f'one fish {b}' for _ in 'vwxyz' for b in 'vwxyz'],
    score=[5. if a==b else 1.5 for a in 'vwxyz' for b in 'vwxyz']))
asked = [('a v fish','one fish v'),('what','one fish v')]

def test_refused(home):
    "`pair_head='apart'` on single texts is refused, and leaves neither a model nor a study that refuses the call without it."
    kw = dict(data=rows[['sentence1','score']], dev=rows, text='sentence1', regression=True, device='cpu', epochs=1, rivals=True, out=home/'single')
    with pytest.raises(ValueError, match='single texts'): finetune(home/'model', pair_head='apart', **kw)
    assert not [*home.glob('single/models/*')] and [*home.glob('single/rivals.jsonl')]
    assert len(finetune(home/'model', **kw).lines)==1

@pytest.mark.parametrize('at_once', rest([1,2], 1))
def test_study(home, at_once):
    "A study that goes on is the one that did not stop, nor had its runs side by side; a rival stands beside them; the folder says how it is used, and another process uses it."
    kw = dict(data=rows, dev=rows, regression=True, epochs=2, device='cpu')
    model,home = home/'model',home/str(at_once)
    one = finetune(model, out=home/'one', runs=1, rivals=True, **kw)
    one = finetune(model, out=home/'one', runs=2, **kw) # it goes on
    whole = finetune(model, out=home/'two', runs=2, at_once=at_once, **kw)
    scores = [[(r['seed'],r['score']) for r in s.lines] for s in (one,whole)]
    assert scores[0]==scores[1] and len(scores[0])==2
    assert all(r['recipe']['pair_head']=='auto' for r in one.lines)
    assert {json.loads(l)['rival'] for l in (home/'one'/'rivals.jsonl').read_text().splitlines()}=={'majority','tf-idf'}
    folder = one.models()[0]
    card = (folder/'README.md').read_text()
    assert 'no class with this head' in card and 'import predict' in card
    here = predict(str(folder), asked)['score'].tolist()
    code = f"from electra_nb import predict; print(predict({str(folder)!r}, {asked!r})['score'].tolist())" # as the card says
    rc,out,err = run(home, code)
    assert rc==0, err
    assert json.loads(out.splitlines()[-1])==here
    opened,own = ElectraModel.from_pretrained(folder).state_dict(),load_encoder(folder).state_dict()
    assert own and all(torch.equal(v, opened[k]) for k,v in own.items())

@pytest.mark.skipif(not glue.is_dir(), reason='no ../shared/data/glue')
def test_similarity():
    "STS-B: from random values and half a pass it is above counted word vectors (69.8) by three points."
    torch.manual_seed(0)
    data,tok = load_files('stsb', str(glue)),tiny_tokenizer()
    encoder = get_models(sizes['tiny'], len(tok))[1].electra
    cfg = finetune_config(encoder.config, epochs=.5)
    learn = task_learner(data, task_features(data, tok, cfg), encoder, cfg, seed=0)
    fit_task(learn, cfg)
    scores = kind_of(data.task).score(data.splits['dev'], dev_predictions(learn)[1])
    assert min(scores.values())>72.8, scores
