"""The measurements of the pages lab/bench/loader and lab/bench/scaling, at the size of ELECTRA-Small.

    python bench_pages.py OUT

Their cells run as they stand, with a larger model and the built-in text. OUT/bench_tokenizer.json, OUT/bench_loader.json and
OUT/bench_scaling.json are written; both pages show them at their end. With --tokenizer only the first of them is.
"""
import argparse, json, time, torch
from electra_nb.lab.bench.measure import commit, machine
from electra_nb.core.files import atomic_file
from electra_nb.recipe import make_recipe
from electra_nb.text.corpus import get_corpus
from electra_nb.text.tokenizer import sample_texts, wordpiece
from electra_nb.training.folder import versions
from pathlib import Path

pages = Path(__file__).parents[1]/'nbs/lab/bench'

def run_page(name, until, given):
    "The names of a page after the cells before the heading `until`; `given` replaces values that its cells set."
    names = {}
    page, = pages.glob(f'[0-9]*_{name}.ipynb')
    for cell in json.loads(page.read_text())['cells']:
        source = ''.join(cell['source'])
        if cell['cell_type']=='code':
            exec(source, names) # a cell of this project's own page
            names.update((k, v) for k,v in given.items() if k in names)
        elif source.startswith(until): return names
    raise ValueError(f'{name} has no heading {until}')

def as_records(table): return table.reset_index(names='option').to_dict('records')

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ask.add_argument('out', type=Path)
    ask.add_argument('--rounds', type=int, default=7)
    ask.add_argument('--tokenizer', action='store_true', help='measure nothing but the tokenizer')
    a = ask.parse_args()
    torch.set_num_threads(1)
    docs = sample_texts(get_corpus(), 2_000_000)
    recipe = make_recipe('small', max_len=128, bs=16, unpad=False)
    given = dict(tok=wordpiece(docs, 4096), docs=docs, recipe=recipe, rounds=a.rounds)
    def write(name, **found):
        about = dict(date=time.strftime('%Y-%m-%d'), commit=commit(), versions=versions(), machine=machine(), rounds=a.rounds, recipe=recipe.flat())
        atomic_file(a.out/f'bench_{name}.json', json.dumps(dict(about, **found), indent=1))
    write('tokenizer', tokenizer=run_page('loader', '## Sampler', given)['tokenizer'])
    if a.tokenizer: raise SystemExit
    page = run_page('loader', '## At full size', dict(given, recipe=make_recipe('small', max_len=128, bs=128)))
    parts = {k:page[k] for k in ('sampler','dropout')}
    write('loader', loader=page['table'].to_dict('index'), packing=page['packed'], **parts)
    sizes = dict(bs=[4,8,16], max_len=[64,128,256], vocab_size=[7630,15261,30522])
    n = len(docs)
    page = run_page('scaling', '## ELECTRA-Small', dict(given, sizes=sizes, n_docs=[n//4,n//2,n]))
    exponents = dict(seconds=page['exponents']['preparing'], batch_seconds=page['exponents']['loading'])
    build = dict(x=page['n_docs'], seconds=page['seconds'].tolist(), batch_seconds=page['loading'], exponents=exponents)
    options = dict(table=as_records(page['speedups'](page['times'], 'defaults')), refused=page['unsteady'](page['times'], 'defaults'))
    write('scaling', scaling=page['scaling'], build=build, options=options)
