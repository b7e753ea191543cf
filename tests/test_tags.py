"The wide tagger: its folder, its card, its settings, and that it learns what the linear head cannot."
import json, numpy as np, pytest, shutil, torch

from electra_nb import finetune, predict, pretrain, Study
from electra_nb.glue.kinds import kind_of
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, flat_settings, task_features, task_learner
from electra_nb.glue.tables import from_memory
from electra_nb.glue.twin import load_head
from electra_nb.lab.kinds import own_tag_task
from electra_nb.lab.study.folder import model_page
from electra_nb.model.hf import save_models
from electra_nb.model.towers import get_models, sizes
from electra_nb.text.tokenizer import tiny_tokenizer
from fastai.learner import load_learner
from quick import rest
from transformers import AutoModel, AutoModelForTokenClassification, ElectraConfig, ElectraModel

def cased(n):
    "Names are written with capitals, and nothing else tells them; a name of two words goes on with `I`."
    said = [w.split() for w in ('fish Fish boats','Fish Boats fish','boats fish Boats','Boats Fish Boats')]
    def tags(ws): return [('O' if w.islower() else 'I-X' if i and ws[i-1][0].isupper() else 'B-X') for i,w in enumerate(ws)]
    return dict(words=said*n, tags=[tags(ws) for ws in said]*n)

def learned(head, n_epochs=8):
    torch.manual_seed(0)
    tok,data = tiny_tokenizer(),own_tag_task(from_memory(cased(8), 'names'), from_memory(cased(1), 'dev'))
    encoder = get_models(sizes['tiny'], len(tok))[1].electra
    cfg = finetune_config(encoder.config, 'tag', bs=8, lr=2e-3, epochs=n_epochs, **({} if head is None else dict(tag_head=head)))
    learn = task_learner(data, task_features(data, tok, cfg), encoder, cfg, seed=0)
    fit_task(learn, cfg)
    return data,learn,cfg,tok

def test_capitals():
    "Lower-case pieces do not tell names from other words; what the wide head sees of a word does."
    scores = {}
    for head in ('linear','wide'):
        data,learn,*_ = learned(head)
        scores[head] = kind_of(data.task).score(data.splits['dev'], dev_predictions(learn)[1])['conlleval_f1']
    assert scores['wide']==100>scores['linear']

def test_folder_and_card(tmp_path):
    "The narrow default is the wide head. Its folder gives the same answers here, is refused by the Auto classes, and its card says so."
    data,learn,cfg,tok = learned(None, 1)
    kind,model = kind_of(data.task),learn.model.eval()
    assert (cfg.own.tag_head, finetune_config(ElectraConfig(), 'tag').own.tag_head)==('wide','linear')
    model.save(tmp_path/'names', tok, kind.task)
    *batch,_ = learn.dls.valid.examples.batch([0,1])
    with torch.no_grad(): assert torch.equal(load_head(tmp_path/'names', kind.models).eval()(*batch), model(*batch))
    for cls in (AutoModel,AutoModelForTokenClassification):
        with pytest.raises(ValueError, match='electra_tags'): cls.from_pretrained(tmp_path/'names')
    opened = ElectraModel.from_pretrained(tmp_path/'names').state_dict()
    assert all(torch.equal(v, opened[k]) for k,v in model.electra.state_dict().items())
    with pytest.raises(ValueError, match="tag_head='linear'"): model.hf_model(kind.task)
    line = dict(task='names', start='pretrained', seed=0, score=1., recipe=flat_settings(cfg))
    assert 'no class with this head' in model_page(line, data.task, tmp_path/'names')
    assert 'no class with this head' not in model_page(dict(line, recipe=dict(line['recipe'], tag_head='linear')), data.task, tmp_path/'names')

def test_class_weights_are_refused():
    "The loss of whole sentences has no weights of words."
    tok,data = tiny_tokenizer(),own_tag_task(from_memory(cased(8), 'names'), from_memory(cased(1), 'dev'))
    encoder = get_models(sizes['tiny'], len(tok))[1].electra
    cfg = finetune_config(encoder.config, 'tag', class_weights='balanced')
    with pytest.raises(ValueError, match="pass tag_head='linear'"): task_learner(data, task_features(data, tok, cfg), encoder, cfg)

said = [f'{a} {b}.' for a in ('Fish swim','Boats leave','Rome sleeps','Kim sees boats','Old boats rot') for b in ('today','at noon','in spring','by night')]

@pytest.mark.parametrize('at_once', rest([1,2], 1))
def test_run_with_text(tmp_path, monkeypatch, capfd, at_once):
    "A tagger of a run knows clusters of its text, in one process or two; its folder needs neither the run nor its text, and the learner goes on with it."
    monkeypatch.chdir(tmp_path)
    (tmp_path/'text.txt').write_text('\n'.join(said*20))
    pretrain(corpus='text.txt', steps=2, out='run', cache='cache', device='cpu', vocab_size=200)
    monkeypatch.setenv('ELECTRA_NB_CACHE', str(tmp_path/'cache'))
    call = dict(data=from_memory(cased(8), 'names').columns, test=from_memory(cased(1), 'test').columns, name='names', valid=.3, epochs=2, device='cpu')
    study = finetune('run', runs=2, out='one', rivals=True, **call)
    assert capfd.readouterr().out.count('the neighbours of words are counted')==1 # for the rival and both runs
    assert 'CRF with clusters' in [r['rival'] for r in study.rivals]
    again = finetune('run', runs=2, out='two', at_once=at_once, **call)
    for a,b in zip(study.lines, sorted(again.lines, key=lambda r: r['seed'])): assert (a['seed'], a['scores'])==(b['seed'], b['scores'])
    sentences = [['Fish','see','Boats'],['boats']]
    before = study.predict(sentences)
    learn = study.learner()
    learn.export(tmp_path/'learner.pkl')
    assert load_learner(tmp_path/'learner.pkl').predict('Fish see Boats')[0]==learn.predict('Fish see Boats')[0]
    assert torch.equal(learn.model.head.keys, load_head(study.models()[0], kind_of(study.data['names'].task).models).head.keys)
    shutil.rmtree('run')
    shutil.rmtree('cache')
    after = predict(str(study.models()[0]), sentences)
    assert [t for ts in after.tag for t in ts]==[*before.tag] and np.allclose(np.concatenate([*after.probability]), before.probability)

def test_sentences_are_cut_as_in_training(tmp_path, capfd):
    "A sentence passed as a string has the words of the same sentence as a list, where training words have punctuation in them; folders of earlier versions are read as before."
    options = ('--verbose','--quiet','-n','/etc/passwd','/var/log','*.txt')
    words = [['Use',o,'to','print',p,'.'] for o in options for p in options]
    rows = dict(words=words, tags=[['VERB','NOUN','PART','VERB','NOUN','PUNCT']]*len(words))
    tok = tiny_tokenizer()
    torch.manual_seed(42)
    save_models(*get_models(sizes['tiny'], len(tok)), tmp_path/'run', tok)
    study = finetune(tmp_path/'run', data=rows, name='manual', runs=1, epochs=1, rivals=False, device='cpu', out=str(tmp_path/'study'))
    assert "cut at blanks alone: at punctuation as well, 33% of the training words would be torn, such as '--" in capfd.readouterr().out
    text = 'Use --verbose to print /etc/passwd .'
    for asked in (Study(tmp_path/'study'),study): assert asked.predict([text]).equals(asked.predict([text.split()]))
    path = study.models()[0]/'task.json'
    about = json.loads(path.read_text())
    assert about['task'].pop('blanks') is True
    path.write_text(json.dumps(about))
    (path.parent/'manifest.json').unlink()
    assert [*study.predict([text]).word[:3]]==['Use','-','-']
