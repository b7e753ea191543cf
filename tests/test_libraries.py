"The libraries that the project does not need: the code of their how-tos runs, and energy is estimated, where the library is installed."
import os, subprocess, sys
from importlib.util import find_spec

import pytest
from test_pages import code_cells, pages, root

needed = {'howto/sentence_transformers':'sentence_transformers', 'howto/lora':'peft'}

@pytest.mark.parametrize('page,library', needed.items())
def test_page(page, library, tmp_path):
    "The visible cells of the page, as one script."
    if find_spec(library) is None: pytest.skip(f'{library} is not installed')
    script = tmp_path/'page.py'
    script.write_text('\n\n'.join(s for s,shown,_ in code_cells(pages[page]) if shown))
    env = {**os.environ, 'ELECTRA_NB_CACHE':str(tmp_path/'cache'), 'TQDM_DISABLE':'1', 'OMP_NUM_THREADS':'1', 'HF_HUB_OFFLINE':'1'}
    env['PYTHONPATH'] = os.pathsep.join([str(root), os.environ.get('PYTHONPATH', '')])
    done = subprocess.run([sys.executable, script.name], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode==0, done.stderr[-3000:]

energy = """
import socket
from electra_nb import pretrain
from electra_nb.core.tiny import tiny_text
from electra_nb.lab.reports.energy import Energy
def refuse(*args, **kwargs): raise OSError('no network here')
socket.create_connection = socket.getaddrinfo = socket.socket.connect = refuse
pretrain(corpus=tiny_text.split('\\n\\n'), vocab_size=300, valid=.2, bs=4, steps=20, eval_every=10, log_every=5, device='cpu', threads=1,
    out='run', cbs=[Energy()])
"""

@pytest.mark.skipif(find_spec('codecarbon') is None, reason='codecarbon is not installed')
def test_energy(tmp_path):
    "Every evaluation has its energy, report and card have the sum, nothing else is written, and no server is asked."
    from electra_nb.lab.reports.run_folder import RunFolder
    env = {**os.environ, 'ELECTRA_NB_CACHE':str(tmp_path/'cache'), 'TQDM_DISABLE':'1', 'OMP_NUM_THREADS':'1'}
    env['PYTHONPATH'] = os.pathsep.join([str(root), os.environ.get('PYTHONPATH', '')])
    done = subprocess.run([sys.executable, '-c', energy], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode==0, done.stderr[-3000:]
    run = RunFolder(tmp_path/'run')
    parts = [line['valid']['codecarbon_kwh'] for line in run.lines if line.get('valid')]
    assert len(parts)==2 and min(parts)>0 and run.energy==sum(parts)
    for page in ('report.html','README.md'): assert 'kWh (estimate by codecarbon)' in (run.path/page).read_text()
    assert sorted(p.name for p in tmp_path.iterdir())==['cache','run']
