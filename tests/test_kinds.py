"The contract of kinds: every row of the table has every member, and nothing else asks for a kind by name."
import ast, inspect, subprocess, sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest, torch

import electra_nb
from electra_nb.glue.kinds import Kind, OwnRows, members
from electra_nb.glue.learner import finetune_config, own_settings, task_learner
from electra_nb.glue.tables import Layout
from electra_nb.glue.tasks import Task, TaskData
from electra_nb.glue.twin import load_head
from electra_nb.lab.kinds import kind_of, kinds, known_tasks
from electra_nb.model.towers import get_models, sizes
from electra_nb.text.tokenizer import tiny_tokenizer

package = Path(electra_nb.__file__).parent
example = dict(classify=Task(('text',), ('bad','good')), tag=Task(('1',), ('B-PER','O'), label='2', kind='tag', metrics=('entity_f1',), scheme='BIO'),
    answer=known_tasks()['squad'])
asked = dict(classify=['a fish'], tag='Anna sails', answer=('Who sails?','Anna sails.'))

@pytest.mark.parametrize('name', kinds)
def test_members(name):
    "Every kind has every member, each of the right type, and takes the arguments that the contract names."
    kind = kind_of(example[name])
    assert [m for m in members if not hasattr(kind, m)]==[]
    assert is_dataclass(kind.settings) and isinstance(kind.settings.narrow, dict) and isinstance(kind.layout, Layout)
    assert kind.tasks and all(isinstance(t, Task) and t.kind==name for t in kind.tasks.values())
    assert isinstance(kind.own, OwnRows) and kind.title and isinstance(kind.example, str) and isinstance(kind.forms, tuple)
    for m in members:
        wanted = vars(Kind).get(m)
        if wanted is None: continue
        given = [name for name,p in inspect.signature(wanted).parameters.items() if name!='self' and p.kind!=p.VAR_KEYWORD]
        inspect.signature(getattr(kind, m)).bind(*given) # it can be called with these

plain = dict(tag=dict(tag_head='linear')) # settings with which a narrow encoder has a twin in transformers

@pytest.mark.parametrize('name', kinds)
def test_from_text_to_answer(name, tmp_path):
    "A kind makes rows, features, a model, answers and a folder of what a user passes, with nothing but its members."
    kind,tok = kind_of(example[name]),tiny_tokenizer()
    encoder = get_models(sizes['tiny'], len(tok))[1].electra
    own = finetune_config(encoder.config, name, **plain.get(name, {})).own
    rows = kind.rows_of(asked[name])
    feats = kind.features(rows, tok, 128, own)
    model = kind.model(encoder, .1, own).eval()
    *batch,_ = feats.batch([0])
    with torch.no_grad(): act = kind.decode(feats, model(*batch))
    assert len(kind.answers(rows, act))>=1 and kind.one_answer(rows, act)
    model.save(tmp_path/'model', tok, kind.task)
    with torch.no_grad(): again = kind.decode(feats, load_head(tmp_path/'model', kind.models).eval()(*batch))
    assert kind.answers(rows, again).equals(kind.answers(rows, act))
    assert model.hf_model(kind.task).config.architectures is None and kind.use(tmp_path/'model', own)

@pytest.mark.parametrize('name', kinds)
def test_exported_learner(name, tmp_path):
    "fastai's `export` keeps a `Learner` without its rows, and a program that imports fastai alone has the same answer from it."
    tok,kind = tiny_tokenizer(),kind_of(example[name])
    item = dict(classify='a xyzzy', tag='Xyzzy sails', answer=('Who is xyzzy?','Xyzzy sails.'))[name]
    encoder = get_models(sizes['tiny'], len(tok))[1].electra
    cfg,rows = finetune_config(encoder.config, name, **plain.get(name, {})),kind.rows_of(item)
    feats = kind.features(rows, tok, 128, own_settings(kind, cfg))
    learn = task_learner(TaskData('asked', example[name], {}), dict(train=feats, dev=feats), encoder, cfg)
    learn.export(tmp_path/'kept.pkl')
    assert b'yzzy' not in (tmp_path/'kept.pkl').read_bytes() and learn.dls.train.examples is feats
    code = f"import torch; from fastai.learner import load_learner; answer = load_learner('kept.pkl').predict({item!r}); torch.save(answer, 'answer.pt')"
    p = subprocess.run([sys.executable, '-W', 'ignore', '-c', code], cwd=tmp_path, capture_output=True, text=True)
    assert p.returncode==0, p.stderr
    assert repr(torch.load(tmp_path/'answer.pt', weights_only=False))==repr(learn.predict(item))

def test_settings_are_apart():
    "No setting of a kind is one of all kinds; one that another kind has is refused with its owner."
    general = {f.name for f in fields(finetune_config(sizes_config()))}
    for name,kind in kinds.items():
        for f in fields(kind.settings):
            assert f.name not in general
            others = [k for k in kinds if f.name not in {g.name for g in fields(kinds[k].settings)}]
            for k in others:
                with pytest.raises(ValueError, match=f'{f.name} belongs to') as e: finetune_config(sizes_config(), k, **{f.name:f.default or 'balanced'})
                assert 'would have no effect on '+kinds[k].title in str(e.value)

def sizes_config(): return get_models(sizes['tiny'], 100)[1].config

def test_option_of_another_kind(tmp_path, monkeypatch):
    "`finetune(data=…, n_best=3)` on texts with labels is refused, before a folder is made; the settings of other kinds are in no study."
    from electra_nb import finetuning
    from electra_nb.model.hf import save_models
    monkeypatch.chdir(tmp_path)
    tok = tiny_tokenizer()
    save_models(*get_models(sizes['tiny'], len(tok)), 'mine', tok)
    rows = dict(text=[f'a {a} fish from {b}' for b in 'abcdefghij' for a in ('good','bad')], mood=['glad','sad']*10)
    with pytest.raises(ValueError, match='n_best belongs to questions about a context, and would have no effect on texts with labels'):
        finetuning.finetune('mine', data=rows, n_best=3, device='cpu')
    assert not Path('runs').exists()
    seen = []
    class Stop(Exception): pass
    def stop(out, identity, write): raise Stop(identity)
    monkeypatch.setattr(finetuning, 'open_study', stop)
    with pytest.raises(Stop) as e: finetuning.finetune('mine', data=rows, device='cpu')
    recipe = e.value.args[0]['recipe']
    assert 'pooling' in recipe and not {'n_best','word_types','head','doc_stride','own'} & {*recipe}

def test_nobody_asks_by_name():
    "Outside of their own rooms no code compares a kind with a name."
    bad = []
    for py in package.rglob('*.py'):
        for node in ast.walk(ast.parse(py.read_text())):
            if not isinstance(node, ast.Compare): continue
            words = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
            if {*words} & {*kinds} and 'kind' in ast.unparse(node): bad.append((py.name,ast.unparse(node)))
    assert bad==[]

def test_rare_label_counts_half():
    "With weights, a label with one row in a hundred has half of the gradients, however the rows fall into batches."
    from electra_nb.glue.head import TaskLoss, balanced_weights
    y = torch.tensor([0]*99+[1])
    loss = TaskLoss(example['classify'], balanced_weights(y.bincount()))
    shares = []
    for bs in (1,10,100):
        total = torch.zeros(2)
        for part in y.split(bs):
            out = torch.zeros(len(part), 2, requires_grad=True)
            (loss(out, part)*len(part)).backward()
            for label in (0,1): total[label] += out.grad[part==label].abs().sum()
        shares.append(float(total[1]/total.sum()))
    assert shares==pytest.approx([.5]*3)

def test_labels_in_one_line():
    "A tab or a line break in a label leaves the tables of predictions whole, also where quotes are ordinary characters."
    import io, numpy as np, pandas as pd
    from electra_nb.lab.own_data.data import own_data
    rows = dict(text=[f'a {a} fish from {b}' for b in 'abcdefghij' for a in ('good','bad')], mood=['very\tgood','bad\nor worse']*10)
    data = own_data(rows, valid=.5)
    assert data.task.labels==('bad or worse','very good')
    kind,dev = kind_of(data.task),data.splits['dev']
    table = kind.files(dev, np.full((len(dev),2), .5))['.tsv']
    for quoting in (0,3): assert len(pd.read_csv(io.StringIO(table), sep='\t', quoting=quoting))==len(dev)
