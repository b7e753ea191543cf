"Exports on other families and kinds, awkward texts in JavaScript, and the page in a browser, offline."
import json, shutil, subprocess, threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np, pytest, torch
from electra_nb import export, finetune, pretrain, score
from electra_nb.core.tiny import tiny_text
from electra_nb.lab.export.onnx import folder_use, held_out_texts, to_onnx
from electra_nb.lab.export.page import node_scores, packages, runtime_folder, score_gap, to_page
from electra_nb.lab.export.vectors import write_modules
from electra_nb.lab.scoring.towers import load_scorer
from electra_nb.lab.scoring.words import score_texts
from electra_nb.model.hf import quiet_hf
from electra_nb.text.tokenizer import tiny_tokenizer
from playwright.sync_api import sync_playwright
from quick import rest
from transformers import BertConfig, BertForSequenceClassification, BertForTokenClassification, BertModel

root = Path(__file__).parent.parent
chromium = next(filter(None, map(shutil.which, ('chromium','chromium-browser','google-chrome','chrome'))), None)
docs = [f'{part} {i}' for i in range(60) for part in tiny_text.split('\n\n')]
options = dict(corpus=docs, vocab_size=400, probe=False, device='cpu')
awkward = ['', ' ', 'é à ü İstanbul ŐŰ', 'a\u200bb c\u00ads', '[MASK] is [CLS] here', '日本語 test 中文。', 'emoji 👩‍👩‍👧 ok 😀!', 'x'*300+' y', 'long '*400,
    "don't “quote” – 3.5% $5 a_b", 'tab\tand\nnewline', '１２３ ﬁ ﬂ', 'नमस्ते दुनिया', 'שָׁלוֹם عَرَبِيّ', '한국어 텍스트', 'ab '*61+'c', 'ab '*62+'c']

@pytest.fixture(scope='module')
def runtime():
    "The files from npm, fetched once."
    if shutil.which('npm') is None: pytest.skip('npm is not installed: it fetches what runs in a browser')
    try: return runtime_folder()
    except ValueError as e: pytest.skip(f'npm cannot fetch {packages[0].name} here: {e}')

@pytest.fixture(scope='module')
def run(tmp_path_factory):
    "A run that has learned something."
    out = tmp_path_factory.mktemp('export')/'mine'
    pretrain(steps=60, eval_every=60, lr=2e-3, warmup=10, out=str(out), **options)
    return out

@pytest.fixture(scope='module')
def page(run, runtime, tmp_path_factory): return to_page(dict(mine=str(run)), tmp_path_factory.mktemp('page')/'page')

# -- Other families and kinds

@pytest.mark.parametrize('family', ['bert','albert','modern'])
def test_families(family, tmp_path):
    "Whatever numbers a discriminator gives, one or two a token, the file gives one that means the same."
    pretrain(steps=1, eval_every=1, family=family, max_len=32, out=str(tmp_path/'run'), **options)
    done = export(str(tmp_path/'run'))
    assert done.gap<=1e-5
    scorer = load_scorer(str(tmp_path/'run'), device='cpu')
    text = 'the boats come back'
    want = [[w.error_prob for w in t.words] for t in score_texts(scorer, [text])]
    session = __import__('onnxruntime').InferenceSession(str(done.folder/'onnx'/'model.onnx'))
    ids = scorer.tok(text, return_tensors='np')
    found, = session.run(None, {i.name:ids.get(i.name, np.zeros_like(ids['input_ids'])) for i in session.get_inputs()})
    assert abs(torch.tensor(found[0,1:-1]).sigmoid().max()-max(want[0]))<1e-5

def test_models_of_others(tmp_path):
    "A model that another program fine-tuned is exported with its head, in single precision, and is never taken for a discriminator; a folder for sentence-transformers goes to the hub."
    torch.manual_seed(42)
    cfg = BertConfig(vocab_size=len(tiny_tokenizer()), hidden_size=32, intermediate_size=40, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=64)
    def save(model, name):
        with quiet_hf(): model.save_pretrained(tmp_path/name)
        tiny_tokenizer().save_pretrained(tmp_path/name)
        return str(tmp_path/name)
    moods = save(BertForSequenceClassification(cfg).bfloat16(), 'moods')
    tagger = save(BertForTokenClassification(BertConfig(**cfg.to_diff_dict()|dict(id2label={0:'O', 1:'END'}))), 'tagger')
    assert [folder_use(Path(f)) for f in (moods,tagger)]==['classify','tag']
    for folder in (moods,tagger):
        with pytest.raises(ValueError, match='an encoder without a head of pre-training'): score(folder, ['A text.'])
    done = export(moods)
    session = __import__('onnxruntime').InferenceSession(str(done.folder/'onnx'/'model.onnx'))
    assert done.gap<=1e-5 and [(o.name, len(o.shape)) for o in session.get_outputs()]==[('logits',2)]
    vectors = save(BertModel(cfg).bfloat16(), 'vectors')
    write_modules(Path(vectors), 32, 'mean', 64)
    sent = export(vectors, 'hub', 'me/mine', dry_run=True)
    assert Path('1_Pooling/config.json') in sent.files and sent.gap<=1e-5
    with pytest.raises(ValueError, match='has no model.safetensors'): export(str(done.folder), 'hub', 'me/mine', dry_run=True)

def tags(path):
    path.write_text(''.join(f'The O\nboats B\ncome{i} O\n\n' for i in range(40)))
    return str(path)

def test_tags(run, tmp_path):
    "A plain head leaves; a wide one is refused with the setting that avoids it. What needs a run says of a study which one."
    for head in ('linear','wide'): finetune(str(run), data=tags(tmp_path/'tags.txt'), tag_head=head, epochs=1, rivals=False, device='cpu', out=str(tmp_path/head))
    done = export(str(tmp_path/'linear'))
    assert done.gap<=1e-5 and done.int8_gap<.05
    with pytest.raises(ValueError, match="tag_head='linear'"): export(str(tmp_path/'wide'))
    assert not (tmp_path/'wide-onnx').exists()
    for of_a_run in (lambda study: export(study, 'page'),lambda study: score(study, ['a text'])):
        with pytest.raises(ValueError, match="the Hugging Face folder that it was made from, 'mine'"): of_a_run(str(tmp_path/'wide'))

def test_answers(run, tmp_path):
    "Both ends of an answer are outputs."
    rows = [dict(id=str(i), question='What comes back?', context=f'The boats come back at {i}.', answers=dict(text=['The boats'], answer_start=[0])) for i in range(24)]
    (tmp_path/'qa.jsonl').write_text('\n'.join(map(json.dumps, rows)))
    finetune(str(run), data=str(tmp_path/'qa.jsonl'), head='plain', epochs=1, device='cpu', out=str(tmp_path/'qa'))
    done = export(str(tmp_path/'qa'))
    assert done.gap<=1e-5
    session = __import__('onnxruntime').InferenceSession(str(done.folder/'onnx'/'model_int8.onnx'))
    assert [o.name for o in session.get_outputs()]==['start_logits','end_logits']

def test_vectors(run, tmp_path):
    "The folder opens in a process without this package, cut to its layers."
    with pytest.raises(ValueError, match='texts= takes a file of 80'): export(str(run), 'sentence-transformers')
    (tmp_path/'lines.txt').write_text('\n'.join(f'The boats of {i} come back. ' for i in range(100)))
    done = export(str(run), 'sentence-transformers', str(tmp_path/'vectors'), texts=str(tmp_path/'lines.txt'))
    layers = json.loads((done.folder/'config.json').read_text())['num_hidden_layers']
    assert done.gap<1e-5 and layers==done.choice.layers and done.choice.n_pairs>=20

# -- JavaScript

@pytest.mark.parametrize('kind', rest(['wordpiece','unigram','bpe'], 'wordpiece', 'unigram'))
def test_words_in_javascript(kind, runtime, tmp_path):
    "Every kind of tokenizer: the same words, in windows too, and the same probabilities."
    pretrain(steps=1, eval_every=1, max_len=64, tokenizer=kind, out=str(tmp_path/'run'), **options)
    done = to_page({kind:str(tmp_path/'run')}, tmp_path/'page')
    texts = [*held_out_texts(tmp_path/'run'/'discriminator', load_scorer(str(tmp_path/'run')).tok, 40), *awkward]
    want = [[w.error_prob for w in t.words] for t in score_texts(load_scorer(str(tmp_path/'run'), device='cpu'), texts)]
    found = node_scores(done.folder/'runtime', done.folder/'models'/'0', 'model.onnx', texts)
    assert [(t[:20],len(a),len(b)) for t,a,b in zip(texts, want, found) if len(a)!=len(b)]==[]
    assert score_gap(want, found)<1e-4

# -- The page

class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args): pass

@pytest.fixture(scope='module')
def served(page):
    server = ThreadingHTTPServer(('127.0.0.1',0), partial(Quiet, directory=page.folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield 'http://127.0.0.1:{}/'.format(server.server_address[1])
    server.shutdown()

@pytest.fixture(scope='module')
def browser():
    if not chromium: pytest.skip('no chromium on this machine: install it to open the page in a browser')
    with sync_playwright() as p:
        b = p.chromium.launch(executable_path=chromium, args=['--no-sandbox'])
        yield b
        b.close()

def opened(browser, served, **look):
    "The page after its first shades, and what it asked for elsewhere."
    p = browser.new_context(bypass_csp=True, **look).new_page()
    p.elsewhere,p.errors = [],[]
    p.on('request', lambda r: r.url.startswith(served) or p.elsewhere.append(r.url))
    p.on('pageerror', lambda e: p.errors.append(str(e)))
    p.goto(served)
    p.wait_for_function("performance.getEntriesByName('shaded').length>0")
    return p

def test_numbers_in_the_browser(run, page, served, browser):
    "200 sentences: probabilities of PyTorch to 1e-4 with 32 bits and to 2e-2 with 8, and no request to another host."
    p,scorer = opened(browser, served),load_scorer(str(run), device='cpu')
    texts = held_out_texts(run/'discriminator', scorer.tok, 200)
    texts += [f'{t} {i}' for i,t in enumerate(texts*10)][:200-len(texts)]
    assert len(texts)==200
    want = [[w.error_prob for w in t.words] for t in score_texts(scorer, texts)]
    for model,most in (('1',1e-4),('0',2e-2)):
        found = p.evaluate("async ([texts,model]) => { const out = []; for (const t of texts) out.push((await scoreText(t, model)).map(w => w.prob)); return out }", [texts,model])
        assert score_gap(want, found)<most
    assert p.elsewhere==[] and p.errors==[]

@pytest.mark.parametrize('width,scheme', [(1280,'light'),(390,'dark')])
def test_shades(run, served, browser, width, scheme):
    "As one types, each word is shaded by its probability, and the most suspicious ones are listed; a key finds one in the text."
    p = opened(browser, served, viewport=dict(width=width, height=800), color_scheme=scheme)
    text = 'The boats come back with fish fish, and the harbour is full.'
    p.fill('#text', text)
    p.wait_for_function("document.querySelectorAll('#shades mark').length==14")
    scored, = score_texts(load_scorer(str(run), device='cpu'), [text])
    shades = p.eval_on_selector_all('#shades mark', 'all => all.map(m => [m.textContent, Number(m.style.background.match(/strength\\)\\s*\\*\\s*([\\d.]+)|([\\d.]+)\\s*\\*/).slice(1).find(Boolean))])')
    assert [w for w,_ in shades]==[w.text for w in scored.words]
    assert max(abs(s-w.error_prob) for (_,s),w in zip(shades, scored.words))<2e-2
    assert p.inner_text('#said').startswith('12 words')
    most = max(scored.words, key=lambda w: w.error_prob)
    p.locator('#found button').first.press('Enter')
    chosen = p.evaluate("text.value.slice(document.activeElement.selectionStart, document.activeElement.selectionEnd)".replace('text.', "document.getElementById('text')."))
    assert chosen==most.text
    assert p.evaluate('document.documentElement.scrollWidth')<=width and p.errors==[]
    p.fill('#text', '')
    p.wait_for_function("document.getElementById('said').textContent=='No text yet.'")

def test_own_folder(run, served, browser, tmp_path):
    "A folder of ONNX opens beside the packed models; one for PyTorch is refused with the command that makes the other."
    p = opened(browser, served)
    done = export(str(run), out=str(tmp_path/'my model'))
    p.set_input_files('#folder', str(done.folder))
    p.wait_for_function("document.getElementById('about').textContent.startsWith('my model')")
    assert p.input_value('#model')=='2'
    p.set_input_files('#folder', str(run/'discriminator'))
    p.wait_for_function("document.getElementById('said').className=='error'")
    assert 'electra_export' in p.inner_text('#said')

def test_from_disk(page, browser):
    "Opened as a file, the page says what to do."
    p = browser.new_page()
    p.goto((page.folder/'index.html').as_uri())
    assert 'JavaScript' not in p.inner_text('body') and 'http.server' in p.inner_text('#said')
