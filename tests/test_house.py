"The package's folders and modules: who may import whom, and what is called by which name."
import ast, json, subprocess, sys
from collections import defaultdict
from pathlib import Path

import electra_nb

package = Path(electra_nb.__file__).parent
book = 'glue pretraining recipe training objectives model text commands core'.split() # from top to ground; a command is made of a function of any room
rooms = ['predicting','finetuning','scoring','lab',*book] # what users call stands on the lab, and the lab on the book
same = {'encode','mlm_head','rtd_head','attention','layer_forward'} # `lab.speed.forward` and the families offer what `model.forward` offers
twice = same | set('machine need_text read_rows candidates plain_text closing_words read_json'.split()) # to become fewer, never more
modules_twice = set('kinds forward towers head tasks rows folder spans finetuning'.split()) # in different rooms; likewise

def imported(py):
    "The modules of this package that a file imports, as tuples of names from the package's folder."
    folders = py.relative_to(package).parts[:-1]
    for node in ast.walk(ast.parse(py.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            here = folders[:len(folders)-node.level+1]
            yield from ([(*here,*node.module.split('.'))] if node.module else [(*here,a.name) for a in node.names])
        elif isinstance(node, (ast.Import,ast.ImportFrom)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
            yield from (tuple(n.split('.')[1:]) for n in names if n.startswith('electra_nb.'))

def modules():
    "Files of the package, but those that only name modules."
    return [py for py in sorted(package.rglob('*.py')) if py.stem not in ('__init__','_modidx')]

def room(py): return py.relative_to(package).with_suffix('').parts[0]

def test_imports_go_down():
    "A room imports only from rooms below it, so there is no circle, none from the book to the lab, and none is missing in the list."
    found,upward = set(),[]
    for py in modules():
        found.add(room(py))
        for other,*_ in imported(py):
            if other not in (room(py),'__version__','_load') and rooms.index(other)<=rooms.index(room(py)): upward.append((str(py.relative_to(package)),other))
    assert (sorted(found), upward)==(sorted(rooms), [])

def test_names_once():
    "A public name of a module's top level is that of one thing, and so is the name of a module, but for those that are listed above."
    names,files = defaultdict(set),defaultdict(set)
    for py in modules():
        files[py.stem].add(py)
        defined = [o for o in ast.parse(py.read_text()).body if isinstance(o, (ast.FunctionDef,ast.ClassDef)) and o.name[0]!='_']
        for o in defined:
            if not any('patch' in ast.unparse(d) for d in o.decorator_list): names[o.name].add(py)
    assert {n for n,where in names.items() if len(where)>1}<=twice
    assert {n for n,where in files.items() if len(where)>1}<=modules_twice

def test_pages_are_numbered():
    "The numbers of pages are those of their imports: `docs/number.py` would change none, and a module's room is the folder of its page."
    done = subprocess.run([sys.executable, package.parent/'docs'/'number.py', '--check'], capture_output=True, text=True)
    assert done.returncode==0, done.stdout+done.stderr
    sys.path.insert(0, str(package.parent/'docs'))
    from number import module_of, nbs
    places = {p.relative_to(nbs).parent.as_posix():set() for p in nbs.rglob('[0-9]*_*.ipynb')}
    for p in nbs.rglob('[0-9]*_*.ipynb'): places[p.relative_to(nbs).parent.as_posix()].add(((module_of(p) or '').rpartition('.')[0]).replace('.', '/'))
    assert places.pop('book')<={*book,''} and places.pop('calls')<={'commands',''}
    assert all(rooms<={folder,''} for folder,rooms in places.items()), places

def strings(code): return [n.value for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Constant) and isinstance(n.value, str)]

def test_said_once_is_forgotten_first():
    "Pages that share a process share what `say_once` remembers, so a cell that looks for such a sentence makes it forget before."
    said = []
    for py in modules():
        for n in ast.walk(ast.parse(py.read_text())):
            if isinstance(n, ast.Call) and getattr(n.func, 'id', '')=='say_once': said += strings(ast.unparse(n))
    assert len(said)>=5
    cells = [''.join(c['source']) for p in (package.parent/'nbs').rglob('*.ipynb') for c in json.loads(p.read_text())['cells'] if c['cell_type']=='code']
    looking = [c for c in cells if '.getvalue()' in c and any(len(s)>9 and s in sentence for s in strings(c) for sentence in said)]
    assert len(looking)>=4
    assert [c for c in looking if 'say_once.cache_clear()' not in c]==[]

def test_nothing_is_hidden():
    "No test has the name of another in its file, and no key stands twice in a table: the first of them would never run."
    hidden = []
    for p in Path(__file__).parent.glob('*.py'):
        tree = ast.parse(p.read_text())
        groups = [[n.name for n in tree.body if isinstance(n, (ast.FunctionDef,ast.ClassDef))]]
        groups += [[k.value for k in n.keys if isinstance(k, ast.Constant)] for n in ast.walk(tree) if isinstance(n, ast.Dict)]
        hidden += [(p.name,name) for names in groups for name in {*names} if names.count(name)>1]
    assert hidden==[]
