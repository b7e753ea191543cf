"The house: the lab imports the book and never the other way round, no circles, and little under `pretrain`."
import ast, os, subprocess, sys
from pathlib import Path

import electra_nb, pytest
from quick import rest
from test_process import text

package = Path(electra_nb.__file__).parent
root = package.parent

def name_of(py): return '.'.join(py.relative_to(package).with_suffix('').parts).removesuffix('.__init__')

modules = {name_of(py):py for py in package.rglob('*.py') if py.name!='_modidx.py'}

def absolute(node, module):
    "The modules that an import statement of a module names, and what it takes from them."
    if isinstance(node, ast.Import): return [a.name for a in node.names]
    base = node.module or ''
    if node.level:
        here = ['electra_nb',*module.split('.')][:-node.level]
        base = '.'.join([*here,*([node.module] if node.module else [])])
    return [base,*(f'{base}.{a.name}' for a in node.names)]

def imports(module, top=False):
    "Names that a module imports, at any place or at its top only."
    tree = ast.parse(modules[module].read_text())
    nodes = tree.body if top else ast.walk(tree)
    return {name for n in nodes if isinstance(n, (ast.Import,ast.ImportFrom)) for name in absolute(n, module)}

def imported(module): return {n.removeprefix('electra_nb.') for n in imports(module)} & set(modules)-{module,'__init__'}

graph = {m:imported(m) for m in modules}

def below(module):
    "All modules that a module stands on."
    seen,new = set(),[module]
    while new:
        for m in graph[new.pop()]-seen:
            seen.add(m)
            new.append(m)
    return seen

def is_lab(m): return m.split('.')[0]=='lab'
calls = {'commands','finetuning','predicting','scoring','__init__'} # what users call stands on both

def test_one_arrow():
    "The book imports nothing of the lab."
    assert {(m,n) for m,ns in graph.items() for n in ns if is_lab(n) and not is_lab(m) and m not in calls}==set()

def test_no_circles():
    assert [m for m in modules if m in below(m)]==[]

@pytest.mark.parametrize('module,most', [('pretraining',40),('objectives.rtd',15)])
def test_few_modules(module, most):
    assert len(below(module)-{'__init__'})<=most, sorted(below(module))

def test_light():
    "Importing `pretrain` and the learner of the book loads no module of the lab (tags, questions, studies) and not `datasets`; of the book under it only the lexical start asks for sklearn, and nothing for pandas (fastai loads both)."
    code = "import sys, electra_nb.pretraining, electra_nb.glue.loading, electra_nb.glue.learner; print(*(m for m in sys.modules if m.startswith('electra_nb.lab') or m=='datasets'))"
    done = subprocess.run([sys.executable,'-c',code], cwd=root, capture_output=True, text=True)
    assert (done.returncode,done.stdout.strip())==(0,''), done.stdout+done.stderr
    heavy = {(m,n) for m in below('pretraining')-{'model.lexical'} for n in imports(m, top=True) if n.split('.')[0] in ('sklearn','pandas','datasets') or n.startswith('scipy.stats')}
    assert heavy==set()

train = """import sys, torch
from {where} import pretrain
learn = pretrain(corpus={corpus!r}, steps=30, eval_every=10, cache='cache', out=sys.argv[1], device='cpu')
torch.save(learn.model.state_dict(), sys.argv[1]+'.pt')
"""

@pytest.mark.parametrize('corpus', rest([None,'texts.txt'], 'texts.txt'))
def test_same_weights(tmp_path, corpus):
    "The book's `pretrain` trains the weights of the whole package's, which has the lab's faster step."
    import torch
    docs = text.split('\n\n') # long ones, for with much padding the faster step adds in another order
    (tmp_path/'texts.txt').write_text('\n\n'.join('\n'.join(docs[i::4]) for i in range(4)))
    for where in ('electra_nb','electra_nb.pretraining'):
        code = train.format(where=where, corpus=corpus)
        env = {**os.environ, 'TQDM_DISABLE':'1', 'OMP_NUM_THREADS':'1', 'PYTHONPATH':os.pathsep.join([str(root), os.environ.get('PYTHONPATH', '')])}
        done = subprocess.run([sys.executable,'-c',code,where], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode==0, done.stderr[-3000:]
    lab,book = (torch.load(tmp_path/f'{where}.pt', weights_only=True) for where in ('electra_nb','electra_nb.pretraining'))
    assert lab.keys()==book.keys() and [k for k in lab if not torch.equal(lab[k], book[k])]==[]
    made = {where:{p.name for p in (tmp_path/where).iterdir()} for where in ('electra_nb','electra_nb.pretraining')}
    assert 'report.html' in made['electra_nb'] and 'report.html' not in made['electra_nb.pretraining']
