"The libraries that the project does not need: the code of their how-tos runs, where the library is installed."
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
