"Build the site from the stored notebooks: `python docs/build.py`, and `python docs/build.py --serve` to read it on this machine."
import gc, http.server, shutil, sys
from fastcore.script import call_parse
from functools import partial
from pages import llms, root, write_pages
from sphinx.cmd.build import build_main

work = root/'build' # ignored by git
html = work/'html'

def add_page(name, add):
    "A page that computes in the browser, from its files in docs/; without Node one that says so."
    out = html/name
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(root/'docs'/name, out)
    try: add(out)
    except ValueError as e:
        print(f'the page {name}/ is left out: {e}')
        (out/'index.html').write_text('<!doctype html><meta charset="utf-8"><title>Not here</title><p>This copy of the site was built without Node, which this page needs.')

def micro(out):
    "Python for browsers (MPL-2.0), and the lines that it runs."
    from electra_nb.lab.export.page import Package, runtime_folder
    pyodide = Package('pyodide', '314.0.7', '0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A==',
        ('pyodide.mjs','pyodide.asm.mjs','pyodide.asm.wasm','python_stdlib.zip','pyodide-lock.json'))
    shutil.copytree(runtime_folder((pyodide,)), out/'runtime')
    shutil.copy(root/'experiments'/'micro_electra.py', out)

@call_parse
def main(
    serve:bool=False, # serve the site at 127.0.0.1 afterwards
    port:int=8000, # of the server; 0: one that is free
):
    "Build the site in build/html; a warning, such as a link that leads nowhere, is an error."
    gc.set_threshold(50_000, 20, 100) # looking for garbage among millions of nodes took more than a third of the time
    notebooks = write_pages(work/'pages')
    failed = build_main(['-b','html','-W','--keep-going','-q','-c',str(root/'docs'),'-d',str(work/'doctrees'),str(work/'pages'),str(html)])
    if failed: sys.exit(failed)
    from electra_nb.lab.export.page import page_shell
    add_page('words', page_shell)
    add_page('micro', micro)
    (html/'llms.txt').write_text(llms(notebooks))
    print(html/'index.html')
    if not serve: return
    site = http.server.ThreadingHTTPServer(('127.0.0.1', port), partial(http.server.SimpleHTTPRequestHandler, directory=html))
    print('http://{}:{}'.format(*site.server_address), flush=True)
    try: site.serve_forever()
    except KeyboardInterrupt: site.server_close()
