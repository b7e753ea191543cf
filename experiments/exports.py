"""How large are exported models, how far are their numbers off, and how soon are words shaded?

    python exports.py OUT RUN RUN …

OUT (.json) gets a line of figures for each run folder: ONNX with 32 and 8 bits and vectors on 200 and 400 held-out sentences, the page
in Node, and in Chromium the time from opening the page to the first shades, as the median of five visits with an empty cache.
"""
import argparse, json, platform, shutil, statistics, subprocess, tempfile, threading
import electra_nb.lab.register
from datetime import date
from electra_nb.lab.export.export import export_folder
from electra_nb.lab.export.onnx import held_out_texts, to_onnx
from electra_nb.lab.export.page import to_page
from electra_nb.lab.export.vectors import to_sentence_transformers
from electra_nb.text.tokenizer import load_tokenizer
from electra_nb.training.folder import versions
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from playwright.sync_api import sync_playwright

def first_shades(folder, n=5):
    "Milliseconds until words are shaded."
    server = ThreadingHTTPServer(('127.0.0.1',0), partial(SimpleHTTPRequestHandler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as p:
        found = []
        for _ in range(n):
            browser = p.chromium.launch(executable_path=shutil.which('chromium'), args=['--no-sandbox'])
            page = browser.new_context(bypass_csp=True).new_page()
            page.goto('http://127.0.0.1:{}/'.format(server.server_address[1]))
            page.wait_for_function("performance.getEntriesByName('shaded').length>0")
            found.append(page.evaluate("performance.getEntriesByName('shaded')[0].startTime"))
            browser.close()
    server.shutdown()
    return found

def measure(run):
    "The figures of one run."
    folder = export_folder(run)
    with tempfile.TemporaryDirectory() as tmp:
        onnx = to_onnx(folder, f'{tmp}/onnx', held_out_texts(folder, load_tokenizer(folder), 200))
        vectors = to_sentence_transformers(folder, f'{tmp}/vectors')
        page = to_page({Path(run).name:run}, f'{tmp}/page')
        shades = first_shades(page.folder)
    c = vectors.choice
    return dict(run=Path(run).name, onnx={k:v for k,v in onnx._asdict().items() if k!='folder'}, page=page.models[0]._asdict(),
        shades_ms=dict(median=round(statistics.median(shades)), all=[*map(round, shades)]),
        vectors=dict(gap=vectors.gap, layers=c.layers, pooling=c.pooling, score=c.score, words_score=c.words_score, chance=c.chance, n_pairs=c.n_pairs))

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ask.add_argument('out', type=Path)
    ask.add_argument('runs', nargs='+')
    a = ask.parse_args()
    commit = subprocess.check_output(['git','rev-parse','HEAD'], text=True, cwd=Path(__file__).parent).strip()
    found = dict(what=__doc__.split('\n')[0], commit=commit, date=str(date.today()), device=f'{platform.machine()} CPU, one thread', versions=versions(), runs=[measure(r) for r in a.runs])
    a.out.write_text(json.dumps(found, indent=1)+'\n')
