"Settings of Sphinx for the site; `build.py` writes the pages that it reads."
from configparser import ConfigParser
from docutils.nodes import SkipNode, block_quote, bullet_list, list_item
from html import escape, unescape
from latex2mathml.converter import convert
from pathlib import Path
from sphinx.addnodes import toctree

ini = ConfigParser(delimiters=['='])
ini.read(Path(__file__).parent.parent/'settings.ini', encoding='utf-8')
cfg = ini['DEFAULT']
project,author,version = cfg['title'],cfg['author'],cfg['version']
copyright = cfg['copyright']
extensions = ['myst_nb','sphinx_copybutton']

# Notebooks are shown as they are stored
nb_execution_mode = 'off'
nb_merge_streams = True
nb_render_markdown_format = 'myst'
nb_code_prompt_show = 'Source'
nb_code_prompt_hide = 'Source'
myst_enable_extensions = ['dollarmath','colon_fence']
myst_heading_anchors = 3

# Names: links must lead somewhere
nitpicky,smartquotes = True,False
add_module_names = False
toc_object_entries_show_parents = 'hide'

html_theme = 'furo'
html_title = cfg['title']
html_static_path = ['static']
html_css_files = ['site.css']
html_js_files = [('site.js', dict(defer='defer'))]
html_favicon = 'static/icon.svg'
html_copy_source = html_show_sphinx = False
html_search_scorer = str(Path(__file__).parent.parent/'build'/'pages'/'scorer.js') # `pages.py` writes it
html_math_renderer = 'mathml'
templates_path = ['templates'] # a link to the repository in place of furo's "View this page", if settings.ini names one
html_theme_options = dict(top_of_page_buttons=['view'], source_view_link=cfg['git_url']) if cfg['git_url'] else dict(top_of_page_buttons=[])
pygments_style,pygments_dark_style = 'friendly','github-dark'
copybutton_selector = 'div.cell_input pre, div.highlight:not(.cell_output *) pre'

def math(display):
    def visit(self, node):
        self.body.append(convert(node.astext(), display=display))
        raise SkipNode
    return visit

def describe(app, pagename, templatename, context, doctree):
    "What a page says of itself to search engines, and to programs that show a link as a card: its title, its summary, a picture."
    summary = next((q.astext() for q in doctree.findall(block_quote)), cfg['description']) if doctree else cfg['description']
    site = cfg['doc_host'].rstrip('/')+cfg['doc_baseurl'].rstrip('/')+'/' if cfg['doc_host'] else context['pathto']('', 1)
    about = {'og:title':context.get('title') or project, 'og:description':summary, 'og:type':'article', 'og:site_name':project, 'og:image':f'{site}_static/card.png'}
    tags = [f'<meta name="description" content="{escape(summary)}">', *(f'<meta property="{k}" content="{escape(unescape(v))}">' for k,v in about.items())]
    context['metatags'] = context.get('metatags', '')+'\n'.join(tags)

def titles(toc):
    "The contents of a page without its own headings: the title, and what is listed under it."
    toc = toc.deepcopy()
    for kind in (list_item,bullet_list):
        for node in [*toc.findall(kind)][1:]:
            if not any(node.findall(toctree)): node.parent.remove(node)
    return toc

def light_sidebar(app, pagename, templatename, context, doctree):
    "Sphinx copies the headings of all pages for the sidebar of each, which shows titles: half of the time of a build."
    env,whole = app.env,context['toctree']
    if not hasattr(app, 'titles'): app.titles = {name:titles(toc) for name,toc in env.tocs.items()}
    def of_titles(**kw):
        kept,env.tocs = env.tocs,app.titles
        try: return whole(**kw)
        finally: env.tocs = kept
    context['toctree'] = of_titles

def setup(app):
    "Formulas are MathML: browsers draw it without a script."
    app.connect('html-page-context', light_sidebar, priority=100) # before furo asks for it
    app.connect('html-page-context', describe)
    app.add_html_math_renderer('mathml', (math('inline'), None), (math('block'), None))
