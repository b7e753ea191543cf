"Turn the notebooks into pages for Sphinx: names are documented and linked, sources and tests folded, nothing is executed."
import ast, io, json, re, shutil, tokenize
from collections import Counter
from dataclasses import dataclass
from execnb.nbio import mk_cell
from itertools import groupby, takewhile
from nbdev.config import get_config
from nbdev.doclinks import NbdevLookup, nbglob, patch_name
from nbdev.process import NBProcessor
from map import about, evening_pages, guides, lab, listed, room, rooms, star
from options import fold, folded, options, public
from pathlib import Path

root = Path(__file__).parent.parent
cfg = get_config(path=root)
nbs = root/cfg.nbs_path.name

def source(
    path:str, # of a file of the project, from its root
    text:str='', # of the link; empty: the path
) -> str: # Markdown
    "A link to a file in the repository; where `git_url` in settings.ini is empty, the name of the file."
    if cfg.git_url: return f'[{text or path}]({cfg.git_url}/blob/{cfg.branch}/{path})'
    return text if Path(path).name in text else f'{text} (`{path}`)' if text else f'`{path}`'

# -- The order of the pages

captions = {'tutorials':'Tutorials', 'howto':'How to', 'explain':'Explanations', **{f'book/{r}':f'The book: {title}' for r,title in rooms.items()},
    'lab':'The lab', **{f'lab/{r}':f"The lab: {r.replace('_', ' ')}" for r in lab}, 'calls':'Calls'} # in reading order

def section(
    nb:Path, # notebook, relative to `nbs`
) -> tuple: # place in the navigation, caption
    "Where a notebook belongs: by its folder, and in the book by the package of its module; those beside the folders are an overview."
    name = f'book/{room(nb)}' if nb.parts[0]=='book' else nb.parent.as_posix()
    if name=='.': return -1,'Overview'
    if name in captions: return list(captions).index(name),captions[name]
    if nb.parts[0]=='lab': return list(captions).index('calls')-.5,f"The lab: {nb.parts[1].replace('_', ' ')}"
    return len(captions),re.sub(r'^\d+_', '', name).capitalize()

def reading_order() -> list: # notebooks, relative to `nbs`
    "The index; then section by section, those with a number by number, and the others in the order in which `map` lists them."
    free = listed()
    def key(nb): return *section(nb), nb.name if nb.name[0].isdigit() else '', free.index(nb) if nb in free else -1
    found = [Path(p).relative_to(nbs) for p in nbglob(nbs)]
    return [Path('index.ipynb'), *sorted((p for p in found if p!=Path('index.ipynb')), key=key)]

def page_name(
    nb:Path, # notebook, relative to `nbs`
) -> str: # as nbdev names its pages
    "The name of a notebook's page, without its number."
    return nb.with_name(re.sub(r'^\d+[a-z]?_', '', nb.stem)).as_posix()

# -- What a cell defines

def definitions(
    source:str, # of an exported cell
) -> list: # (name, syntax tree)
    "Public functions and classes; a method that is patched into a class is called `Class.method`."
    return [(patch_name(o), o) for o in ast.parse(source).body if isinstance(o, (ast.FunctionDef,ast.AsyncFunctionDef,ast.ClassDef)) and o.name[0]!='_']

def bound(
    source:str, # of an exported cell
) -> list: # names, private ones too
    "What a cell defines or assigns at its top level."
    out = []
    for o in ast.parse(source).body:
        if hasattr(o, 'name'): out.append(patch_name(o))
        if isinstance(o, ast.Assign): out += [n.id for n in ast.walk(o) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return list(dict.fromkeys(out))

def decorated(node, name): return any(name in ast.unparse(d) for d in node.decorator_list)

def parameters(
    node:ast.AST, # function, or class
    comments:dict, # line -> comment
) -> list: # (name, type, default, comment), each a string
    "Parameters, or the fields of a dataclass, with the comments on their lines; the last one is what comes back."
    text = lambda o: ast.unparse(o) if o else ''
    if isinstance(node, ast.ClassDef):
        init = next((o for o in node.body if isinstance(o, ast.FunctionDef) and o.name=='__init__'), None)
        if init: return parameters(init, comments)[:-1]
        fields = [o for o in node.body if isinstance(o, ast.AnnAssign)] if decorated(node, 'dataclass') or 'NamedTuple' in map(text, node.bases) else []
        return [(o.target.id, text(o.annotation), text(o.value), comments.get(o.lineno, '')) for o in fields]
    body = node.body[0].lineno
    end = node.returns.lineno if node.returns else body # from this line on a comment is about the result, or about the body
    row = lambda o,default=None,stars='': (stars+o.arg, text(o.annotation), text(default), comments.get(o.lineno, '') if o.lineno<end else '')
    a,plain = node.args,node.args.posonlyargs+node.args.args
    rows = [row(o, d) for o,d in zip(plain, [None]*(len(plain)-len(a.defaults))+a.defaults) if o.arg not in ('self','cls')]
    if a.vararg: rows.append(row(a.vararg, stars='*'))
    elif a.kwonlyargs: rows.append(('*','','',''))
    rows += [row(o, d) for o,d in zip(a.kwonlyargs, a.kw_defaults)]
    if a.kwarg: rows.append(row(a.kwarg, stars='**'))
    return [*rows, ('returns',text(node.returns),'',comments.get(end, '') if end<body else '')]

def signature(
    node:ast.AST, # function, or class
) -> str: # without types: they are in the table
    "Names and defaults."
    return ', '.join(n+(f'={d}' if d else '') for n,_,d,_ in parameters(node, {}) if n!='returns')

def table(
    rows:list, # of `parameters`
) -> str: # Markdown
    "The table of parameters; nothing if none of them has a comment."
    if not any(c for *_,c in rows): return ''
    code = lambda s: f"`{s.replace('|', chr(92)+'|')}`" if s else ''
    rows = [('*returns*' if n=='returns' else code(n), code(t), code(d.replace(': ', ':\xa0')), c.replace('|', r'\|')) for n,t,d,c in rows if n!='*' and (n!='returns' or c or t not in ('','None'))]
    columns = [c for c in zip(('parameter','type','default','meaning'), *rows) if any(c[1:])]
    lines = [f"| {' | '.join(r)} |" for r in zip(*columns)]
    return '\n'.join([lines[0],'|---'*len(columns)+'|',*lines[1:]])

def document(
    name:str, # `function`, `Class` or `Class.method`
    node:ast.AST, # its syntax tree
    comments:dict, # line -> comment
    module:str, # where it is exported to
    links, # turns names in backticks into links
) -> str: # Markdown
    "A directive that Sphinx shows as signature, summary and parameters, with the documented methods of a class."
    kind = 'class' if isinstance(node, ast.ClassDef) else 'property' if decorated(node, 'property') else 'method' if '.' in name else 'function'
    head = name if kind=='property' else f'{name}({signature(node)})'
    methods = [o for o in node.body if isinstance(o, ast.FunctionDef) and o.name[0]!='_' and ast.get_docstring(o)] if kind=='class' else []
    inner = '\n\n'.join(document(f'{name}.{o.name}', o, comments, module, links) for o in methods)
    rows,more = parameters(node, comments),{}
    if kind=='function' and any(decorated(node, d) for d in ('with_options','list_options')): rows,more = folded(name, rows, options(name))
    groups = [fold(title, part, table(part), links) for title,part in more.items()]
    body = '\n\n'.join(filter(None, [links(ast.get_docstring(node) or ''), links(table(rows)), *groups, inner]))
    fence = '`'*max(4, 1+max((len(f) for f in re.findall('`{3,}', body)), default=0))
    return f'{fence}{{py:{kind}}} {head}\n:module: {module}\n\n{body}\n{fence}'

# -- From notebook to page

class Notebook:
    "A notebook, and what of it is shown."
    def __init__(self,
        path:Path, # relative to `nbs`
    ):
        self.path,self.name = path,page_name(path)
        self.cells = NBProcessor(nbs/path).nb.cells # takes the directives out of the source
        titled = re.match(r'# (.+)\n\n> (.+)', self.cells[0].source)
        begin = self.cells[0].source[:40]
        if not titled: raise ValueError(f"{path} begins with {begin!r}: the first cell must be title and summary, '# Title' and '> One line.'")
        self.title,self.summary = titled.groups()
        self.module = next((f"{cfg.lib_name}.{c.directives_['default_exp'][0]}" for c in self.cells if 'default_exp' in c.directives_), None)
        self.caption = section(path)[1] if path.name!='index.ipynb' else 'Start'

    def head(self) -> list: # strings
        "What the search weighs most: title, summary, and the text before the first heading or example."
        first,*rest = self.cells
        def is_text(c): return c.cell_type=='markdown' or c.source.lstrip('#| export\n')[:1]=='"'
        below = [c.source.strip('#| export\n"') for c in takewhile(lambda c: is_text(c) and not c.source.startswith('## '), rest)]
        text = ' '.join([first.source.partition(f'> {self.summary}')[2], *below]).partition('\n## ')[0]
        return [self.title, self.summary, ' '.join(re.sub(r'\]\([^)]*\)|[`*>|\[\]-]', ' ', text).split())[:1500]]

    def names(self): return [n for c in self.cells if c.cell_type=='code' and 'export' in c.directives_ for n,_ in definitions(c.source)]

    def about(self) -> str: # Markdown
        "Where it comes from."
        module = f"\n```{{py:module}} {self.module}\n```\n" if self.module else ''
        module_file = f", module {source(self.module.replace('.', '/')+'.py')}" if self.module else ''
        reads = any("'../results/" in c.source or "'../../results/" in c.source for c in self.cells)
        clone = f'. It reads figures of the repository: run it in a clone, in `{(Path(cfg.nbs_path.name)/self.path).parent}/`' if reads else ''
        here = source(f'{cfg.nbs_path.name}/{self.path.as_posix()}')
        return f'{module}\n:::{{container}} where\nNotebook {here}{module_file}{clone}\n:::'

    def page(self,
        links, # turns names in backticks into links
    ) -> list: # cells
        "Text with links; exported cells as documentation, public names first, and folded source; of the hidden cells those among the checks, folded."
        first,out,checks = [],[],False
        offered = [name for name,module in public.items() if f'{cfg.lib_name}.{module}'==self.module]
        for c in self.cells:
            if c.cell_type=='markdown':
                if c.source.startswith('## '): checks = c.source.startswith('## Checks')
                if c is self.cells[0] and self.caption!='Start': c.source = re.sub(r'(\n\n> .+\n?)', lambda m: m[0]+self.about()+'\n', c.source, count=1)
                out.append(mk_cell(links(c.source, self.path.parent), 'markdown'))
            elif not c.directives_: out.append(folded_checks(c) if self.module and not checks else c)
            elif checks or 'hide' not in c.directives_:
                above,here = code_cells(c, self.module, links, offered)
                first += above
                out += here
        return [out[0],*first,*out[1:]]

def only_checks(
    source:str, # of a cell
) -> bool:
    "Whether a cell has nothing to show: assertions, and errors that are expected."
    def is_check(o):
        if isinstance(o, ast.With): return 'expect_fail' in ast.unparse(o.items[0])
        return isinstance(o, ast.Assert) or ast.unparse(o).startswith('test_')
    return all(map(is_check, ast.parse(source).body))

def folded_checks(
    c, # cell without a directive
): # the cell
    "Fold a cell that only checks."
    if only_checks(c.source): c.metadata = {**(c.get('metadata') or {}), 'tags':['hide-input'], 'mystnb':dict(code_prompt_show='Checks', code_prompt_hide='Checks')}
    return c

def code_cells(
    c, # cell with a directive
    module:str, # of its notebook
    links, # turns names in backticks into links
    offered:list, # names that are documented at the top of the page
) -> tuple: # cells for the top of the page, cells for this place
    "The documentation of what a cell defines, and the cell itself, folded if it is exported. Imports are not shown."
    source = re.sub(r'^#\|.*\n', '', c.source, flags=re.MULTILINE)
    if all(isinstance(o, (ast.Import,ast.ImportFrom)) or ast.unparse(o).startswith('_all_') for o in ast.parse(source).body): return [],[]
    exported = 'export' in c.directives_
    comments = {t.start[0]:t.string.lstrip('# ') for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type==tokenize.COMMENT}
    anchor = lambda n: f'<span id="{n.lower()}"></span>\n\n' # the place that nbdev's own index of names speaks of
    documented = [(n, mk_cell(anchor(n)+document(n, o, comments, module, links), 'markdown')) for n,o in definitions(source)] if exported else []
    first,here = [d for n,d in documented if n in offered],[d for n,d in documented if n not in offered]
    # without `echo` the picture is for readers, the code that draws it is not
    tag = 'remove-input' if 'echo:' in c.directives_ else 'hide-cell' if 'hide' in c.directives_ else 'hide-input' if exported else ''
    names = bound(source) if exported and (first or not here) else []
    title = f"Source of {', '.join(names)}" if names else 'Source'
    alt = re.sub(r'[`*$#|"]', '', ' '.join(c.directives_.get('fig-alt:', []))) # for those who cannot see the picture
    shown = dict(image=dict(alt=alt)) if alt else dict(code_prompt_show=title, code_prompt_hide=title)
    c.source,c.metadata = source,{**(c.get('metadata') or {}), 'tags':[tag]*bool(tag), 'mystnb':shown}
    return first,[*here,c]

class Links:
    "Names in backticks become links, and links to notebooks and files of the project lead to pages or to its source."
    def __init__(self,
        notebooks:list, # all of them
    ):
        self.pages = {nb.path.as_posix():nb.name for nb in notebooks}
        if len(set(self.pages.values()))<len(notebooks): raise ValueError(f'two notebooks would be the same page: {sorted(self.pages)}; rename one of them')
        self.stems = {s:nb.name for nb in notebooks for s in (nb.path.stem,nb.path.with_suffix('').as_posix()) if '_' in s}
        self.stems.update({nb.module.partition('.')[2]:nb.name for nb in notebooks if nb.module and nb.module.count('.')==2})
        found = [(n, f'{nb.module}.{n}') for nb in notebooks for n in nb.names()]
        many = Counter(n for n,_ in found)
        self.names = {n:full for n,full in found if many[n]==1} # what two modules call by the same name leads nowhere
        self.fastai,self.files = NbdevLookup(strip_libs=('fastai','fastcore')),set()

    def name(self, m):
        s = m[1].removesuffix('()')
        if s in self.names: return f'{{py:obj}}`{m[1]} <{self.names[s]}>`'
        if s in self.stems: return f'[`{s}`](/{self.stems[s]}.ipynb)'
        url = self.fastai.doc(s) if re.match('[A-Z][a-z]', s) else None
        return f'[`{m[1]}`]({url})' if url else m[0]

    def target(self, m, folder):
        link,_,place = m[2].partition('#')
        if not link or re.match('[a-z]+:', link): return m[0]
        path = next((p for p in ((nbs/folder/link).resolve(),(root/link).resolve()) if p.exists() and p.is_relative_to(root)), None)
        if not path: raise ValueError(f'{m[0]} leads nowhere: there is no {link} beside the notebook, nor in the root of the project')
        if path.parent==root/'docs' and path.is_dir(): return f'<a href="{"../"*len(Path(folder).parts)}{path.name}/index.html">{m[1][1:-1]}</a>' # a page that `build.py` puts beside these
        if path.suffix=='.ipynb': return f'{m[1]}(/{self.pages[path.relative_to(nbs).as_posix()]}.ipynb{place and "#"+place})'
        local = path.relative_to(root).as_posix()
        if m[1][0]!='!': return source(local, m[1][1:-1])
        self.files.add(local) # a picture comes with the site
        return f'{m[1]}(/{local})'

    def __call__(self, text, folder='.'):
        out,fenced = [],False
        for line in text.split('\n'):
            fenced ^= line.lstrip().startswith('```')
            if not fenced and line[:1]!='#':
                line = re.sub(r'(!?\[[^\]]*\])\(([^)\s]+)\)', lambda m: self.target(m, folder), line)
                line = re.sub(r'(?<!^\| )(?<![\[`}])`([\w./]+(?:\(\))?)`(?!`)', self.name, line) # the first column of a table is what its row is about
            out.append(line)
        return '\n'.join(out)

# -- All pages

kernel = dict(name='python3', display_name='python3', language='python')

@dataclass
class Folder:
    "A page that lists other pages; in the navigation they are folded below it."
    name:str # of the page
    title:str
    summary:str
    pages:list # of `Notebook` or `Folder`

    def page(self) -> str: # Markdown
        lines = [f'- [{p.title}](/{p.name}{suffix(p)}): {p.summary}' for p in self.pages]
        tree = ['```{toctree}',':hidden:','',*map(entry, self.pages),'```']
        return '\n'.join(['---','nosearch: true','---','',f'# {self.title}','',f'> {self.summary}','',*lines,'',*tree])+'\n'

def suffix(page): return '.md' if isinstance(page, Folder) else '.ipynb'

def sentence(s): return f'{s[0].upper()}{s[1:]}.'

def entry(page) -> str: # of a tree
    "A page in the navigation; those of the evening path have a mark."
    return f'{star} {page.title} </{page.name}>' if page.name in map(page_name, evening_pages().values()) else f'/{page.name}'

def tree(
    notebooks:list, # in reading order
) -> list: # (caption, list of `Notebook` or `Folder`), in reading order
    "The navigation below the front page: the book is open; guides and the rooms of the lab are folded."
    parts = dict(sections(notebooks)[1:])
    overview = {nb.name:nb for nb in parts.pop('Overview')}
    folded = [Folder(f'{f}/index', title, sentence(what), parts.pop(title)) for f,(title,what) in guides.items()]
    folded[-1].pages.append(overview.pop('results'))
    found = [r for r in parts if r.startswith('The lab: ')]
    def of_lab(caption):
        pages = parts.pop(caption)
        r = pages[0].path.parts[1]
        return Folder(f'lab/{r}/index', caption.removeprefix('The lab: ').capitalize(), sentence(lab.get(r, r)), pages)
    inside = Folder('lab/index', 'The lab', 'What makes it fast, complete, watched and useful; the book does not need it.', [*parts.pop('The lab', []), *map(of_lab, found)])
    book = {c:parts.pop(c) for c in list(parts) if c.startswith('The book: ')}
    return [('Overview',[*overview.values(),*folded]), *book.items(), ('The lab',[inside]), *parts.items()]

def flat(pages) -> list: # of `Notebook` or `Folder`
    "Pages in the order in which one leads to the next."
    return [q for p in pages for q in [p,*flat(getattr(p, 'pages', []))]]

def write_pages(
    out:Path, # folder, made anew
) -> list: # of `Notebook`, in reading order
    "Write the pages of all notebooks, and the pictures they show."
    shutil.rmtree(out, ignore_errors=True)
    notebooks = [Notebook(p) for p in reading_order()]
    links = Links(notebooks)
    for nb in notebooks:
        cells = nb.page(links)
        if nb.caption=='Start': cells += [mk_cell(t, 'markdown') for t in trees(notebooks)]
        cells = [{**{k:v for k,v in c.items() if k in ('cell_type','source','outputs','execution_count','metadata')}, 'id':f'c{i}'} for i,c in enumerate(cells)]
        path = out/f'{nb.name}.ipynb'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dict(cells=cells, metadata=dict(kernelspec=kernel), nbformat=4, nbformat_minor=5)))
    for folder in (p for _,pages in tree(notebooks) for p in flat(pages) if isinstance(p, Folder)):
        (out/folder.name).parent.mkdir(parents=True, exist_ok=True)
        (out/f'{folder.name}.md').write_text(folder.page())
    (out/'scorer.js').write_text(f'const heads = {json.dumps({nb.name:nb.head() for nb in notebooks}, ensure_ascii=False)};\n'+(root/'docs'/'scorer.js').read_text())
    for f in links.files:
        (out/f).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root/f, out/f)
    return notebooks

def sections(notebooks): return [(caption, list(group)) for caption,group in groupby(notebooks, lambda nb: nb.caption)]

def trees(notebooks) -> list: # Markdown
    "The navigation: a tree for each part."
    return ['\n'.join(['```{toctree}',':hidden:',f':caption: {c}','',*map(entry, pages),'```']) for c,pages in tree(notebooks)]

def llms(notebooks) -> str: # https://llmstxt.org
    "The project for readers that are programs: a page a line."
    page = lambda nb: f'- [{nb.title}]({nb.name}.html): {nb.summary}'
    parts = ['\n'.join([f'## {c}','',*map(page, group)]) for c,group in sections(notebooks)]
    return '\n\n'.join([f'# {cfg.title}',f'> {notebooks[0].summary}',f'Every page is a notebook: {source(cfg.nbs_path.name)}.',*parts])+'\n'
