"The site: built from the stored notebooks, served on this machine, and read in a browser as a visitor would."
import ast, inspect, json, re, shutil, signal, subprocess, sys
from io import BytesIO
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from PIL import Image
from playwright.sync_api import expect, sync_playwright

root = Path(__file__).parent.parent
sys.path.insert(0, str(root/'docs'))
from options import common, folded, groups, options, public
from map import evening, evening_pages, numbered
from pages import Folder, Links, Notebook, flat, nbs, page_name, parameters, reading_order, section, signature, source, table, tree

chromium = next(filter(None, map(shutil.which, ('chromium','chromium-browser','google-chrome','chrome'))), None)
order = reading_order()
names = [page_name(nb) for nb in order]
navigation = tree([Notebook(nb) for nb in order])
following = ['index',*(p.name for _,pages in navigation for p in flat(pages))] # as one page leads to the next
lists = [p.name for _,pages in navigation for p in flat(pages) if isinstance(p, Folder)]

@pytest.fixture(scope='module')
def site():
    "Folder and address of a site that is built and served by the command."
    p = subprocess.Popen([sys.executable, root/'docs'/'build.py', '--serve', '--port', '0'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) # a shell has its background jobs ignore it
    lines = []
    for line in p.stdout:
        lines.append(line.strip())
        if line.startswith('http'): break
    assert lines[-1].startswith('http://127.0.0.1:'), '\n'.join(lines)
    Thread(target=p.stdout.read, daemon=True).start() # a line for each request: a full pipe would stop the server
    yield root/'build'/'html',lines[-1]
    p.send_signal(signal.SIGINT)
    assert p.wait(60)==0

@pytest.fixture(scope='module')
def browser():
    if not chromium: pytest.skip('no chromium on this machine: install it to read the site in a browser')
    with sync_playwright() as p:
        b = p.chromium.launch(executable_path=chromium, args=['--no-sandbox'])
        yield b
        b.close()

# -- Without a browser

def test_pictures_have_words(site):
    "Every picture says what it shows to those who cannot see it."
    for name in names:
        for alt in re.findall(r'<img[^>]* alt="([^"]*)"', (site[0]/f'{name}.html').read_text()): assert len(alt)>12 and '_images' not in alt, (name, alt)

def test_sections_come_from_names():
    "A new notebook finds its place by its folder."
    expected = {'tutorials/first':'Tutorials', 'howto/x':'How to', 'lab/09_new':'The lab', 'lab/speed/60_new':'The lab: speed', 'lab/own_data/07_new':'The lab: own data',
        'lab/cakes/01_new':'The lab: cakes', 'calls/09_new':'Calls', 'results':'Overview', '9_recipes/cake':'Recipes'}
    assert {p:section(Path(f'{p}.ipynb'))[1] for p in expected}==expected
    captions = {'core.tiny':'Core', 'text.tokenizer':'Text', 'model.towers':'Model', 'objectives.rtd':'Objectives', 'training.loop':'Training', 'recipe':'Pre-training', 'pretraining':'Pre-training', 'glue.learner':'GLUE'}
    assert {m:section(evening_pages()[m])[1] for m in captions}=={m:f'The book: {c}' for m,c in captions.items()}

def test_order():
    "The index first, numbered notebooks by folder and number, each section in one piece."
    assert names[0]=='index' and len(set(names))==len(names)==sum(not any(part[0] in '._' for part in p.relative_to(nbs).parts) for p in nbs.rglob('*.ipynb'))
    of = lambda folder: [nb for nb in order if nb.parent.as_posix()==folder and nb.name[0].isdigit()]
    folders = {nb.parent.as_posix() for nb in order if nb.name[0].isdigit()}
    assert {'book','calls','lab','lab/speed'}<folders and all(of(f)==sorted(of(f)) for f in folders)
    captions = [section(nb)[1] for nb in order[1:]]
    assert len(set(captions))==sum(a!=b for a,b in zip(captions, [None]+captions))

def test_navigation():
    "Every page stands in the navigation once; guides and the rooms of the lab are folded, the book is open, and the evening path is marked in it."
    assert len(set(following))==len(following) and set(following)-set(lists)==set(names)
    top = {caption:[p.name for p in pages] for caption,pages in navigation}
    assert top['Overview']==['map','tutorials/index','howto/index','explain/index'] and top['The lab']==['lab/index']
    book = [name for caption,pages in top.items() if caption.startswith('The book: ') for name in pages]
    assert book==[page_name(p) for p in numbered('book')]
    rooms = {p.name for _,pages in navigation for q in pages if q.name=='lab/index' for p in q.pages if isinstance(p, Folder)}
    assert rooms=={f'lab/{d.name}/index' for d in (nbs/'lab').iterdir() if any(d.glob('[0-9]*.ipynb'))}
    assert len(evening)==20 and set(map(page_name, evening_pages().values()))<set(book)

def test_few_links_at_once(site):
    "What stands in the sidebar of the front page before anything is unfolded: at most sixty links, twenty of them with the mark of the evening path."
    html = (site[0]/'index.html').read_text()
    sidebar = html[html.index('sidebar-tree'):html.index('class="main"')]
    top = re.findall(r'<li class="toctree-l1[^"]*"><a [^>]*>(.*?)</a>', sidebar)
    assert len(top)==sum(len(pages) for _,pages in navigation)<=60
    assert sum('☾' in title for title in top)==20

def test_pages_describe_themselves(site):
    "Each page has a description, and title, summary and picture for programs that show a link as a card."
    descriptions = {}
    for name in names:
        html = (site[0]/f'{name}.html').read_text()
        descriptions[name] = re.search(r'<meta name="description" content="([^"]{15,})"', html)[1]
        assert re.search(r'<meta property="og:title" content="[^"<]+"', html) and f'<meta property="og:description" content="{descriptions[name]}"' in html, name
        picture = re.search(r'<meta property="og:image" content="([^"]+)"', html)[1]
        assert (site[0]/f'{name}.html').parent.joinpath(picture).resolve().is_file(), (name, picture)
    assert len(set(descriptions.values()))==len(names)

def test_parameters():
    "Types, defaults and comments are read from the source, as fastcore's docments reads them from the object."
    source = """class A:
    def __init__(self,
        a:int, # how many | or none
        *rest,
        b=('x',1), # what
        **kw): self.a = a # is kept"""
    comments = {3:'how many | or none', 5:'what', 6:'is kept'}
    node = ast.parse(source).body[0]
    assert parameters(node, comments)==[('a','int','','how many | or none'),('*rest','','',''),('b','',"('x', 1)",'what'),('**kw','','','')]
    assert signature(node)=="a, *rest, b=('x', 1), **kw"
    assert r'| `a` | `int` |  | how many \| or none |' in table(parameters(node, comments))
    assert table([('a','int','','')])==''

def test_parameters_of_the_package():
    "For every exported function the comments are those that fastcore finds."
    import electra_nb.objectives.masking as m, electra_nb.objectives.rtd as r, electra_nb.objectives.sampling as s
    from fastcore.docments import docments
    import inspect, io, tokenize
    for o in (m.MaskConfig,m.draw_slots,r.tower_losses,m.MaskTokens,s.sample_tokens):
        source = inspect.getsource(o)
        comments = {t.start[0]:t.string.lstrip('# ') for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type==tokenize.COMMENT}
        found = {n:c for n,_,_,c in parameters(ast.parse(source).body[0], comments)}
        expected = {('returns' if k=='return' else k):v or '' for k,v in docments(o).items() if k!='self'}
        assert {k:v for k,v in found.items() if v}=={k:v for k,v in expected.items() if v}, o

@pytest.mark.parametrize('name', ['pretrain','finetune','plan'])
def test_options_in_groups(name):
    "Every option is shown once: about ten at once, the others folded in the groups of the command's help."
    own = options(name)
    names = [n for _,n,*_ in own]
    assert not (unknown := set(common.get(name, ()))-set(names)), f'docs/options.py, common: {unknown} is no option of {name}'
    assert len(common.get(name, ()))<=12
    given = [(n,'','','') for heading,n,*_ in own if heading=='run']
    shown,rest = folded(name, [*given,('**options','','',''),('returns','','','')], own)
    assert sorted(n for part in (shown,*rest.values()) for n,*_ in part)==sorted([*names,'returns'])

def test_default_of_an_option():
    "A value that differs between sizes says so, one that all have stands alone."
    rows = {n:default for part in groups(options('pretrain')).values() for n,_,default,_ in part}
    assert (rows['objective'],rows['bs'],rows['keep_prob'])==('electra','small: 128, hour: 16, tiny: 8','0.15')

def test_broken_link_is_refused():
    "A link that leads nowhere is named; one to a notebook leads to its page, one to a file to its source."
    links = Links([Notebook(nb) for nb in order])
    with pytest.raises(ValueError, match='nowhere.md'): links('see [this](nowhere.md)')
    masking = evening_pages()['objectives.masking']
    assert links(f'[masking](nbs/{masking})')=='[masking](/book/masking.ipynb)'
    assert links('[log](CHANGELOG.md)')=='log (`CHANGELOG.md`)'
    assert links('```\n`objectives.masking`\n```\n`objectives.masking`').split('\n')[1:]==['`objectives.masking`','```','[`objectives.masking`](/book/masking.ipynb)']

def test_place_of_the_source(monkeypatch):
    "A file is named by its path; with a repository in settings.ini it is a link."
    assert source('CHANGELOG.md')=='`CHANGELOG.md`' and source('docs/help.py', 'a script')=='a script (`docs/help.py`)'
    monkeypatch.setattr('pages.cfg', SimpleNamespace(git_url='https://example.org/mine', branch='main'))
    assert source('docs/help.py', 'a script')=='[a script](https://example.org/mine/blob/main/docs/help.py)'

def test_pages(site):
    "A page for every notebook, under its title, with nothing that is to be loaded from elsewhere."
    out,_ = site
    for nb,name in zip(order, names):
        html = (out/f'{name}.html').read_text()
        title = ''.join(json.loads((nbs/nb).read_text())['cells'][0]['source']).splitlines()[0].removeprefix('# ')
        heading = re.sub('<[^>]+>', '', re.search('<h1>(.*?)<a class="headerlink"', html, re.S)[1])
        assert heading==title.replace('`', ''), name
        # browsers know no other variant; with braces, as in \mathcal{L}, such letters are characters of their own
        assert set(re.findall(r'mathvariant="(.*?)"', html))<={'normal'}, name
        assert not re.search(r'<(script|img|iframe)[^>]+src="(https?:)?//|<link[^>]+stylesheet[^>]+href="(https?:)?//', html), name
    llms = (out/'llms.txt').read_text()
    assert all(f'({name}.html): ' in llms for name in names) and 'http' not in llms

def test_names_are_documented(site):
    "A class has its signature, its parameters and a link from other pages."
    html,masking = ((site[0]/'book'/f'{name}.html').read_text() for name in ('rtd','masking'))
    assert 'id="electra_nb.objectives.masking.MaskTokens"' in masking and 'id="masktokens"' in masking
    assert 'masking.html#electra_nb.objectives.masking.MaskTokens' in html
    assert all(f'{f}</span>' in html for f in ('electra_nb/objectives/rtd.py',f"nbs/{evening_pages()['objectives.rtd']}")) and '/blob/' not in html
    assert '<math ' in html and r'\mathcal' not in re.sub(r'<annotation.*?</annotation>', '', html)

def test_public_names_first(site):
    "What a reader looks for on a page comes before everything else that is documented there, and once."
    pages = {nb.module:nb.name for nb in map(Notebook, order)}
    for name,module in public.items():
        full = f'electra_nb.{module}.{name}'
        html = (site[0]/f'{pages[f"electra_nb.{module}"]}.html').read_text()
        offered = {f'electra_nb.{m}.{n}' for n,m in public.items() if m==module}
        documented = [i for i in re.findall(r'<dt class="sig [^>]*id="([^"]+)"', html) if i.rpartition('.')[0] not in offered] # without methods
        assert {*documented[:len(offered)]}==offered and html.count(f'id="{full}"')==1
        assert html.index(f'id="{full}"')<html.index('<h2>') and re.search(rf'Source of [^<]*\b{name}\b', html), full

def test_exported_code_is_folded():
    "On a page exported code is folded, under its names where no documentation stands above it."
    notebooks = [Notebook(nb) for nb in order]
    links = Links(notebooks)
    exported = [c for nb in notebooks for c in nb.page(links) if c.cell_type=='code' and 'export' in c.directives_]
    assert len(exported)>500 and all(c.metadata['tags']==['hide-input'] for c in exported)
    titles = {c.metadata['mystnb']['code_prompt_show'] for c in exported}
    assert {'Source','Source of pretrain','Source of sizes'}<=titles and 'Source of ' not in titles

# -- In a browser

visit = """() => ({
    wide: document.documentElement.scrollWidth-innerWidth,
    broken: [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src),
    next: document.querySelector('a.next-page')?.href,
    dark: getComputedStyle(document.body).backgroundColor})"""

def test_every_page(site, browser):
    "On a wide bright screen and on a narrow dark one: no error, nothing from elsewhere, nothing too wide, every picture, and the next page is the next notebook."
    _,url = site
    context = browser.new_context()
    page = context.new_page()
    said,asked,failed = [],[],[]
    page.on('console', lambda m: said.append(m.text) if m.type in ('error','warning') else None)
    page.on('pageerror', lambda e: said.append(str(e)))
    page.on('request', lambda r: asked.append(r.url))
    page.on('response', lambda r: failed.append(r.url) if r.status>=400 else None)
    screens = (1280,'light'),(390,'dark')
    for name,after in zip([*following,'search','genindex'], [*following[1:],None,None,None]):
        page.goto(f'{url}/{name}.html')
        page.evaluate("Promise.all([...document.images].map(i => { i.loading = 'eager'; return i.decode().catch(() => 0) }))")
        screens = screens[::-1] # the first one is that of the page before: laying a page out takes as long as loading it
        for width,scheme in screens:
            page.set_viewport_size(dict(width=width, height=900))
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate(visit)
            assert found['wide']<=0, f"{name} is {found['wide']} pixels too wide at {width}"
            assert found['broken']==[], name
            assert (sum(map(int, re.findall(r'\d+', found['dark'])[:3]))<150)==(scheme=='dark'), name
        if name in following: assert found['next']==(f'{url}/{after}.html' if after else None), name
    assert said==[] and failed==[]
    assert [u for u in asked if not u.startswith((url,'data:'))]==[]
    context.close()

@pytest.mark.parametrize('name', ['tutorials/own_text','book/learner','lab/reports/card','results','calls/scoring'])
def test_current_page_in_sidebar(site, browser, name):
    "The navigation shows where the reader is, also on the last pages."
    page = browser.new_page(viewport=dict(width=1280, height=600))
    page.goto(f'{site[1]}/{name}.html')
    sidebar,current = (page.locator(s).bounding_box() for s in ('.sidebar-scroll','.sidebar-tree .current-page'))
    assert sidebar['y']<=current['y'] and current['y']+current['height']<=sidebar['y']+sidebar['height']
    page.close()

def test_search_finds_the_page(site, browser):
    "What people search for leads to the page about it first."
    wanted = '''howto/resume: checkpoint, checkpoints, deterministic, reproducible, resume
        tutorials/finetune_and_statistics: finetune, fine-tune, fine-tuning, predict
        howto/several_processes: multi-GPU, ddp, distributed, torchrun, several GPUs
        howto/gpu: gpu, GPU, cuda, memory
        howto/cpu: cpu, bf16
        howto/export: load model, hub, push to hub, push_to_hub, onnx, export
        howto/score: score, zero-shot, suspicious words
        howto/tag_words: tags, NER
        lab/reports/tracking: tensorboard, wandb
        book/masking: mask
        book/optim: learning rate
        book/recipe: hyperparameters
        tutorials/another_language: tokenizer
        howto/add_words: add words
        tutorials/own_text: own text, from scratch
        howto/continue: BERT, continue pretraining, continue pre-training, domain adaptation, start from weights
        tutorials/watch_a_run: troubleshooting
        howto/answer_questions: SQuAD
        howto/sentence_transformers: sentence-transformers
        howto/text_forms: csv, jsonl
        howto/much_text: streaming, shards, ray, large corpus, S3
        explain/speed: speed
        howto/new_objective: own objective
        lab/families/modern: ModernBERT
        index: license'''
    wanted = {q.strip():name.strip() for name,_,queries in (line.partition(':') for line in wanted.splitlines()) for q in queries.split(',')}
    page,found = browser.new_page(),{}
    for query in wanted:
        page.goto(f'{site[0].as_uri()}/search.html?q={query}')
        first = page.locator('ul.search li a').first
        first.wait_for(timeout=20_000)
        found[query] = first.get_attribute('href').partition('.html')[0].partition('?')[0]
    page.close()
    assert found==wanted

@pytest.mark.parametrize('served', [True,False])
def test_search(site, browser, served):
    "The search finds a class, served or opened as a file."
    out,url = site
    page = browser.new_page()
    page.goto(f'{url if served else out.as_uri()}/search.html?q=MaskTokens')
    page.locator('ul.search li a', has_text='MaskTokens').first.wait_for(timeout=10_000)
    hrefs = page.locator('ul.search li a').evaluate_all('links => links.map(a => a.href)')
    assert any(h.endswith('masking.html#electra_nb.objectives.masking.MaskTokens') for h in hrefs)
    page.close()

def test_copy(site, browser):
    "The button on a block of code copies what the block shows."
    _,url = site
    context = browser.new_context()
    context.grant_permissions(['clipboard-read','clipboard-write'], origin=url)
    page = context.new_page()
    page.goto(f'{url}/book/masking.html')
    block = page.locator('div.cell_input:visible').first
    block.hover()
    block.locator('button.copybtn').click()
    page.wait_for_function("navigator.clipboard.readText().then(t => t.length>0)")
    assert page.evaluate('navigator.clipboard.readText()').strip()==block.locator('pre').inner_text().strip()
    context.close()

@pytest.mark.parametrize('scheme', ['light','dark'])
def test_pictures_follow_the_page(site, browser, scheme):
    "A picture has the shade of its page: its corner is about as light or dark as the background."
    page = browser.new_page(color_scheme=scheme, viewport=dict(width=1280, height=900))
    page.goto(f'{site[1]}/explain/curves.html')
    page.locator('.cell_output img').first.scroll_into_view_if_needed()
    corner = Image.open(BytesIO(page.locator('.cell_output img').first.screenshot())).convert('L').getpixel((8,8))
    assert corner<60 if scheme=='dark' else corner>200
    page.close()

def test_folded_options(site, browser):
    "Without scripts, on a phone, a click on a group of options shows their meaning, and the page stays as wide as the screen."
    context = browser.new_context(viewport=dict(width=390, height=900), java_script_enabled=False)
    page = context.new_page()
    for name,group,option in (('book/pretraining','Masking','keep_prob'),('calls/finetuning','Optimizer','beta2')):
        page.goto(f'{site[1]}/{name}.html')
        details = page.locator('details.options', has=page.locator('summary', has_text=group))
        row = details.locator('tr', has=page.locator('td:first-child', has_text=option))
        assert not row.is_visible()
        details.locator('summary').click()
        assert row.is_visible()
        box = row.bounding_box()
        assert 0<=box['x'] and box['x']+box['width']<=390, name
    context.close()

contrast = """spans => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true})
    const paint = c => { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3) }
    const linear = x => x<=.04 ? x/12.92 : ((x+.055)/1.055)**2.4
    const light = rgb => rgb.reduce((sum, x, i) => sum + linear(x/255)*[.2126,.7152,.0722][i], .05)
    return spans.map(s => {
        const style = getComputedStyle(s)
        paint(getComputedStyle(document.body).backgroundColor)
        const [a,b] = [light(paint(style.backgroundColor)),light(paint(style.color))]
        return [s.title, s.textContent, Math.max(a, b)/Math.min(a, b)] }) }"""

@pytest.mark.parametrize('scheme', ['light','dark'])
def test_token_pictures(site, browser, scheme):
    "Coloured tokens have a contrast of 4.5 (WCAG AA) and a sign that needs no colour."
    page = browser.new_page(color_scheme=scheme)
    kinds = {}
    for name in ('book/show','book/rtd','book/pretraining'):
        page.goto(f'{site[1]}/{name}.html')
        for kind,text,c in page.locator('.cell_output td span[title]').evaluate_all(contrast): kinds.setdefault(kind, []).append((text,c))
    assert set(kinds)=={'masked','replaced','same','detected','missed','alarm'}
    signs = {k:{(t[0],t[-1]) for t,_ in v} for k,v in kinds.items()}
    assert all(len(s)==1 for s in signs.values()) and len({*map(tuple, signs.values())}-{('*','*')})>=4
    assert min(c for v in kinds.values() for _,c in v)>=4.5, {k:min(c for _,c in v) for k,v in kinds.items()}
    page.close()

def test_marked_answers_in_the_dark(site, browser):
    "A word on a light ground is dark on a dark page, too."
    page = browser.new_page(color_scheme='dark')
    page.goto(f'{site[1]}/howto/answer_questions.html')
    found = page.locator('.cell_output td span[style]').evaluate_all(contrast)
    assert found and min(c for *_,c in found)>=4.5, found
    page.close()

def test_tables_of_pandas(site, browser):
    "A table has one line of names, and words stand at the left under a name that stands there too."
    page = browser.new_page()
    heads = []
    for name in ('paper','paper_appendices'):
        page.goto(f'{site[1]}/explain/{name}.html')
        heads += page.locator('table.dataframe thead').evaluate_all('heads => heads.map(h => h.rows.length)')
    assert len(heads)>10 and set(heads)=={1}
    align = page.locator('table.dataframe', has_text='carry_overflow').evaluate('t => [t.rows[0].cells[1],t.rows[1].cells[1]].map(c => getComputedStyle(c).textAlign)')
    assert align==['left','left']
    page.close()

def test_theme_button(site, browser):
    "The button in the corner turns the page dark."
    page = browser.new_page(color_scheme='light', viewport=dict(width=1280, height=900))
    page.goto(f'{site[1]}/index.html')
    shade = lambda: sum(map(int, re.findall(r'\d+', page.evaluate('getComputedStyle(document.body).backgroundColor'))[:3]))
    before = shade()
    for _ in range(3):
        page.locator('button.theme-toggle:visible').first.click()
        if shade()<before: break
    assert shade()<150<before
    page.close()

def test_words_light_up(site, browser):
    "From the front page one comes to the page with the models of the project, which shades words; another page leads there too."
    if shutil.which('npm') is None: pytest.skip('npm is not installed: the site has no page words/ here')
    page = browser.new_context(bypass_csp=True).new_page()
    page.goto(f'{site[1]}/howto/export.html')
    assert page.locator('a[href="../words/index.html"]').count()==1
    page.goto(site[1])
    page.click('text=Try it in your browser')
    page.wait_for_function("performance.getEntriesByName('shaded').length>0")
    names = page.eval_on_selector_all('#model option', 'all => all.map(o => o.textContent.split(",")[0])')
    assert names==['tiny','hour']
    for i,name in enumerate(names): # of a sentence and the same with two words swapped, the wrong place stands out
        page.select_option('#model', str(i))
        found = page.evaluate("async model => (await scoreText('it returns a list of the names of the the files in this directory.', model)).map(w => w.prob)", str(i))
        assert max(found)==max(found[7:10]), (name, found)

def test_micro_electra_runs(site, browser):
    "The lines run in the browser with the losses of Python here, they can be stopped, and a slip in them is said."
    if shutil.which('npm') is None: pytest.skip('npm is not installed: the site has no page micro/ here')
    page = browser.new_context().new_page()
    page.goto(f'{site[1]}/explain/micro_electra.html')
    page.click('a[href="../micro/index.html"]')
    said = page.locator('#said')
    expect(said).to_contain_text('stored run')
    stored = page.evaluate('losses()')
    assert stored[-1][0]==500 and page.locator('#words span').count()==8
    page.click('#run')
    while len(found := page.evaluate('losses()'))<3:
        assert said.get_attribute('class')!='error', said.inner_text()
        page.wait_for_timeout(200)
    for mine,theirs in zip(found, stored): assert mine==pytest.approx(theirs, rel=1e-6)
    page.click('#stop')
    expect(said).to_contain_text('Stopped at step')
    page.fill('#code', 'a = 1\nb = a+c')
    page.click('#run')
    expect(said).to_contain_text("NameError: name 'c' is not defined", timeout=120_000)
    assert page.is_enabled('#run')

def test_contents_beside_the_page(site, browser):
    "At 1280 pixels the contents of a page stand at its right, and nothing overlaps."
    page = browser.new_page(viewport=dict(width=1280, height=900))
    page.goto(f'{site[1]}/book/masking.html')
    side,text,toc = (page.locator(s).bounding_box() for s in ('.sidebar-drawer','article','.toc-tree'))
    assert 0<=side['x'] and side['x']+side['width']<=text['x'] and text['x']+text['width']<=toc['x'] and toc['x']+toc['width']<=1280
    assert text['width']>=46*16-2 and page.locator('.toc-tree').evaluate('t => t.scrollWidth<=t.clientWidth')
    page.close()

@pytest.mark.parametrize('name', ['book/pretraining','calls/finetuning'])
def test_defaults_take_little_room(site, browser, name):
    "The column of defaults is no wider than its longest line, so that meanings are read without scrolling."
    page = browser.new_page(viewport=dict(width=1280, height=900))
    page.goto(f'{site[1]}/{name}.html')
    table = page.locator('dl.py table').first
    widths = table.evaluate("""t => { const range = document.createRange()
        return [...t.tBodies[0].rows].map(r => { range.selectNodeContents(r.cells[2]); return [range.getBoundingClientRect().width, r.cells[2].clientWidth] }) }""")
    assert max(cell for _,cell in widths)-max(text for text,_ in widths)<40
    assert table.evaluate('t => t.parentElement.scrollWidth-t.parentElement.clientWidth')<=0
    page.close()

def test_header_on_a_phone(site, browser):
    "Menu, name and switches stand beside each other with room between them, and the page begins below them."
    page = browser.new_page(viewport=dict(width=390, height=800))
    for name in ('index','book/pretraining'):
        page.goto(f'{site[1]}/{name}.html')
        parts = [page.locator(f'.mobile-header {s}').bounding_box() for s in ('.nav-overlay-icon svg','.header-center a','.theme-toggle svg:visible','.toc-overlay-icon svg')]
        assert all(a['x']+a['width']+4<=b['x'] for a,b in zip(parts, parts[1:])), (name, parts)
        header,title = page.locator('.mobile-header').bounding_box(),page.locator('h1').bounding_box()
        assert parts[-1]['x']+parts[-1]['width']<=390 and header['y']+header['height']<=title['y'], name
    page.close()

def test_code_has_no_stripes(site, browser):
    "A block of code that fits has one ground from edge to edge: no shade that says there is more."
    page = browser.new_page(viewport=dict(width=1280, height=900), color_scheme='light')
    page.goto(f'{site[1]}/howto/score.html')
    block = page.locator('div.cell_input:visible pre').first
    block.scroll_into_view_if_needed()
    shot = Image.open(BytesIO(block.screenshot())).convert('RGB')
    y = shot.height-4
    ground = shot.getpixel((shot.width//2, y))
    assert all(max(abs(a-b) for a,b in zip(shot.getpixel((x, y)), ground))<=3 for x in [*range(2, 12), *range(shot.width-12, shot.width-2)])
    page.close()
