"Runs micro_electra.py and says what happens, in a browser or here: `python watch.py` writes stored.json, the picture that the page shows at first."
import ast, json, sys
from collections import deque
from pathlib import Path

def run(code, sentence, post, every=5):
    "Run code, and say what happens."
    said,seen,told = {'__name__':'__main__'},deque(maxlen=25),{'step':0, 'of':0}
    def say(kind, **values): post(json.dumps(dict(values, kind=kind)))
    said['print'] = lambda *parts, sep=' ', end='\n': say('print', text=sep.join(map(str, parts))+end)
    def look():
        words = said['suspicion'](sentence) if 'suspicion' in said else []
        say('step', **told, gen=sum(g for g,_,_ in seen)/len(seen), disc=sum(d for _,d,_ in seen)/len(seen), words=words)
    def watch():
        losses,adam,train = (said[n] for n in ('losses','adam','train'))
        def seen_losses(batch):
            seen.append(losses(batch))
            return seen[-1]
        def seen_adam(*args):
            adam(*args)
            told['step'] += 1
            if told['step']%every==0 or told['step'] in (1,told['of']): look()
        def seen_train(n_steps, *args):
            told['of'] = n_steps
            return train(n_steps, *args)
        said.update(losses=seen_losses, adam=seen_adam, train=seen_train)
    lines = ast.parse(code).body
    for i,line in enumerate(lines):
        starts = any(isinstance(n, ast.Call) and getattr(n.func, 'id', '')=='train' for n in ast.walk(line)) and not isinstance(line, ast.FunctionDef)
        if starts:
            later = [l for l in lines[i:] if isinstance(l, ast.FunctionDef)]
            exec(compile(ast.Module(later, []), 'micro_electra.py', 'exec'), said)
            watch()
        exec(compile(ast.Module([line], []), 'micro_electra.py', 'exec'), said)

if __name__=='__main__' and sys.platform!='emscripten':
    here,told = Path(__file__).parent,[]
    run((here.parents[1]/'experiments'/'micro_electra.py').read_text(), 'The fisher sells river at the market.', lambda text: told.append(json.loads(text)))
    steps = [t for t in told if t['kind']=='step']
    for t in steps: t.update(gen=round(t['gen'], 8), disc=round(t['disc'], 8), words=[[w,round(p, 4)] for w,p in t['words']] if t in steps[-1:] else [])
    (here/'stored.json').write_text('[\n'+',\n'.join(map(json.dumps, steps))+'\n]\n')
