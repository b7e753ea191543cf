"fastai's callbacks that go with a run (howto/new_callback), and the methods of its Learner on a run."
import json, re
from pathlib import Path

import fastai.callback.all as fa, pytest, torch
from fastai.interpret import Interpretation

from electra_nb.core.messages import logger
from electra_nb.core.files import read_json
from electra_nb.pretraining import pretrain
from electra_nb.core.tiny import tiny_text

supported = ('ActivationStats','CSVLogger','ChannelsLast','CollectDataCallback','EarlyStoppingCallback','SaveModelCallback','ShortEpochCallback',
    'TerminateOnNaNCallback','TrackerCallback')
texts = tiny_text.split('\n\n')
small = dict(steps=12, bs=4, max_len=32, vocab_size=300, valid=.3, eval_every=4, log_every=2, device='cpu')
make = dict(ActivationStats=lambda: fa.ActivationStats(with_hist=False), EarlyStoppingCallback=lambda: fa.EarlyStoppingCallback(patience=9),
    ShortEpochCallback=lambda: fa.ShortEpochCallback(pct=.9), CollectDataCallback=fa.CollectDataCallback)

@pytest.fixture(scope='module')
def home(tmp_path_factory): return tmp_path_factory.mktemp('runs')

@pytest.fixture(autouse=True)
def at_home(home, monkeypatch):
    monkeypatch.chdir(home)
    logger.setLevel('ERROR')
    yield
    logger.setLevel('INFO')

def train(home, name, *cbs, **kw): return pretrain('tiny', corpus=texts, out=home/name, cache=home/'cache', cbs=list(cbs), **{**small, **kw})

@pytest.fixture(scope='module')
def plain(home):
    logger.setLevel('ERROR')
    return train(home, 'plain')

@pytest.mark.parametrize('name', supported)
def test_supported(name, home, plain):
    "A run with the callback comes to its end, with the same weights as without it."
    learn = train(home, name, make.get(name, getattr(fa, name))())
    assert learn.steps.done==12 and read_json(home/name/'end.json')['why']=='finished'
    if name!='SaveModelCallback': assert all(map(torch.equal, plain.model.parameters(), learn.model.parameters()))

def test_howto():
    "The page names just these."
    page = Path(__file__).parent.parent/'nbs'/'howto'/'new_callback.ipynb'
    said, = (''.join(c['source']) for c in json.loads(page.read_text())['cells'] if 'work as they are' in ''.join(c['source']))
    assert tuple(re.findall(r'`(\w+)`', said[said.index('work as they are'):said.index('Others would')]))==supported

def test_no_callback(home):
    "What is no fastai callback is refused before any work."
    for wrong in (fa.CSVLogger,'CSVLogger'):
        with pytest.raises(ValueError, match='pass a list of fastai callbacks'): train(home, 'refused', wrong)
    assert not (home/'refused').exists()

def test_csv_logger(home, plain):
    "fastai's table has the validation loss and the metrics."
    assert len((home/'history.csv').read_text().splitlines())==4

def test_early_stop(home):
    "A run that is ended early is saved, and the same call goes on."
    learn = train(home, 'early', fa.EarlyStoppingCallback(min_delta=100, patience=1))
    assert learn.steps.done<12 and read_json(home/'early'/'end.json')['why']=='a callback ended the training'
    assert train(home, 'early').steps.done==12

def test_learner(home, plain, monkeypatch):
    "summary, plot_sched, plot_loss, show_results, lr_find and fit work on what pretrain returns."
    assert 'Total params' in str(plain.summary())
    plain.recorder.plot_sched()
    plain.recorder.plot_loss()
    with plain.no_bar(), plain.no_logging():
        plain.show_results()
        plain.lr_find(num_it=5, show_plot=False)
        plain.fit(1, 1e-4)
    assert not (home/'models').exists() or any((home/'models').iterdir())

def test_learner_refuses(plain):
    "What has no meaning for a pre-training says what to use."
    with pytest.raises(ValueError, match='open_run'): plain.export()
    with pytest.raises(ValueError, match='fill-mask'): plain.predict('The boats come back.')
    with pytest.raises(ValueError, match='show_results'): Interpretation.from_learner(plain)
    assert not plain.lock.locked() # else the next validation would wait for ever
