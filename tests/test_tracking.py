"Real trackers: one run is logged, and the dashboards on this machine show its curve. The rest is in `lab.reports.tracking`."
import io, json, os, re, signal, sqlite3, subprocess, sys, time
from importlib.util import find_spec
from pathlib import Path

import numpy as np, psutil, pytest, torch
from PIL import Image
from electra_nb import finetune
from electra_nb.model.hf import save_models
from electra_nb.model.towers import get_models, sizes
from electra_nb.text.tokenizer import tiny_tokenizer
from forked import Program

here = [t for t in ('tensorboard','trackio') if find_spec(t)]
chromium = Path('/usr/bin/chromium')
code = """
import sys
from electra_nb import pretrain
from electra_nb.core.tiny import tiny_text
shape = dict(bs=4, max_len=32, n_layers=1, eval_every=10, log_every=2, save_every=5, device='cpu', threads=1)
pretrain(corpus=tiny_text.split('\\n\\n'), out='mine', steps=20, log_with=sys.argv[1] or None, **shape)
"""

def need(tracker): return pytest.mark.skipif(tracker not in here, reason=f'{tracker} is not installed: pip install electra_nb[{tracker}]')
browser = pytest.mark.skipif(not (chromium.exists() and find_spec('playwright')), reason='no /usr/bin/chromium, or playwright is not installed')

def env(tmp, **kw):
    off = dict(CUDA_VISIBLE_DEVICES='', OMP_NUM_THREADS='1', HF_HUB_OFFLINE='1')
    return {**os.environ, 'ELECTRA_NB_CACHE':str(tmp/'cache'), 'HF_HOME':str(tmp/'hf'), **off, **kw}

@pytest.fixture(scope='module')
def run(tmp_path_factory):
    "A run with every tracker that is installed."
    tmp = tmp_path_factory.mktemp('tracking')
    p = Program(code, tmp, env(tmp), [','.join(here)])
    assert p.wait()==0 and 'has failed' not in p.communicate()[0], p.communicate()
    return tmp/'mine'

def log(run): return [json.loads(l) for l in (run/'log.jsonl').read_text().splitlines()]
def steps(run): return [l['step'] for l in log(run) if 'loss' in l]

def coloured(png):
    "Share of the columns of a picture that have a pixel that is not grey: a curve goes through nearly all of them, axes and grid have none."
    rgb = np.asarray(Image.open(io.BytesIO(png)).convert('RGB')).astype(int)
    return (np.ptp(rgb, axis=2)>20).any(0).mean()

def look(command, run, ready, chart, **kw):
    "Start a dashboard and wait for a curve in its first chart; it may listen on this machine alone and load nothing from another."
    p = subprocess.Popen(command, cwd=run, env=env(run, PYTHONUNBUFFERED='1', **kw), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    from playwright.sync_api import sync_playwright
    try:
        url = next(m[1] for m in (re.search(ready, l) for l in p.stdout) if m)
        ours = [psutil.Process(p.pid), *psutil.Process(p.pid).children(recursive=True)]
        listening = {c.laddr.ip for q in ours for c in q.net_connections('inet') if c.status==psutil.CONN_LISTEN}
        assert listening and listening<={'127.0.0.1','::1'}
        with sync_playwright() as play:
            b = play.chromium.launch(executable_path=str(chromium), args=['--no-sandbox'])
            page,hosts = b.new_page(viewport=dict(width=1280, height=900)),set()
            page.on('request', lambda r: hosts.add(r.url.split('/')[2].split(':')[0]) if r.url.startswith('http') else None)
            page.goto(url)
            canvas,end = page.locator(chart).first,time.time()+40
            canvas.wait_for(timeout=40_000)
            while coloured(canvas.screenshot())<.6: assert time.time()<end, 'no curve'
            text = page.inner_text('body')
            b.close()
        assert hosts<={'127.0.0.1','localhost'}
        return text
    finally:
        os.killpg(p.pid, signal.SIGTERM)
        p.wait(20)

@need('tensorboard')
def test_tensorboard(run):
    "The event file has the steps of the log, each once."
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(str(run/'tracking'/'tensorboard'/'electra_nb'))
    events.Reload()
    assert [e.step for e in events.Scalars('train/disc_loss')]==steps(run)==list(range(2, 21, 2))
    assert [e.step for e in events.Scalars('valid/disc_auc')]==[10,20]

@need('tensorboard')
@browser
def test_tensorboard_dashboard(run):
    "TensorBoard draws the curve of the discriminator's loss."
    command = [sys.executable, '-m', 'tensorboard.main', '--logdir', 'tracking', '--host', '127.0.0.1', '--port', '0']
    assert '/disc_loss' in look(command, run, r'(http://127\S+)', 'line-chart canvas')

@need('trackio')
@browser
def test_trackio_dashboard(run):
    "Trackio draws it too, and has the constants of the run."
    show = "import trackio; trackio.show('electra_nb', open_browser=False, block_thread=True, host='127.0.0.1', share=False)"
    assert 'disc_loss' in look([sys.executable, '-c', show], run, r'launched at: (http://127[^\s\x1b]+)', 'canvas', TRACKIO_DIR=str(run/'tracking'/'trackio'))
    db = sqlite3.connect(run/'tracking'/'trackio'/'electra_nb.db')
    rows = [(step,json.loads(values)) for step,values in db.execute('select step, metrics from metrics')]
    assert [step for step,values in rows if 'train/loss' in values]==steps(run)
    assert '"mask_prob":0.15' in str(db.execute('select config from configs').fetchall())

def test_log_is_the_same(run, tmp_path):
    "With trackers or without, the log has the same numbers."
    p = Program(code, tmp_path, env(tmp_path), [''])
    assert p.wait()==0, p.communicate()
    timeless = lambda run: [{k:v for k,v in l.items() if k not in ('tokens_per_s','seconds')} for l in log(run)]
    assert timeless(run)==timeless(tmp_path/'mine') and not (tmp_path/'mine'/'tracking').exists()

# -- Fine-tuning

@need('tensorboard')
def test_finetuning(tmp_path, monkeypatch):
    "Each run of a study has its curve and its scores in the tracker, and the scores are those of a study that nobody watches."
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    monkeypatch.setenv('ELECTRA_NB_CACHE', str(tmp_path/'cache'))
    torch.manual_seed(0)
    tok = tiny_tokenizer()
    save_models(*get_models(sizes['tiny'], len(tok)), tmp_path/'mine', tok)
    (tmp_path/'rows.csv').write_text('text,label\n'+''.join(f'the {w} {i},{w}\n' for i in range(60) for w in ('fish','bread')))
    ask = dict(data=str(tmp_path/'rows.csv'), runs=2, epochs=3, rivals=False, device='cpu')
    for out,tracker in dict(plain=None, watched='tensorboard').items(): finetune(str(tmp_path/'mine'/'discriminator'), **ask, out=str(tmp_path/out), log_with=tracker)
    scores = [[l['scores']['dev']['accuracy'] for l in map(json.loads, (tmp_path/out/'results.jsonl').read_text().splitlines())] for out in ('plain','watched')]
    assert scores[0]==scores[1] and not (tmp_path/'plain'/'tracking').exists()
    for seed,score in enumerate(scores[1]):
        found = EventAccumulator(str(tmp_path/'watched'/'tracking'/f'rows-pretrained-seed{seed}'/'tracking'/'tensorboard'/'electra_nb'))
        found.Reload()
        losses = found.Scalars('train/loss')
        assert [e.step for e in losses]==[*range(1, len(losses)+1)] and len(losses)>5 and losses[-1].value<losses[0].value
        assert found.Scalars('valid/accuracy')[-1].value==pytest.approx(score)
    with pytest.raises(ValueError, match='is no tracker'): finetune(str(tmp_path/'mine'/'discriminator'), **ask, log_with='tensorbord')
