"The package's folders and top modules: who may import whom."
import ast
from pathlib import Path

import electra_nb

package = Path(electra_nb.__file__).parent
rooms = '''pretraining run scoring finetuning opening bench zero_shot reports study planning estimates tasks plans recipe
training objectives text model commands core'''.split() # from top to ground

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

def test_imports_go_down():
    "A room imports only from rooms below it, so there is no circle, and none is missing in the list."
    found,upward = set(),[]
    for py in package.rglob('*.py'):
        room = py.relative_to(package).with_suffix('').parts[0]
        if room in ('__init__','_modidx'): continue # they name modules, and import none
        found.add(room)
        for other,*_ in imported(py):
            if other not in (room,'__version__') and rooms.index(other)<=rooms.index(room): upward.append((py.name,other))
    assert (sorted(found), upward)==(sorted(rooms), [])
