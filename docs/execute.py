"Run notebooks and store what they show, pictures as SVG: `python docs/execute.py nbs/explain/generator.ipynb …`; without names, all of them."
import argparse, matplotlib, os, pandas, re
from concurrent.futures import ProcessPoolExecutor
from electra_nb.core.figure import chart_style
from execnb.nbio import read_nb, write_nb
from execnb.shell import CaptureShell
from multiprocessing import get_context
from nbdev.clean import nbdev_clean
from nbdev.doclinks import nbglob
from pathlib import Path

def slim(
    svg:str, # as matplotlib writes it
) -> str:
    "Without date and program, with coordinates to a tenth of a point and the fonts of the reader."
    svg = re.sub(r'<metadata>.*?</metadata>\s*|<\?xml.*?\?>\s*|<!DOCTYPE.*?>\s*', '', svg, flags=re.S)
    svg = re.sub(r'\n(?=[LCQz"])', ' ', svg).replace("font-family: 'DejaVu Sans', sans-serif", 'font-family: system-ui, sans-serif')
    return unwrapped(re.sub(r'(?<=[ "(-])(\d+\.\d)\d+', r'\1', svg))

def unwrapped(
    svg:str,
) -> str:
    "Without names that nothing refers to, groups that then say nothing, and indentation; neighbours of one style share it."
    used = set(re.findall(r'#([\w-]+)', svg))
    svg = re.sub(r' d="[^"]*"', lambda m: re.sub(' +', ' ', m[0]), svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*\)"', '', svg)
    svg = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in used else '', re.sub(r'\n\s+', '\n', svg))
    svg = re.sub(r'<g\b[^>]*/>\n?', '', svg) # of an axis without marks
    out,kept = [],[] # parts, and for each open group whether it stays
    for part in re.split(r'(<g\b[^>]*>|</g>)\n?', svg):
        if part.startswith('<g'): kept.append(part!='<g>')
        stays = part not in ('<g>','</g>') or (part=='</g>' and kept.pop())
        if stays: out.append(part+'\n' if part.startswith(('<g','</g')) else part)
    svg,marks = ''.join(out),r'(?:<(?:use|path)\b[^>]*/>\n)+'
    while svg!=(svg := re.sub(rf'(<g clip-path="[^"]*">\n)({marks})</g>\n\1', r'\1\2', svg)): pass # neighbours in the same frame
    def styled(m): return f'<g style="{m[1]}">\n'+m[0].replace(f' style="{m[1]}"', '').replace('\n', '')+'\n</g>\n'
    return re.sub(r'<use\b[^>]* style="([^"]*)"/>\n(?:<use\b[^>]* style="\1"/>\n)+', styled, svg)

def keep(
    cell, # that was run
) -> None:
    "Keep the outputs for readers: no progress bars or warnings, one format a picture."
    if cell.cell_type!='code': return
    cell.outputs = [o for o in cell.get('outputs', []) if o.get('name')!='stderr']
    for o in cell.outputs:
        if o.output_type=='error': raise RuntimeError(''.join(o.traceback))
        svg = o.get('data', {}).get('image/svg+xml')
        if not svg: continue
        o.data['image/svg+xml'] = slim(''.join(svg)).splitlines(True)
        o.data.pop('image/png', None)

def execute(
    path:str, # notebook
) -> str: # the same
    "Run a notebook in its folder, but the cells that are never run, and store its outputs."
    path = Path(path).resolve()
    os.chdir(path.parent)
    nb,shell = read_nb(path),CaptureShell(mpl_format='svg')
    matplotlib.rcParams.update({**chart_style(), 'svg.hashsalt':path.stem})
    pandas.set_option('display.width', 140, 'display.max_columns', 20) # a table is stored whole
    for cell in nb.cells:
        if '#| eval: false' in cell.source: continue
        if cell.cell_type=='code': cell.outputs = []
        shell.cell(cell)
        keep(cell)
    write_nb(nb, path)
    nbdev_clean(path)
    return str(path)

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split(':')[0])
    ask.add_argument('notebooks', nargs='*')
    ask.add_argument('--n_workers', type=int, default=1, help='notebooks at a time, each in a process of its own')
    a = ask.parse_args()
    with ProcessPoolExecutor(a.n_workers, mp_context=get_context('spawn'), max_tasks_per_child=1) as pool:
        for done in [pool.submit(execute, p) for p in a.notebooks or nbglob('nbs')]: print(done.result(), flush=True)
