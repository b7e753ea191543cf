"The report of real runs: stopped by a signal, finished, and looked at in a browser. The rest is in `lab.reports.pages` and `lab.reports.study_pages`."
import re, signal, socket, time
from importlib.util import find_spec
from pathlib import Path

import pytest
from forked import Program
from test_process import env, run as run_program

chromium = Path('/usr/bin/chromium')
browser = pytest.mark.skipif(not (chromium.exists() and find_spec('playwright')), reason='no /usr/bin/chromium, or playwright is not installed')
code = """
from quick import draw
draw()
from electra_nb import pretrain
from electra_nb.core.tiny import tiny_text
pretrain(corpus=tiny_text.split('\\n\\n'), out='mine', steps=400, bs=4, max_len=32, n_layers=1, eval_every=50, log_every=5, save_every=100, eval_batches=1, device='cpu', threads=1)
"""

@pytest.fixture(scope='module')
def run(tmp_path_factory):
    "A run that was stopped, and went on."
    tmp = tmp_path_factory.mktemp('report')
    p,end = Program(code, tmp, env(tmp)),time.time()+200
    log = tmp/'mine'/'log.jsonl'
    while not (log.exists() and log.stat().st_size): assert p.poll() is None and time.time()<end, p.communicate()[0]
    p.send_signal(signal.SIGTERM)
    said = ''.join(p.communicate())
    assert p.returncode==143, said
    (tmp/'stopped.html').write_text((tmp/'mine'/'report.html').read_text())
    rc,said,err = run_program(tmp, code)
    assert rc==0 and 'report.html' in said, said+err
    return tmp/'mine'

def test_stopped(run):
    "At a stop the report says where, and how to go on."
    text = (run.parent/'stopped.html').read_text()
    assert re.search(r'Stopped \(SIGTERM\) at step \d+ of 400\. The same call goes on', text) and 'fill-mask' not in text

def test_finished(run):
    "At the end it has the verdict (so few sentences are read too often), curves, samples and how to load the model, and nothing of this machine."
    text = (run/'report.html').read_text()
    for s in ('Finished after 400 steps','Data repeats','What to do','Discriminator: loss','step 400','fill-mask'): assert s in text, s
    for s in (str(run.parent), str(Path.home())+'/', socket.gethostname()+'.'): assert s not in text, s

def test_command(run):
    "`electra_report` writes the same page again."
    before = (run/'report.html').read_text()
    (run/'report.html').unlink()
    rc,out,err = run_program(run.parent, 'from quick import draw; draw(); from electra_nb.lab.reports.study_pages import cli; cli()', str(run))
    assert rc==0 and out.strip()==str(run/'report.html'), err
    dated = lambda s: re.sub(r'electra_nb on [\d-]+', '', s)
    assert dated((run/'report.html').read_text())==dated(before)

@browser
@pytest.mark.parametrize('width', [1280,390])
def test_browser(run, width):
    "Opened from the disk: no scrolling to the side, nothing asked for, no complaint, and other colours in the dark."
    from playwright.sync_api import sync_playwright
    with sync_playwright() as play:
        b = play.chromium.launch(executable_path=str(chromium), args=['--no-sandbox'])
        seen,colours = [],set()
        for scheme in ('light','dark'):
            page = b.new_page(viewport=dict(width=width, height=900), color_scheme=scheme)
            page.on('console', lambda m: seen.append(m.text))
            page.on('request', lambda r: seen.append(r.url) if not r.url.startswith('file:') else None)
            page.goto((run/'report.html').as_uri())
            assert page.evaluate('document.documentElement.scrollWidth')<=width
            assert page.evaluate("document.querySelectorAll('figure svg path').length")>50
            colours.add(page.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill+getComputedStyle(document.body).backgroundColor"))
        b.close()
    assert seen==[] and len(colours)==2
