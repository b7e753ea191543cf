"Every script in experiments/ that takes arguments starts and explains itself."
import os, re
from forked import Program
from test_pages import root

scripts = [p for p in sorted((root/'experiments').glob('*.py')) if 'argparse' in p.read_text()]
code = """
import runpy, sys
sys.path[0] = sys.argv[1]
for path in sys.argv[2:]:
    sys.argv = [path,'--help']
    try: runpy.run_path(path, run_name='__main__')
    except SystemExit as e: assert e.code==0, path
"""

def test_help():
    p = Program(code, root, dict(os.environ), [str(root/'experiments'),*map(str, scripts)])
    said,err = p.communicate()
    assert p.returncode==0 and said.count('usage')==len(scripts), err

def test_every_script_has_a_line():
    "README.md of the folder lists each script with its question, once; its links lead somewhere."
    text = (root/'experiments'/'README.md').read_text()
    listed = re.findall(r'^\| \[(\w+\.py)\]', text, re.M)
    assert sorted(listed)==sorted(p.name for p in (root/'experiments').glob('*.py'))
    assert [link for link in re.findall(r'\]\(([^)]+)\)', text) if not (root/'experiments'/link).exists()]==[]
