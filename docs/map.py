"""The lists of pages in nbs/map.ipynb and on the front page, from the heads of the notebooks: `python docs/map.py`; with `--check` it only looks."""
import json, re, sys
from functools import cache
from number import module_of, nbs, root

rooms = dict(core='Core', text='Text', model='Model', objectives='Objectives', training='Training', pretraining='Pre-training', glue='GLUE') # of the book
about = dict(core='the running example, files, messages, settings, figures', text='from files to a tokenizer and batches of ids', model='the two towers, and how they are run and saved',
    objectives='what is hidden, what is guessed, and how it is scored', training='optimizer, steps, checkpoints, log, and the loop around them',
    pretraining='every option of a run, and `pretrain`', glue='fine-tuning: labelled rows, a head, one run')
lab = dict(objectives='the other objectives of the paper', families='towers of another layout, other optimizers', start='starting from weights', tf1='the files of the original code', speed='the same step in less time',
    planning='what a run will cost, and when it ends', language='another language: tokenizers, duplicates, advice',
    own_data='labels of your own', tags='a tag for each word', pairs='two texts that are compared', texts='texts by counting and an encoder', questions='answers to questions', rivals='cheaper methods beside yours',
    study='several runs and their statistics', reports='diagnosis, report, model card, trackers', scoring='a model without fine-tuning', export='a model for other programs',
    bench='how fast it is') # rooms of the lab
guides = dict(tutorials=('Tutorials','from a text to a result'), howto=('How to','one question, one answer'), explain=('Explanations','why it is so, and what was measured'))
evening = { # module -> what it is, on the front page, in reading order
    'core.tiny':'the example', 'text.tokenizer':'words become ids', 'text.packing':'documents become rows', 'text.batches':'rows become batches',
    'model.towers':'generator and discriminator', 'model.init':'their first values', 'model.forward':'what they compute', 'objectives.masking':'what is hidden',
    'objectives.sampling':'what stands there instead', 'objectives.rtd':'both losses', 'objectives.evaluation':'is it learning?', 'training.optim':'the optimizer',
    'training.checkpoints':'what is kept', 'training.steps':'pauses and stops', 'training.loop':'all of it', 'recipe':'every option', 'pretraining':'a run',
    'glue.features':'labelled texts', 'glue.head':'an answer', 'glue.learner':'fine-tune'}
star = '☾' # marks the evening path

def room(path): # of a page, relative to nbs
    "The caption's key: package of the book, room of the lab, or the folder."
    if path.parts[0]!='book': return path.parts[1] if len(path.parts)>2 else path.parts[0]
    first = module_of(nbs/path).split('.')[0]
    return 'pretraining' if first=='recipe' else first

def head(path): # relative to nbs
    "Title and summary of a page."
    first = next(''.join(c['source']) for c in json.loads((nbs/path).read_text())['cells'] if c['cell_type']=='markdown')
    return re.match(r'# (.+)\n\n> (.+)', first).groups()

def listed(): # pages that have no number, in the order in which the map has them; new ones last
    index = (nbs/'map.ipynb').read_text().partition('## Guides')[2]
    found = [p.relative_to(nbs) for p in nbs.rglob('[!0-9]*.ipynb') if not any(part[0] in '._' for part in p.relative_to(nbs).parts)]
    places = {p:index.find(f'({p.as_posix()})')%len(index) for p in found}
    return sorted(found, key=lambda p: (places[p], p.name))

def numbered(folder): # its pages by number; without a folder: those of the whole lab, room by room
    return sorted(p.relative_to(nbs) for p in (nbs/folder).glob('[0-9]*.ipynb'))

def lab_rooms(): # those that there are, in the order of the table; unknown ones last
    found = {p.name for p in (nbs/'lab').iterdir() if p.is_dir() and any(p.glob('[0-9]*.ipynb'))}
    return sorted(found, key=lambda r: ([*lab,r].index(r), r))

@cache
def evening_pages(): # module -> page, relative to nbs
    by_module = {module_of(nbs/p):p for p in numbered('book')}
    if lacking := evening.keys()-by_module.keys(): raise ValueError(f'docs/map.py, evening: no page of the book is {sorted(lacking)}')
    return {m:by_module[m] for m in evening}

def line(path, name=None):
    "A page in a list: its module or title, and its summary."
    title,summary = head(path)
    mark = f'{star} ' if path in evening_pages().values() else ''
    return f'- {mark}[{name or module_of(nbs/path) or title}]({path.as_posix()}): {summary}'

def lines(paths): return '\n'.join(map(line, paths))

def sections() -> dict: # id of a cell of the map -> text
    "What the script writes into the map."
    free,book = listed(),numbered('book')
    out = dict(evening='## The evening path\n\nTwenty pages of the book are the whole method and the whole main job. In this order they can be read in an evening:\n\n'+
        '\n'.join(f'{i}. [{m}]({p.as_posix()}): {head(p)[1]}' for i,(m,p) in enumerate(evening_pages().items(), 1)))
    parts = [f'**{title}**: {what}.\n\n'+lines([p for p in free if p.parts[0]==f]) for f,(title,what) in guides.items()]
    out['guides'] = '## Guides\n\n'+'\n\n'.join(parts)+'\n\nMeasured figures: '+f'[results](results.ipynb). The code that these pages show, pasted into one script, runs.'
    parts = [f'**{title}** (`{r}`): {about[r]}.\n\n'+lines([p for p in book if room(p)==r]) for r,title in rooms.items()]
    out['book'] = f'## The book\n\nWhat trains, in the order of its numbers: no module imports a later one. {star} marks the evening path. Each page is the source of one module of `electra_nb`.\n\n'+'\n\n'.join(parts)
    parts = [f"**{r.replace('_', ' ').capitalize()}** (`lab.{r}`): {lab.get(r, '')}.\n\n"+lines(numbered(f'lab/{r}')) for r in lab_rooms()]
    out['lab'] = '## The lab\n\nWhat makes it fast, complete, watched and useful. The book does not need it; it enters by tables.\n\n'+'\n\n'.join([lines(numbered('lab')),*parts])
    out['calls'] = '## Calls\n\nWhat users call, beside [pretrain](%s):\n\n' % evening_pages()['pretraining'].as_posix() + lines(numbered('calls'))
    return out

def front() -> str: # Markdown
    "The evening path on the front page, a line a page."
    rows = (f"{i}. [{m.split('.')[-1]}](nbs/{p.as_posix()}): {evening[m]}" for i,(m,p) in enumerate(evening_pages().items(), 1))
    return '\n'.join(rows)

def written() -> dict: # file -> text as it should be
    "Map, front page and README with today's lists."
    out,lists = {},{'map':sections(),'index':dict(evening=front())}
    for name,cells in lists.items():
        nb = json.loads((nbs/f'{name}.ipynb').read_text())
        by_id = {c['id']:c for c in nb['cells']}
        for k,text in cells.items(): by_id[k]['source'] = text.splitlines(keepends=True)
        out[nbs/f'{name}.ipynb'] = json.dumps(nb, indent=1, ensure_ascii=False, sort_keys=True)+'\n'
        if name=='index': out[root/'README.md'] = '\n\n'.join(''.join(c['source']).strip() for c in nb['cells'] if c['cell_type']=='markdown')+'\n'
    return out

if __name__=='__main__':
    stale = {p:text for p,text in written().items() if p.read_text()!=text}
    for p in stale: print(p.relative_to(root))
    if '--check' in sys.argv: sys.exit(bool(stale))
    for p,text in stale.items(): p.write_text(text)
