"ELECTRA in 250 lines: the file is the code of its page, runs with Python alone, learns, and has the gradients of the full code."
import ast, pytest, re, subprocess, sys

from quick import rest
from test_pages import code_cells, root

page = root/'nbs'/'explain'/'micro_electra.ipynb'
file = root/'experiments'/'micro_electra.py'
begin = '\nhistory = train(500)\n' # the line that takes a minute

def without_directives(source): return re.sub(r'^#\|.*\n', '', source, flags=re.MULTILINE)

def test_file_is_page():
    "The file is the visible code of the page; a hidden cell at its end writes it."
    shown = [without_directives(s) for s,shown,_ in code_cells(page) if shown]
    assert file.read_text()=='\n\n'.join(shown)+'\n'

def test_size():
    "At most 250 lines of code, none over 92 characters, nothing imported from outside of Python."
    lines = file.read_text().split('\n')
    assert sum(bool(l.strip()) for l in lines)<=250 and max(map(len, lines))<=92
    found = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, (ast.Import,ast.ImportFrom))]
    names = {a.name for n in found if isinstance(n, ast.Import) for a in n.names} | {n.module for n in found if isinstance(n, ast.ImportFrom)}
    assert names<=sys.stdlib_module_names

@pytest.mark.parametrize('steps', rest([100,500], 100))
def test_learns(steps, tmp_path):
    "Run by Python without any installed package, the generator learns; after all steps the discriminator is far below its floor."
    (tmp_path/'micro.py').write_text(file.read_text().replace(begin, begin.replace('500', str(steps))))
    done = subprocess.run([sys.executable, '-I', '-S', 'micro.py'], cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode==0, done.stderr
    (first,_,_),*_,(gen,disc,floor) = [[float(x) for x in re.findall(r'\d+\.\d+', l)] for l in done.stdout.splitlines() if 'floor' in l]
    if steps<500: assert gen<first-.1
    else: assert gen<first-.5 and disc<floor-3

def test_gradients():
    "The check of the page, on weights at random: losses and every gradient equal the package's."
    names = {'__name__':'micro'}
    exec(file.read_text().partition(begin)[0], names)
    hidden = [s for s,shown,_ in code_cells(page) if '#| hide' in s and not re.search(r'#\| (eval|slow)', s)]
    assert sum('assert_close' in s for s in hidden)==1
    for s in hidden: exec(s, names)
    names['disc']['verdict'][1].rows[0][0] += .01 # a bias that is not the same
    own,masks,judged = names['played'](names['rows'])
    theirs,_ = names['tower_grads'](names['rows'], masks, judged)
    assert abs(own[0]-float(theirs[0]))<1e-5 and abs(own[1]-float(theirs[1]))>1e-3
