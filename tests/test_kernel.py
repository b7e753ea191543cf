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

@pytest.mark.parametrize('cells', [(f"{lines}\nfrom electra_nb.study.statistics import plot_scores\nplot_scores(lines)",), (towers,'rec.plot_towers()')])
def test_figures_are_shown(cells):
    "A cell that ends with a figure shows a picture."
    shown = [o.data for o in outputs(*cells) if 'data' in o]
    assert any('image/png' in d for d in shown), shown

def test_interrupt_is_one_line():
    "A run that was stopped and has said so leaves no traceback in the cell, and the cells after it are not run."
    with pytest.raises(nbclient.exceptions.CellExecutionError) as e:
        outputs("from electra_nb.commands import told_interrupt\nraise told_interrupt('stopped')", "print('never')")
    assert str(e.value).endswith('\n\nstopped\n') and 'Traceback' not in str(e.value)
