"Methods without an encoder: the contract of their table, the rows that they get, and what a study makes of them."
import inspect, json, subprocess, sys

import numpy as np, pytest

from electra_nb.finetuning import finetune
from electra_nb.glue.kinds import kind_of
from electra_nb.lab.kinds import kinds
from electra_nb.lab.own_data.data import own_data
from electra_nb.lab.own_data.builtin import word_order_task
from electra_nb.lab.rivals.beside import Rival, rival_line, rivals
from electra_nb.lab.tags.clusters import RunText, word_clusters
from electra_nb.lab.study.folder import read_predictions
from electra_nb.model.hf import save_models
from electra_nb.model.towers import get_models, sizes
from electra_nb.text.tokenizer import tiny_tokenizer

texts = dict(text=[f'a {a} fish from {b} {i}' for i in range(3) for b in 'abcdefghij' for a in ('good','bad')], mood=['glad','sad']*30)
words = [[n,'sees',m,'.'] for n in ('Ann','Bob','Eve','Dan','Flo') for m in ('fish','dogs','Max','Kim')]
people = dict(words=words, tags=[['B-PER','O','O' if ws[2].islower() else 'B-PER','O'] for ws in words])
examples = dict(classify=texts, tag=people)

@pytest.mark.parametrize('name', kinds)
def test_contract(name, tmp_path):
    "A kind names rivals of the table, and each trains on its rows and answers in the form of the kind."
    named = kinds[name].rivals
    assert isinstance(named, tuple) and {*named}<={*rivals}
    if not named: return
    data = own_data(examples[name], name='mine', valid=.3)
    kind,dev = kind_of(data.task),data.splits['dev']
    rows = [['ann','sees','max','.'],['a','good','fish','from','bed']]*5
    text = RunText('a made-up run')
    text.clusters,text.sentences = (lambda tagged: word_clusters(rows+tagged)),(lambda: rows)
    for n in (*named,*(['n-grams'] if name=='classify' else [])):
        r = rivals[n]
        assert isinstance(r, Rival) and isinstance(r.guess, bool) and 0<=r.seconds(data.splits['train'])<60
        inspect.signature(r.fit).bind(kind, data.splits['train'], text)
        answers = r.fit(kind, data.splits['train'], text)(dev)
        assert len(answers)==len(dev) and set(kind.score(dev, kind.to_labels(answers)))=={*data.task.metrics}

def test_every_rival_is_named():
    "No row of the table is without a kind, or a task, that uses it."
    docs = ['\n'.join(f'The boats in this {a} harbour come back with {b} fish every morning.' for b in 'some many few no'.split()) for a in 'old new big small dark long wide calm loud far near cold warm'.split()]
    assert {n for kind in kinds.values() for n in kind.rivals}|{*word_order_task(docs).task.rivals}=={*rivals}

def test_nothing_heavy_at_import():
    "The package of rivals loads CRFsuite and scikit-learn's texts and models only where they are used."
    code = "import sys, electra_nb.lab.rivals.tfidf, electra_nb.lab.rivals.taggers, electra_nb.lab.tags.crf; print([m for m in ('pycrfsuite','sklearn.feature_extraction.text','sklearn.linear_model','sklearn.cluster') if m in sys.modules])"
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert done.returncode==0 and done.stdout.strip()=='[]', done.stdout+done.stderr

def test_study(tmp_path, monkeypatch):
    "Rivals answer the rows that the encoder answers; they stand in table, report and card, and are not computed twice."
    monkeypatch.chdir(tmp_path)
    tok = tiny_tokenizer()
    save_models(*get_models(sizes['tiny'], len(tok)), 'mine', tok)
    def call(**kw): return finetune('mine', data=texts, test=dict(text=texts['text'][:10], mood=texts['mood'][:10]), name='moods', valid=.3, runs=2, epochs=1, device='cpu', out='study', **kw)
    assert call().rivals==[] # off for rows of one's own
    study = call(rivals=True)
    first = (tmp_path/'study/rivals.jsonl').read_text()
    lines = {r['rival']:r for r in map(json.loads, first.splitlines())}
    assert [*lines]==['majority','tf-idf']
    for line in lines.values():
        for run in study.lines: assert [line[k] for k in ('rows','dev_rows','extra_rows','metric')]==[run[k] for k in ('rows','dev_rows','extra_rows','metric')]
    for split in ('dev','test'): # row by row the labels of the encoder's rows
        true = [read_predictions(tmp_path/f'study/predictions/moods-{start}-seed0-{split}.tsv')[0] for start in ('pretrained','tf-idf')]
        assert np.array_equal(*true) and len(true[0])==len(study.data['moods'].splits[split])
    ledger = tmp_path/'study/results.jsonl' # two steps from random values may give one answer for all: that is not the point here
    ledger.write_text(ledger.read_text().replace('"failure": "constant"', '"failure": ""'))
    table = study.compare()
    assert [*table.against]==['majority','tf-idf'] and table.mean_b[1]==pytest.approx(lines['tf-idf']['score'], abs=1e-3)
    assert [*study.compare(split='test').against]==['majority','tf-idf']
    assert '<td>tf-idf</td>' in (tmp_path/'study/report.html').read_text()
    call(rivals=True)
    assert (tmp_path/'study/rivals.jsonl').read_text()==first
    fresh = finetune('mine', data=texts, name='moods', valid=.3, runs=1, epochs=1, device='cpu', out='fresh', rivals=True)
    assert f"tf-idf {fresh.rivals[1]['score']:.2f}" in (fresh.models()[0]/'README.md').read_text()
    with pytest.raises(ValueError, match="rivals='tf-idf' must be True or False"): call(rivals='tf-idf')

def test_seeds_of_the_encoder_count():
    "Beside a rival, which has one run, the interval allows for the seeds of the encoder: it is wider where they differ more."
    from electra_nb.lab.study.statistics import Sample, mean_test
    rng = np.random.default_rng(0)
    def interval(sd):
        scores = 70+sd*np.array([-1.,-.5,0.,.5,1.])
        left_out = scores+rng.normal(0, .05, (100,1))
        rival = Sample(np.full(5, 60.), np.full((100,5), 60.)+rng.normal(0, .05, (100,1)))
        t = mean_test(Sample(scores, left_out), rival)
        assert t['covers']=='rows and seeds'
        return t['high']-t['low']
    assert interval(4.)>interval(.5)

def test_command_has_it():
    "`electra_finetune --help` says what the option does."
    done = subprocess.run([sys.executable, '-m', 'electra_nb.finetuning', '--help'], capture_output=True, text=True)
    assert '--rivals' in done.stdout and 'lab.rivals' in ' '.join(done.stdout.split())

def test_crf_suite():
    "The same tags as sklearn-crfsuite, where that is installed, with the same features and settings."
    other = pytest.importorskip('sklearn_crfsuite')
    from electra_nb.lab.tags.crf import crf_tagger, settings, word_features
    rng = np.random.default_rng(1)
    made = [rng.choice(list('abcAB'), 5).tolist() for _ in range(60)]
    tags = [[w.lower() if i%2 else 'x' for i,w in enumerate(s)] for s in made]
    feats = [*map(word_features, made)]
    theirs = other.CRF(c1=settings['c1'], c2=settings['c2'], max_iterations=settings['max_iterations']).fit(feats[:40], tags[:40])
    ours = crf_tagger(feats[:40], tags[:40])
    assert [ours.tag(f) for f in feats[40:]]==[list(t) for t in theirs.predict(feats[40:])]
