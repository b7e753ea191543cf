"The pages for readers: what they show runs when it is pasted into one script, and no line is too long to read."
import builtins, json, os, shutil, subprocess, symtable, sys
from configparser import ConfigParser
from pathlib import Path
from types import ModuleType

import pytest

root = Path(__file__).parent.parent
nbs = root/'nbs'
pages = {p.relative_to(nbs).with_suffix('').as_posix():p for folder in ('tutorials','howto','explain','.') for p in sorted((nbs/folder).glob('[a-z]*.ipynb')) if p.name!='index.ipynb'}
max_width = 92 # characters
cheap = ('explain/bad_input','explain/does_pretraining_help','explain/curves','explain/one_sentence','explain/paper','explain/slips','explain/speed','howto/another_machine','howto/names',
    'howto/new_callback','howto/text_forms') # of seconds
given = {*dir(builtins),'__name__','__file__','display'}

def code_cells(
    nb:Path, # notebook
) -> list: # (source, is it shown, is it run with the page)
    "The code of a page, from top to bottom."
    cells = [''.join(c['source']) for c in json.loads(nb.read_text())['cells'] if c['cell_type']=='code']
    shown = lambda s: '#| hide' not in s and '#| echo: false' not in s
    return [(s, shown(s), '#| eval: false' not in s) for s in cells]

def names(
    source:str, # of a cell
) -> tuple: # (names that it binds, names that it takes from cells above or below)
    "What a cell gives to other cells, and what it needs of them."
    top = symtable.symtable(source, 'cell', 'exec')
    bound = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    def used(scope):
        own = {s.get_name() for s in scope.get_symbols() if s.is_global() and s.is_referenced() or scope is top and s.is_referenced()}
        return own.union(*map(used, scope.get_children()))
    return bound,used(top)-given

def missing(
    cells:list, # of `code_cells`
) -> set: # names
    "Names that the visible cells use and no visible cell binds."
    both = [names(s) for s,shown,_ in cells if shown]
    return set().union(*(used for _,used in both))-set().union(*(bound for bound,_ in both))

def early(
    cells:list, # of `code_cells`
) -> set: # names
    "Names that a visible cell uses, outside of functions, before a visible cell above has bound them."
    bound,found = set(),set()
    for source in (s for s,shown,_ in cells if shown):
        own = names(source)[0]
        used = {o.get_name() for o in symtable.symtable(source, 'cell', 'exec').get_symbols() if o.is_referenced()}
        found |= used-given-own-bound
        bound |= own
    return found

def run_visible(
    page:str, # such as `howto/new_size`
    home:Path, # an empty folder
) -> subprocess.CompletedProcess:
    "Run the visible cells of a page, without those that are not run with it, as one script in a fresh process and a folder of its own."
    folder = home/'nbs'/Path(page).parent
    folder.mkdir(parents=True)
    shutil.copytree(root/'results', home/'results') # explanations read them
    (folder/'page.py').write_text('\n\n'.join(s for s,shown,run in code_cells(pages[page]) if shown and run))
    env = {**os.environ, 'PYTHONPATH':str(root), 'ELECTRA_NB_CACHE':str(home/'cache'), 'MPLBACKEND':'agg', 'TQDM_DISABLE':'1', 'OMP_NUM_THREADS':'1'}
    return subprocess.run([sys.executable, 'page.py'], cwd=folder, env=env, capture_output=True, text=True, timeout=600)

def test_missing():
    "A name from a hidden cell is found, be it used at once or in the body of a function; a parameter and a builtin are none."
    cells = [('#| hide\nhome = 1',False,True),('def f(x): return len(x)+home+far\nfar = [y for y in f]',True,True)]
    assert missing(cells)=={'home'}
    assert missing([(s,True,run) for s,_,run in cells])==set()

def test_early():
    "What is bound below comes too late for a cell, but not for the body of a function."
    cells = [('def f(): return later',True,True),('print(later)',True,True),('later = 1',True,True)]
    assert early(cells)=={'later'}
    assert early([cells[0],cells[2],cells[1]])==set()

@pytest.mark.parametrize('page', pages)
def test_visible_cells_in_order(page):
    "Visible cells that are pasted from top to bottom have every name when they need it."
    assert early(code_cells(pages[page]))==set()

@pytest.mark.parametrize('page', pages)
def test_visible_cells_suffice(page):
    "No visible cell takes a name from a hidden one."
    assert missing(code_cells(pages[page]))==set()

@pytest.mark.parametrize('page', pages)
def test_lines_are_short(page):
    "A visible line of code has at most 92 characters."
    long = [line for source,shown,_ in code_cells(pages[page]) if shown for line in source.split('\n') if len(line)>max_width and line[:2]!='#|']
    assert long==[]

@pytest.mark.parametrize('page', cheap)
def test_visible_cells_run(page, tmp_path):
    "Pasted into one script the visible cells run, with all their asserts."
    done = run_visible(page, tmp_path)
    assert done.returncode==0, done.stderr[-3000:]

@pytest.mark.parametrize('page', [p for p in pages if p.startswith('tutorials/')])
@pytest.mark.parametrize('colab', [True,False])
def test_colab(page, colab, monkeypatch):
    "A tutorial has a link that opens it in Colab; there its first cells install the project, elsewhere they do nothing."
    ini = ConfigParser(delimiters=['='])
    ini.read(root/'settings.ini')
    cfg,called = ini['DEFAULT'],[]
    title = ''.join(json.loads(pages[page].read_text())['cells'][0]['source'])
    assert f"[Open in Colab](https://colab.research.google.com/github/{cfg['user']}/{cfg['repo']}/blob/{cfg['branch']}/nbs/{page}.ipynb)" in title
    monkeypatch.setattr(subprocess, 'run', lambda args, check: called.append(args))
    if colab: monkeypatch.setitem(sys.modules, 'google.colab', ModuleType('colab'))
    first = code_cells(pages[page])[:2]
    exec('\n'.join(source for source,*_ in first), {})
    assert all(shown for _,shown,_ in first) and called==[[sys.executable,'-m','pip','install','--quiet',f"git+{cfg['git_url']}"]]*colab
