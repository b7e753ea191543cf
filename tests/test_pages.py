"The pages for readers: what they show runs when it is pasted into one script, and no line is too long to read."
import builtins, json, os, shutil, subprocess, symtable, sys
from pathlib import Path

import pytest

root = Path(__file__).parent.parent
nbs = root/'nbs'
pages = {p.relative_to(nbs).with_suffix('').as_posix():p for folder in ('tutorials','howto','explain') for p in sorted((nbs/folder).glob('*.ipynb'))}
max_width = 92 # characters
given = {*dir(builtins),'__name__','__file__','display'}

def code_cells(
    nb:Path, # notebook
) -> list: # (source, is it shown, is it run with the page)
    "The code of a page, from top to bottom."
    cells = [''.join(c['source']) for c in json.loads(nb.read_text())['cells'] if c['cell_type']=='code']
    return [(s, '#| hide' not in s, '#| eval: false' not in s) for s in cells]

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

def test_missing():
    "A name from a hidden cell is found, be it used at once or in the body of a function; a parameter and a builtin are none."
    cells = [('#| hide\nhome = 1',False,True),('def f(x): return len(x)+home+far\nfar = [y for y in f]',True,True)]
    assert missing(cells)=={'home'}
    assert missing([(s,True,run) for s,_,run in cells])==set()

@pytest.mark.parametrize('page', pages)
def test_visible_cells_suffice(page):
    "No visible cell takes a name from a hidden one."
    assert missing(code_cells(pages[page]))==set()

@pytest.mark.parametrize('page', pages)
def test_lines_are_short(page):
    "A visible line of code has no more characters than the page shows without scrolling."
    long = [line for source,shown,_ in code_cells(pages[page]) if shown for line in source.split('\n') if len(line)>max_width]
    assert long==[]
