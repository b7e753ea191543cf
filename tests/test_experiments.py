"Every script in experiments/ that takes arguments starts and explains itself."
import os, pytest, re
from forked import Program
from test_pages import root

scripts = [p for p in sorted((root/'experiments').glob('*.py')) if 'argparse' in p.read_text()]
code = "import os, runpy, sys; path = sys.argv.pop(1); sys.argv[0] = path; sys.path[0] = os.path.dirname(path); runpy.run_path(path, run_name='__main__')"

@pytest.mark.parametrize('path', scripts, ids=lambda p: p.stem)
def test_help(path):
    p = Program(code, root, dict(os.environ), [str(path),'--help'])
    said,err = p.communicate(120)
    assert p.returncode==0 and 'usage' in said, err

def test_every_script_has_a_line():
    "README.md of the folder lists each script with its question, once; its links lead somewhere."
    text = (root/'experiments'/'README.md').read_text()
    listed = re.findall(r'^\| \[(\w+\.py)\]', text, re.M)
    assert sorted(listed)==sorted(p.name for p in (root/'experiments').glob('*.py'))
    assert [link for link in re.findall(r'\]\(([^)]+)\)', text) if not (root/'experiments'/link).exists()]==[]
