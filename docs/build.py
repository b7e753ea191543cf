"Build the site from the stored notebooks: `python docs/build.py`, and `python docs/build.py --serve` to read it on this machine."
import http.server, shutil, sys
from fastcore.script import call_parse
from functools import partial
from pages import llms, root, write_pages
from sphinx.cmd.build import build_main

work = root/'build' # ignored by git
html = work/'html'

def words(out):
    "The page where words light up, with the models of docs/words; without Node a page that says so."
    from electra_nb.lab.export.page import page_shell
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(root/'docs'/'words', out)
    try: page_shell(out)
    except ValueError as e:
        print(f'the page words/ is left out: {e}')
        (out/'index.html').write_text('<!doctype html><meta charset="utf-8"><title>Not here</title><p>This copy of the site was built without Node, which this page needs.')

@call_parse
def main(
    serve:bool=False, # serve the site at 127.0.0.1 afterwards
    port:int=8000, # of the server; 0: one that is free
):
    "Build the site in build/html; a warning, such as a link that leads nowhere, is an error."
    notebooks = write_pages(work/'pages')
    failed = build_main(['-b','html','-W','--keep-going','-q','-c',str(root/'docs'),'-d',str(work/'doctrees'),str(work/'pages'),str(html)])
    if failed: sys.exit(failed)
    words(html/'words')
    (html/'llms.txt').write_text(llms(notebooks))
    print(html/'index.html')
    if not serve: return
    site = http.server.ThreadingHTTPServer(('127.0.0.1', port), partial(http.server.SimpleHTTPRequestHandler, directory=html))
    print('http://{}:{}'.format(*site.server_address), flush=True)
    try: site.serve_forever()
    except KeyboardInterrupt: site.server_close()
