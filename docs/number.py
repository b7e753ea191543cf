"""Number pages by their imports: no page of a folder imports a later one. `python docs/number.py` renames pages and mends links; with `--check` it only looks."""
import ast, json, re, subprocess, sys
from pathlib import Path

root = Path(__file__).parent.parent
nbs = root/'nbs'
rooms = 'core text model objectives training recipe pretraining glue'.split() # of the book, in the order in which data flows

def source_cells(path): return [''.join(c['source']) for c in json.loads(path.read_text())['cells'] if c['cell_type']=='code']

def module_of(path): # of a page; None: it exports nothing
    found = (re.search(r'^#\|\s*default_exp (\S+)', s, re.MULTILINE) for s in source_cells(path))
    return next((m[1] for m in found if m), None)

def imported(path): # modules of the project that the exported code of a page imports
    exported = (s for s in source_cells(path) if re.search(r'^#\|\s*exports?\b', s, re.MULTILINE))
    nodes = [n for s in exported for n in ast.walk(ast.parse(s)) if isinstance(n, ast.ImportFrom) and (n.module or '').startswith('electra_nb')]
    return {'.'.join([*n.module.split('.')[1:],*more]) for n in nodes for more in ([],*([a.name] for a in n.names))}

def ordered(
    pages:list, # of one folder
) -> list: # each after those that it imports
    "Pages by room, and within a room by their imports; where these leave a choice, by today's number and name."
    modules,done,out = {module_of(p):p for p in pages},set(),[]
    def place(p):
        if p in done: return
        done.add(p)
        for m in sorted(imported(p) & modules.keys()): place(modules[m])
        out.append(p)
    def key(p): return rooms.index((module_of(p) or '').split('.')[0]) if p.parent.name=='book' else 0, p.name
    for p in sorted(pages, key=key): place(p)
    return out

def renames() -> dict: # page -> the name that it should have
    "Pages whose number is not that of their place."
    folders = {p.parent for p in nbs.rglob('[0-9]*_*.ipynb')}
    found = {}
    for folder in folders:
        for i,p in enumerate(ordered(list(folder.glob('[0-9]*_*.ipynb'))), 1): found[p] = p.with_name(f"{i:02}_{p.name.partition('_')[2]}")
    return {p:new for p,new in found.items() if p!=new}

def rename(found:dict) -> None:
    "Rename pages, and follow in all links."
    for p,new in found.items(): p.rename(new.with_suffix('.moved')) # two pages may change places
    for new in found.values(): new.with_suffix('.moved').rename(new)
    names = {p.relative_to(nbs).as_posix():new.name for p,new in found.items()}
    tail = {'/'.join(k.split('/')[-2:]):'/'.join([k.split('/')[-2],v]) for k,v in names.items()}
    places = [*nbs.rglob('*.ipynb'),*(root/d/f for d in ('docs','tests') for f in (p.name for p in (root/d).glob('*.py'))),*(root/f for f in ('README.md','CONTRIBUTING.md','CHANGELOG.md','experiments/README.md'))]
    for f in places:
        text = f.read_text()
        new = re.sub(r'[\w]+/\d\d_\w+\.ipynb', lambda m: tail.get(m[0], m[0]), text)
        if f.parent in {p.parent for p in found}: # links within the folder
            own = {k.split('/')[-1]:v for k,v in names.items() if (nbs/k).parent==f.parent}
            new = re.sub(r'(?<=\]\()\d\d_\w+\.ipynb', lambda m: own.get(m[0], m[0]), new)
        if new!=text: f.write_text(new)

if __name__=='__main__':
    found = renames()
    for p,new in sorted(found.items()): print(p.relative_to(root), '->', new.name)
    if '--check' in sys.argv: sys.exit(bool(found))
    rename(found)
