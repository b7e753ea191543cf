"The options of a function whose signature is made of dataclasses of settings: the common ones at once, the others folded, in the groups of its command."
import re, sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent)) # the package of this folder, installed or not
from electra_nb import _where
from electra_nb.commands import stored_help

common = dict( # function -> what most people change, in this order; a function that is not here shows its own parameters
    pretrain=('size','corpus','out','tokenizer','objective','steps','hours','bs','lr','max_len','vocab_size'),
    finetune=('model','tasks','data','dev','label','runs','out','epochs','lr','bs','max_len'))

public = { # name -> module: what readers look for on its page, and find at its top
    **_where, 'bench':'lab.bench.measure', 'environment':'lab.reports.environment', 'verify':'lab.tf1.verify', # these three have a command
    'get_corpus':'text.corpus', 'get_tokenizer':'text.prepare', 'prepare':'text.prepare', 'build_examples':'text.examples',
    'get_models':'model.towers', 'train':'training.loop', 'pretrain_learner':'training.loop', 'load_task':'glue.loading',
    'own_data':'lab.own_data.data', 'task_learner':'glue.learner', 'summarize':'lab.study.statistics', 'mean_test':'lab.study.statistics'}

def options(
    function:str, # that has a command
) -> list: # rows of `commands.described`
    "The options of the function's command."
    return stored_help()[f'electra_{function}']['options']

def groups(
    rows:list, # of `options`
) -> dict: # heading -> rows as of `pages.parameters`
    "The options by the dataclass that declares them; a value for a size stands at the end of the comment, in brackets."
    out = {}
    for heading,name,kind,text in rows:
        if heading=='run': continue
        meaning,default = re.fullmatch(r'(.*?)(?: \[((?:default|small): .*)\])?', text).groups()
        out.setdefault(heading, []).append((name, kind, (default or '').removeprefix('default: '), meaning))
    return out

def folded(
    name:str, # of the function
    own:list, # its rows, as of `pages.parameters`; the last one is what comes back
    more:list, # of `options`
) -> tuple: # rows to show, heading -> rows to fold
    "Sort parameters and options into those that are seen at once and those that are folded."
    *given,result = [r for r in own if r[0] not in ('*','**options')]
    parts = {'the call':given, **groups(more)}
    rows = {r[0]:r for r in [r for part in parts.values() for r in part]+given} # the function's own words win
    shown = common.get(name, [r[0] for r in given])
    rest = {title:[rows[n] for n,*_ in part if n not in shown] for title,part in parts.items()}
    return [*(rows[n] for n in shown), result], {title:part for title,part in rest.items() if part}

def fold(
    title:str, # such as 'masking (objectives.masking)'
    rows:list, # of `folded`
    table:str, # Markdown
    links, # turns names in backticks into links
) -> str: # Markdown: shown by the browser itself, without a script
    "A group of options, folded under its heading and their names."
    heading,_,module = title.removesuffix(')').partition(' (')
    names = ', '.join(f'`{n}`' for n,*_ in rows)
    source = f'Declared and explained in `{module}`.\n\n' if module else ''
    return f'::::{{admonition}} {heading.capitalize()}: {names}\n:collapsible: closed\n:class: options\n\n{links(source+table)}\n::::'
