"Every script in experiments/ that takes arguments starts and explains itself."
import json, os, re
from electra_nb import pretrain
from electra_nb.core.tiny import tiny_text
from electra_nb.lab.own_data.labels import table_task
from forked import Program
from test_pages import root

scripts = [p for p in sorted((root/'experiments').glob('*.py')) if 'argparse' in p.read_text()]
code = """
import runpy, sys
sys.path[0] = sys.argv[1]
for path in sys.argv[2:]:
    sys.argv = [path,'--help']
    try: runpy.run_path(path, run_name='__main__')
    except SystemExit as e: assert e.code==0, path
"""

def test_help():
    p = Program(code, root, dict(os.environ), [str(root/'experiments'),*map(str, scripts)])
    said,err = p.communicate()
    assert p.returncode==0 and said.count('usage')==len(scripts), err

def test_every_script_has_a_line():
    "README.md of the folder lists each script with its question, once; its links lead somewhere."
    text = (root/'experiments'/'README.md').read_text()
    listed = re.findall(r'^\| \[(\w+\.py)\]', text, re.M)
    assert sorted(listed)==sorted(p.name for p in (root/'experiments').glob('*.py'))
    assert [link for link in re.findall(r'\]\(([^)]+)\)', text) if not (root/'experiments'/link).exists()]==[]

def test_front_page_scripts(tmp_path, monkeypatch):
    "The scripts behind the front page score a run, and put new lines of a ledger in place of old ones."
    monkeypatch.syspath_prepend(str(root/'experiments'))
    import first_minutes, front_page
    monkeypatch.setitem(first_minutes.epochs, 100, 1.)
    run = tmp_path/'run'
    pretrain(corpus=tiny_text.split('\n\n'), steps=2, out=run, max_len=32, vocab_size=150, probe=False)
    words = tiny_text.split()
    rows = dict(text=[' '.join(words[i:i+6]) for i in range(150)], topic=['sea','land']*75)
    data = table_task(rows, label='topic', valid=.3, name='topics')
    for start in ('pretrained','random'):
        line = first_minutes.score(run, data, 100, start, 1e-3, 0)
        assert line['steps']>0 and 0<=line['accuracy']<=100
    old,new = tmp_path/'old.jsonl',tmp_path/'new.jsonl'
    old.write_text('{"a": 1, "b": 1}\n{"a": 2, "b": 1}\n')
    new.write_text('{"a": 2, "b": 5}\n{"a": 3, "b": 5}\n')
    front_page.merge_lines(new, old, lambda r: r['a'])
    assert [*map(json.loads, old.read_text().splitlines())]==[dict(a=1, b=1),dict(a=2, b=5),dict(a=3, b=5)]
    for refused,table in (('busy',[1]),('',[2])):
        old.write_text('{"loader": 3, "step": {"table": [1], "fastai": 4}}')
        new.write_text(json.dumps(dict(date='today', step=dict(table=[2], refused=refused))))
        front_page.merge_steps(new, old)
        kept = json.loads(old.read_text())
        assert (kept['loader'],kept['step']['table'],kept['step']['fastai'])==(3,table,4)
