"Notebooks as people use them: a fresh kernel, in which nothing has chosen a plotting backend."
import pytest

nbclient,nbformat = pytest.importorskip('nbclient'),pytest.importorskip('nbformat')

def outputs(*cells):
    "What the last cell shows, in a kernel of its own."
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nbclient.NotebookClient(nb, timeout=300, kernel_name='python3').execute()
    return nb.cells[-1].outputs

lines = "lines = [dict(model='m', start=s, task='rte', metric='accuracy', score=50.+i, failure='', guess=50., seed=i) for s in ('pretrained','random') for i in range(3)]"
towers = '''from types import SimpleNamespace
from fastai.learner import Recorder
import electra_nb.training.log
rec = Recorder()
rec.learn = SimpleNamespace(tower_losses=[(10,dict(gen_loss=8.)),(20,dict(gen_loss=7.))])'''

@pytest.mark.parametrize('cells', [(f"{lines}\nfrom electra_nb.lab.study.statistics import plot_scores\nplot_scores(lines)",), (towers,'rec.plot_towers()')])
def test_figures_are_shown(cells):
    "A cell that ends with a figure shows a picture."
    shown = [o.data for o in outputs(*cells) if 'data' in o]
    assert any('image/png' in d for d in shown), shown

run = """from electra_nb import pretrain
from electra_nb.core.tiny import tiny_text
settings = dict(corpus=tiny_text.split('\\n\\n'), vocab_size=300, valid=.2, bs=4, steps=20, eval_every=5, log_every=5, device='cpu', threads=1)"""

@pytest.mark.parametrize('off', [False,True])
def test_live_view(off, tmp_path, monkeypatch):
    "A run has one table in its cell, with a row for each evaluation in the end, and the lines beside it; none where bars are off."
    monkeypatch.setenv('ELECTRA_NB_CACHE', str(tmp_path))
    monkeypatch.setenv('TQDM_DISABLE', '1' if off else '')
    shown = outputs(run, f"_ = pretrain(**settings, out='{tmp_path}/run')")
    tables = [o.data['text/html'] for o in shown if '<th>step</th>' in o.get('data', {}).get('text/html', '')]
    assert [(t.count('<tr'),t.count('<img')) for t in tables]==([] if off else [(5,1)])
    assert '20/20 ' in ''.join(o.get('text', '') for o in shown)

def test_interrupt_is_one_line():
    "A run that was stopped and has said so leaves no traceback in the cell, and the cells after it are not run."
    with pytest.raises(nbclient.exceptions.CellExecutionError) as e:
        outputs("from electra_nb.core.messages import told_interrupt\nraise told_interrupt()", "print('never')")
    assert str(e.value).endswith('\n\nstopped\n') and 'Traceback' not in str(e.value)
