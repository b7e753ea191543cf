"What an editor and `import *` see of the package, without running it."
import ast, gc, subprocess, sys
from pathlib import Path

import pytest

import electra_nb

def test_star():
    "`from electra_nb import *` brings the public functions, and `__all__` and the stub name what the lazy imports know."
    assert sorted(electra_nb.__all__)==sorted(electra_nb._where)
    stub = ast.parse((Path(electra_nb.__file__).with_suffix('.pyi')).read_text())
    named = {a.name:o.module for o in stub.body if isinstance(o, ast.ImportFrom) for a in o.names}
    assert named==electra_nb._where
    code = "from electra_nb import *; import gc; print(pretrain.__name__, Study.__name__, open_run.__name__, gc.get_freeze_count()>100_000)"
    p = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert p.stdout.split()==['pretrain','Study','open_run','True'] and 'leaked' not in p.stderr, p.stderr # what imports make is left alone

def test_garbage():
    "Garbage is collected again after an import, one that fails too, and not where it was not before. What may be a user's is not set aside from it."
    frozen = gc.get_freeze_count()
    with pytest.raises(ModuleNotFoundError): electra_nb._load('nothing')
    assert gc.isenabled()
    gc.disable()
    try:
        electra_nb._load('scoring')
        assert not gc.isenabled()
    finally: gc.enable()
    assert 'torch' in sys.modules and gc.get_freeze_count()==frozen

@pytest.mark.parametrize('name,first', [('pretrain','size'),('open_run','run'),('finetune','model'),('plan','size'),('diagnose','run'),('report','folder')])
def test_signatures(name, first):
    "An editor that reads the source shows the parameters of each function."
    jedi = pytest.importorskip('jedi')
    found = jedi.Script(f'from electra_nb import {name}\n{name}(').get_signatures()
    assert [p.name for p in found[0].params][:1]==[first]
