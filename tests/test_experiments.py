"Every script in experiments/ that takes arguments starts and explains itself."
import pytest, re, subprocess, sys
from test_pages import root

scripts = [p for p in sorted((root/'experiments').glob('*.py')) if 'argparse' in p.read_text()]

@pytest.mark.parametrize('path', scripts, ids=lambda p: p.stem)
def test_help(path):
    out = subprocess.run([sys.executable, path, '--help'], capture_output=True, text=True, timeout=120)
    assert out.returncode==0 and 'usage' in out.stdout, out.stderr

def test_every_script_has_a_line():
    "README.md of the folder lists each script with its question, once; its links lead somewhere."
    text = (root/'experiments'/'README.md').read_text()
    listed = re.findall(r'^\| \[(\w+\.py)\]', text, re.M)
    assert sorted(listed)==sorted(p.name for p in (root/'experiments').glob('*.py'))
    assert [link for link in re.findall(r'\]\(([^)]+)\)', text) if not (root/'experiments'/link).exists()]==[]
