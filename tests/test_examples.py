"Every script in examples/ that takes arguments starts and explains itself."
import pytest, subprocess, sys
from test_pages import root

scripts = [p for p in sorted((root/'examples').glob('*.py')) if 'argparse' in p.read_text()]

@pytest.mark.parametrize('path', scripts, ids=lambda p: p.stem)
def test_help(path):
    out = subprocess.run([sys.executable, path, '--help'], capture_output=True, text=True, timeout=120)
    assert out.returncode==0 and 'usage' in out.stdout, out.stderr
