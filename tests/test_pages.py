"The pages for readers: what they show runs when it is pasted into one script, and no line is too long to read."
import builtins, json, os, re, shutil, symtable
from pathlib import Path

import pytest
from forked import Program

root = Path(__file__).parent.parent
nbs = root/'nbs'
pages = {p.relative_to(nbs).with_suffix('').as_posix():p for folder in ('tutorials','howto','explain','.') for p in sorted((nbs/folder).glob('[a-z]*.ipynb')) if p.name!='index.ipynb'}
max_width = 92 # characters
cheap = ('explain/bad_input','explain/does_pretraining_help','explain/curves','explain/one_sentence','explain/paper','explain/paper_appendices','explain/slips','explain/speed','howto/names',
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
) -> Program: # that has ended
    "Run the visible cells of a page, without those that are not run with it, as one script in a process and a folder of its own."
    folder = home/'nbs'/Path(page).parent
    folder.mkdir(parents=True)
    shutil.copytree(root/'results', home/'results') # explanations read them
    (folder/'page.py').write_text('\n\n'.join(s for s,shown,run in code_cells(pages[page]) if shown and run))
    env = {**os.environ, 'PYTHONPATH':str(root), 'ELECTRA_NB_CACHE':str(home/'cache'), 'MPLBACKEND':'agg', 'TQDM_DISABLE':'1', 'OMP_NUM_THREADS':'1'}
    p = Program("import runpy; runpy.run_path('page.py', run_name='__main__')", folder, env)
    p.wait(600)
    return p

tables = 'additions engines families kinds objectives optimizers recipes speed ties vocab_kinds watchers'.split()

def left_behind( # rows that the examples of a page leave in a table of the package, which other pages of the same process would see
    sources:list, # of code cells, without exported ones
) -> list:
    text = '\n'.join(sources)
    added = re.findall(rf"^\s*((?:{'|'.join(tables)})\[[^]]+\]) = ", text, re.MULTILINE)
    return [row for row in added if f'del {row}' not in text]

def test_left_behind():
    assert left_behind(["kinds['x'] = 1", "families['a'] = row\ndel families['a']"])==["kinds['x']"]
    left = {p.name:left_behind([s for s in map(''.join, (c['source'] for c in json.loads(p.read_text())['cells'] if c['cell_type']=='code'))
        if not s.startswith('#| export')]) for p in nbs.rglob('*.ipynb')}
    assert not any(left.values()), left

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

def test_no_settings_in_a_title():
    "nbdev reads a list under a title as settings of the page, so a list of the text stands in a cell of its own."
    firsts = {p.relative_to(nbs).as_posix():next(''.join(c['source']) for c in json.loads(p.read_text())['cells'] if c['cell_type']=='markdown') for p in nbs.rglob('*.ipynb')}
    assert [name for name,first in firsts.items() if re.search(r'^- ', first, re.M)]==[]

@pytest.mark.parametrize('page', cheap)
def test_visible_cells_run(page, tmp_path):
    "Pasted into one script the visible cells run, with all their asserts."
    done = run_visible(page, tmp_path)
    assert done.returncode==0, done.communicate()[1][-3000:]

# figures of the paper and of the original code on which the project builds, as its two pages on the paper write them, without commas
paper_figures = {'starts and floors':'45.0 11.3 12.7 13.9 16.3 18.3 20.1 0.0176', 'masks':'19 79 130 13.8 14.0 22.1', 'tying':'83.6 84.3 84.4',
    'Tables 1 and 2':'71.2 78.8 75.1 82.2 79.9 79.0 77.7 76.0 74.1 85.1 87.2 88.9 89.1 89.0 89.5', 'Table 4':'84.5 90.8 80.5 83.3 88.7 94.2 86.9 89.6 89.7 94.9 88.0 90.6 91.4',
    'Table 5':'85.0 84.3 82.4', 'Table 6':'766000 400000 1000000 2048 0.0005 0.0002 10000 0.999 1e-06', 'other steps':'4000000 1450000 464000',
    'rates in pre-training':'5e-08 0.00024875 0.000495 0.00046875 0.0004375 0.000375 0.00025', 'rates in fine-tuning':'0.000192 1.649e-05 1.319e-05 6.4e-05 5.498e-06 4.398e-06 4.05e-05 3.589e-06 3.231e-06 0.00024',
    'parameters':'13483008 108891648 334092288 13549057 109483009 335142913 647162 9903418 19512378 9573818 14196219 119386427 354655291 23122875',
    'shapes':'30522 (768,12,3072,12) (1024,16,4096,24)', 'answers and tags':'128 512 64 20 30 -2.75 0.5 BIOES 256 2e-05', 'Table 8':'78.0 79.7 75.9 80.9 83.5 85.7 88.6',
    'README':'80.36 81.14 87.46 89.46', 'operations':'3.41e18 3.86e21 3.97e19 1.42e18 6.43e19 1.92e20 1.29e18 6.42e19 7.12e20 3.11e21 3.19e21 3.11e22 4.58e22', 'appendices F and G':'58 65 75.5 77.9'}
paper_parts = ('§1','§2','§3.1','§3.2','§3.3','§3.4','§3.5','§4','§5','Before','Appendix A','Appendix B','Appendix C','Appendix D','Appendix E','Appendix F','Appendix G','Appendix H','Between')

def page_text(
    page:str, # such as `explain/paper`
) -> str:
    "What a reader sees: prose, visible code, and results as plain text."
    cells = json.loads(pages[page].read_text())['cells']
    shown = [''.join(c['source']) for c in cells if '#| hide' not in ''.join(c['source'])]
    return '\n'.join(shown+[''.join(o.get('data', {}).get('text/plain', o.get('text', []))) for c in cells for o in c.get('outputs', [])])

def paper_text(): return '\n'.join(map(page_text, ('explain/paper','explain/paper_appendices')))

@pytest.mark.parametrize('what', paper_figures)
def test_paper_figures(what):
    "The executable paper has every figure that the project takes from the paper and the original code."
    text = re.sub(r'(?<=\d)[,_](?=\d{3}(?!\d))', '', paper_text())
    lacking = [f for f in paper_figures[what].split() if not re.search(rf'(?<![\d.]){re.escape(f)}(?!\d|\.\d)', text)]
    assert lacking==[]

def test_paper_order():
    "The executable paper has the paper's sections in their order, and names its figures and tables."
    text = paper_text()
    assert [h for h in re.findall(r'^## (\S+(?: [A-H](?=:))?)', text, re.MULTILINE)]==list(paper_parts)
    for name in [f'Figure {i}' for i in range(1, 5)]+[f'Table {i}' for i in (1,5,6,7,8)]+['Tables 2 to 4']: assert name in text, name
