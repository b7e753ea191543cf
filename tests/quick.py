"What makes `pytest` quick: it asks each thing once, and leaves further combinations, long runs and kills at many moments to `pytest -m slow`; and short runs draw no pictures."
import pytest
from contextlib import contextmanager

def rest(values, *kept):
    "The values of a parameter; all but the kept ones are slow."
    values = list(values)
    assert all(k in values for k in kept), kept
    return [v if v in kept else pytest.param(v, marks=pytest.mark.slow) for v in values]

def draw(yes=True):
    "Whether runs and studies draw their curves, which takes longer than a short run itself."
    from electra_nb.lab.reports import elements, pages, study_pages
    from electra_nb.training import log, loop
    loop.save_curves = log.save_curves if yes else lambda run: None
    for m in (pages,study_pages): m.svg = elements.svg if yes else lambda draw, name: ''

@contextmanager
def pictures():
    "Runs within it draw their curves."
    draw()
    try: yield
    finally: draw(False)
