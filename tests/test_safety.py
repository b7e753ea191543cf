"Nothing that is read can run code; a run writes where it should and asks nothing of the network."
import ast, io, json, os, pickle, re, shlex, shutil, subprocess, sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest, torch
from safetensors.torch import load_file, save_file

from electra_nb import export, finetune, pretrain
from electra_nb.glue.tasks import Task
from electra_nb.lab.export import export as exporting
from electra_nb.lab.export.export import hub_card, whats
from electra_nb.lab.questions.squad import squad1
from electra_nb.lab.study.folder import model_page
from electra_nb.glue.head import Classifier
from electra_nb.glue.twin import load_head
from electra_nb.glue.encoders import load_encoder, random_encoder
from electra_nb.model.towers import get_models, sizes
from electra_nb.model.hf import load_models, save_models
from electra_nb.core.tiny import tiny_text
from electra_nb.text.tokenizer import tiny_tokenizer
from electra_nb.text.tokenizer import load_tokenizer
from electra_nb.text.lines import read_lines
from electra_nb.lab.scoring.probe import closing_words as pretraining_words
from forked import Program

root = Path(__file__).parent.parent
forbidden = re.compile(r'\bpickle\b|\bdill\b|torch\.load\(|(?<![.\w])eval\(|(?<![.\w])exec\(|yaml\.load|allow_pickle|extractall|shell=True|os\.system|trust_remote_code=True'
    r'|from_pretrained\([^)\n]*\*\*(config|values|cfg)|weights_only=False|load_learner')

@pytest.mark.parametrize('py', sorted((root/'electra_nb').rglob('*.py')), ids=lambda p: str(p.relative_to(root/'electra_nb')))
def test_forbidden_calls(py):
    "No call in the package runs what a file or a stranger says."
    assert [l for l in py.read_text().splitlines() if forbidden.search(l) and not l.lstrip().startswith('#')]==[]

def test_forbidden_calls_are_found():
    "The pattern meets what it is for, and leaves alone what only looks like it."
    for l in ('x = eval(s)','import pickle','torch.load(f)','z.extractall()','A.from_pretrained(p, **config)','run(c, shell=True)'): assert forbidden.search(l), l
    for l in ('model.eval()','def retrieval(x)','cls.from_pretrained(folder, config=cfg, **how)'): assert not forbidden.search(l), l

# -- payloads: each leaves a canary if it runs

class Bomb:
    def __init__(self, canary): self.canary = str(canary)
    def __reduce__(self): return open,(self.canary,'w')

own = "open({0!r}, 'w')\nfrom transformers import ElectraConfig, ElectraForPreTraining, ElectraModel, PreTrainedTokenizerFast\n" \
    "class Config(ElectraConfig): model_type = 'own'\nclass Model(ElectraForPreTraining): pass\nclass Tok(PreTrainedTokenizerFast): pass\n"
own_map = dict(AutoConfig='own.Config', AutoModel='own.Model', AutoModelForPreTraining='own.Model', AutoTokenizer=['own.Tok','own.Tok'])

@pytest.fixture(scope='module')
def home(tmp_path_factory):
    "A folder with a sound pair of towers, and nothing that ran."
    home = tmp_path_factory.mktemp('safety')
    torch.manual_seed(0)
    tok = tiny_tokenizer()
    save_models(*get_models(sizes['tiny'], len(tok)), home/'sound', tok)
    os.environ['ELECTRA_NB_CACHE'] = str(home/'cache')
    (home/'texts.txt').write_text(tiny_text)
    return home

def bombs(canary):
    "A pickle, and the same as torch.save writes it."
    f = io.BytesIO()
    torch.save(dict(state=Bomb(canary)), f)
    return pickle.dumps(Bomb(canary)),f.getvalue()

def settings(folder, name, **kw):
    path = folder/name
    path.write_text(json.dumps({**json.loads(path.read_text()), **kw}))

def poison(kind, d, canary):
    "Make a model folder hostile."
    plain,saved = bombs(canary)
    (d/'own.py').write_text(own.format(str(canary)))
    if kind in ('model.safetensors','tokenizer.json','config.json'): (d/kind).write_bytes(plain)
    if kind=='pytorch_model.bin':
        (d/'model.safetensors').unlink()
        (d/kind).write_bytes(saved)
    if kind=='both':
        for f in ('pytorch_model.bin','flax_model.msgpack','tf_model.h5'): (d/f).write_bytes(saved)
    if kind=='trainer files':
        for f in ('training_args.bin','optimizer.pt','scheduler.pt','rng_state.pth','scaler.pt','export.pkl','model.pth'): (d/f).write_bytes(saved)
    if kind=='auto_map': settings(d, 'config.json', auto_map=own_map, trust_remote_code=True)
    if kind=='own type': settings(d, 'config.json', auto_map=own_map, trust_remote_code=True, model_type='own', architectures=['Model'])
    if kind=='kernel': settings(d, 'config.json', _attn_implementation_internal='own/kernel', _attn_implementation='own/kernel', use_kernels=True, _experts_implementation_internal='own/kernel')
    if kind=='quantized': settings(d, 'config.json', quantization_config=dict(quant_method='torchao', modules_to_not_convert=[str(d/'own.py')], load_in_4bit=True))
    if kind=='tokenizer map': settings(d, 'tokenizer_config.json', auto_map=own_map, trust_remote_code=True)
    if kind=='tokenizer class': settings(d, 'tokenizer_config.json', auto_map=own_map, trust_remote_code=True, tokenizer_class='Tok')
    if kind=='index':
        (d/'model.safetensors').unlink()
        (d/'model.safetensors.index.json').write_text(json.dumps(dict(metadata={}, weight_map={'electra.x':'../../own.bin'})))
        (d.parent.parent/'own.bin').write_bytes(saved)
    if kind=='adapter': (d/'adapter_config.json').write_text(json.dumps(dict(base_model_name_or_path='own/model', peft_type='LORA', auto_mapping=dict(parent_library='own'))))

kinds = ('model.safetensors','pytorch_model.bin','both','trainer files','tokenizer.json','config.json','auto_map','own type','kernel','quantized','tokenizer map','tokenizer class','index','adapter')
sound = {'both','trainer files','auto_map','kernel','quantized','tokenizer map','tokenizer class'} # what is hostile in them is passed over
short = dict(steps=3, bs=2, max_len=16, eval_every=3, log_every=1, save_every=3, device='cpu', threads=1)
rows = dict(text=[f'The {a} sells {b}.' for a in ('fisher','teacher','doctor','miller') for b in ('fish','tea','boats','cards')], label=['a','b']*8)

@pytest.mark.parametrize('kind', kinds)
def test_no_canary_from_models(home, tmp_path, kind):
    "No payload in a model's folder runs, at any entry."
    canary = tmp_path/'ran'
    for t in ('generator','discriminator'):
        shutil.copytree(home/'sound'/t, tmp_path/'m'/t)
        poison(kind, tmp_path/'m'/t, canary)
    m,disc,said = tmp_path/'m',tmp_path/'m'/'discriminator',{}
    entries = dict(load_models=lambda: load_models(m), load_encoder=lambda: load_encoder(m), random_encoder=lambda: random_encoder(m), load_head=lambda: load_head(disc, [Classifier]),
        load_tokenizer=lambda: load_tokenizer(disc), finetune=lambda: finetune(m, data=rows, epochs=1, max_len=16, out=tmp_path/'study', device='cpu'),
        tokenizer=lambda: pretrain(corpus=home/'texts.txt', tokenizer=disc, out=tmp_path/'run', **short),
        start=lambda: pretrain(corpus=home/'texts.txt', start=disc, general=False, out=tmp_path/'on', **short))
    for name,entry in entries.items():
        try: entry()
        except (ValueError,FileNotFoundError) as e: said[name] = str(e)
        assert not canary.exists(), (kind, name)
    assert ('finetune' in said)==(kind not in sound), said
    assert 'start' in said or kind in sound|{'adapter'}, said

hub = '''
from electra_nb.glue.encoders import load_encoder, random_encoder
from electra_nb.text.tokenizer import load_tokenizer
load_encoder('some/sound')
for f in (load_encoder,random_encoder,load_tokenizer):
    for name in ('some/pickle','some/own','some/missing'):
        try: f(name)
        except ValueError as e: print(f.__name__, name, e)
'''

def test_no_canary_from_the_hub(home, tmp_path):
    "A model of the hub is read from safetensors alone, and its code is not run (read offline, from a cache)."
    for kind in ('sound','pickle','own'):
        d = tmp_path/'hf'/'hub'/f'models--some--{kind}'/'snapshots'/('a'*40)
        shutil.copytree(home/'sound'/'discriminator', d)
        (d.parent.parent/'refs').mkdir()
        (d.parent.parent/'refs'/'main').write_text('a'*40)
        if kind!='sound': poison(dict(pickle='pytorch_model.bin', own='own type')[kind], d, tmp_path/'ran')
    env = {**os.environ, 'HF_HOME':str(tmp_path/'hf'), 'HF_HUB_OFFLINE':'1', 'PYTHONPATH':str(root)}
    p = subprocess.run([sys.executable, '-c', hub], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert p.returncode==0, p.stderr
    assert not (tmp_path/'ran').exists()
    said = '\n'.join(l for l in p.stdout.splitlines() if l.startswith('load_encoder'))
    assert re.search('some/pickle.*pytorch_model.bin is not opened', said) and re.search("some/own.*model of type 'own'", said) and 'some/missing' in said

growing = """
import json, resource
from transformers import PreTrainedTokenizerFast
from tokenizers import Tokenizer
from electra_nb.text.tokenizer import check_tokenizer, load_tokenizer, tiny_tokenizer
resource.setrlimit(resource.RLIMIT_AS, (6<<30,6<<30))
tok = tiny_tokenizer()
content = json.loads(tok.backend_tokenizer.to_str())
content['normalizer'] = dict(type='Sequence', normalizers=[dict(type='Replace', pattern=dict(String='a'), content='a'*50)]*6)
own = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(content)), **tok.special_tokens_map)
tok.save_pretrained('t')
content['added_tokens'].append(dict(content['added_tokens'][0], id=len(tok), content='abc', normalized=True, special=False)) # normalized while it is loaded
open('t/tokenizer.json', 'w').write(json.dumps(content))
for f,x in ((check_tokenizer,own),(load_tokenizer,'t'),(load_tokenizer,'t/tokenizer.json')):
    try: f(x)
    except ValueError as e: print(e)
"""

def test_growing_text(tmp_path):
    "Rules that replace what others have put in, until no memory holds it, are refused and do not end the process."
    p = Program(growing, tmp_path, dict(os.environ))
    out,err = p.communicate()
    assert p.returncode==0 and out.count('more than 1,000 characters in the place of one')==3, err[-500:]

@pytest.mark.parametrize('suffix', ['.jsonl','.txt','.parquet','.txt.gz','.jsonl.zst'])
def test_no_canary_from_corpora(home, tmp_path, suffix):
    "A pickle with the name of a corpus is refused."
    for i,b in enumerate(bombs(tmp_path/'ran')):
        path = tmp_path/f'{i}{suffix}'
        path.write_bytes(b)
        with pytest.raises(ValueError, match=re.escape(path.name)): pretrain(corpus=path, out=tmp_path/'run', **short)
    assert not (tmp_path/'ran').exists() and not (tmp_path/'run').exists()

def test_no_canary_from_runs(home, tmp_path):
    "Checkpoints and recipes of a run folder are never unpickled."
    run,b = tmp_path/'run',bombs(tmp_path/'ran')
    pretrain(corpus=home/'texts.txt', out=run, **short)
    step = run/'checkpoints'/'step_3'
    names = [p.relative_to(step) for p in step.rglob('*') if p.is_file()]
    assert names and all(p.suffix in ('.json','.safetensors') for p in names)
    for name in {p.suffix:p for p in names}.values():
        (step/name).write_bytes(b[0])
        with pytest.warns(UserWarning, match='damaged'): pretrain(corpus=home/'texts.txt', out=run, **short)
        assert not (tmp_path/'ran').exists(), name
        for p in (run/'checkpoints').glob('damaged_*'): shutil.rmtree(p)
    (run/'recipe.json').write_bytes(b[0])
    with pytest.raises(ValueError): pretrain(run/'recipe.json', corpus=home/'texts.txt', out=tmp_path/'other')
    assert not (tmp_path/'ran').exists()

watch = '''
import json, os, sys
seen = []
def hook(event, args):
    if event=='open' and isinstance(args[0], (str,bytes)) and (args[2] or 0) & (os.O_WRONLY|os.O_RDWR|os.O_CREAT|os.O_TRUNC|os.O_APPEND): seen.append((event, os.path.abspath(os.fsdecode(args[0]))))
    if event in ('os.mkdir','os.rename','os.remove','os.rmdir','os.chmod','os.truncate','os.symlink','os.link','shutil.rmtree','shutil.move','shutil.copyfile'):
        seen.extend((event, os.path.abspath(os.fsdecode(a))) for a in args[:2] if isinstance(a, (str,bytes,os.PathLike)))
    if event in ('socket.bind','socket.connect','socket.getaddrinfo','os.system','os.exec','os.posix_spawn','subprocess.Popen','pickle.find_class','webbrowser.open'): seen.append((event, str(args)[:300]))
sys.addaudithook(hook)
from electra_nb import pretrain
pretrain(corpus='texts.txt', out='run', steps=3, bs=2, max_len=16, eval_every=3, log_every=1, save_every=2, device='cpu', threads=1)
out = list(seen)
open('seen.json', 'w').write(json.dumps(out))
'''

def test_process_stays_inside(home, tmp_path):
    "A whole process writes into its run folder, its caches and the temporary folder, and opens no connection."
    work,temp = tmp_path/'work',tmp_path/'temp'
    for d in (work,temp,tmp_path/'home'): d.mkdir()
    (work/'texts.txt').write_text(tiny_text)
    env = {k:v for k,v in os.environ.items() if not k.startswith(('HF_','XDG_','MPL','TORCH'))}
    env.update(ELECTRA_NB_CACHE=str(tmp_path/'cache'), HF_HOME=str(tmp_path/'hf'), HOME=str(tmp_path/'home'), TMPDIR=str(temp), MPLCONFIGDIR=str(temp/'mpl'), CUDA_VISIBLE_DEVICES='',
        PYTHONDONTWRITEBYTECODE='1', OMP_NUM_THREADS='1', PYTHONPATH=str(root))
    p = subprocess.run([sys.executable, '-c', watch], cwd=work, env=env, capture_output=True, text=True, timeout=300)
    assert p.returncode==0, p.stderr
    seen = [tuple(e) for e in json.loads((work/'seen.json').read_text())]
    paths = [(e,a) for e,a in seen if e=='open' or e.startswith(('os.mkdir','os.re','os.rm','os.ch','os.tr','os.sy','os.li','shutil'))]
    inside = tuple(map(str, (work/'run',tmp_path/'cache',tmp_path/'hf',temp)))
    assert any(a.startswith(str(work/'run')) for _,a in paths)
    others = [o for o in seen if o not in paths]
    probes = [a for e,a in others if e=='socket.bind' and "('::1', 0)" in a or e=='subprocess.Popen' and re.match(r"\('(/sbin/)?(ldconfig|fc-list)'", a)] # urllib3 asks for IPv6, matplotlib for fonts
    assert [(e,a) for e,a in others if a not in probes]==[]
    assert sorted({(e,a) for e,a in paths if not a.startswith(inside) and a!=os.devnull})==[]
    assert {f.name for f in work.iterdir()}=={'texts.txt','run','seen.json'} and list((tmp_path/'home').iterdir())==[]

def test_commands_to_copy(tmp_path):
    "A name with blanks or a semicolon stays one argument of the commands that are suggested."
    out = Path('my runs/a; echo $HOME')
    learn = SimpleNamespace(objective=SimpleNamespace(encoder='encoder', mlm_tower=None, rtd_tower=None, energies=None), model=SimpleNamespace(parts={}))
    run = SimpleNamespace(out=out, text=SimpleNamespace(tok=None), learn=learn, corpus=None)
    assert shlex.split(pretraining_words(run).splitlines()[-1])==['electra_finetune',str(out)]
    (tmp_path/'it\'s; echo b.txt').write_bytes('Дом'.encode('utf-16'))
    with pytest.raises(ValueError) as e: list(read_lines(tmp_path/'it\'s; echo b.txt'))
    assert shlex.split(re.search('iconv.* > converted.txt', str(e.value))[0])==['iconv','-f','utf-16','-t','utf-8','it\'s; echo b.txt','>','converted.txt']

def test_exports_to_copy(monkeypatch):
    "What an export says about opening it can be pasted, whatever its folder is called."
    out,made = "my runs/it's; echo $HOME",SimpleNamespace(bytes=dict(model=1, model_int8=1), gap=0, int8_gap=0, int8_mean=0, n_texts=1, choice=SimpleNamespace(pooling='mean', layers=1, n_pairs=1, score=1, words_score=0, chance=0), models=[])
    for name in ('to_onnx','to_sentence_transformers','to_page','export_folder','find_encoder'): monkeypatch.setattr(exporting, name, lambda *args: made)
    assert shlex.split(whats['page']('runs/mine', out, None)[2])[-1]==out
    for what in ('onnx','sentence-transformers'): assert ast.parse(whats[what]('runs/mine', out, None)[2].split('.encode')[0]).body[0].value.args[0].value.startswith(out)

def test_export_at_home(monkeypatch, tmp_path):
    "A tilde is the home of the user, in what is read and in what is written."
    monkeypatch.setenv('HOME', str(tmp_path))
    seen = []
    monkeypatch.setitem(whats, 'onnx', lambda run, out, texts: (seen.extend((run,out)),'',''))
    export('~/mine', out='~/new')
    export('~/mine')
    assert seen==[str(tmp_path/'mine'),str(tmp_path/'new'),str(tmp_path/'mine'),str(tmp_path/'mine-onnx')]

def test_names_in_a_card(tmp_path):
    "Labels and names that hold signs of Markdown or HTML do not break the card."
    task = Task(('text',), ('<img src=x>','a|b'), metrics=('f1','accuracy'))
    line = dict(task='mine', start='pretrained', seed=0, score=1., model='a <b> | `c`', recipe={}, scores=dict(dev=dict(f1=1., accuracy=1.)))
    card = model_page(line, task, tmp_path, [dict(rival='tf-idf', score=1.)])
    text = re.sub('```.*?```', '', card, flags=re.S)
    assert '<' not in text and 'a|b' not in text and 'a&#124;b' in text
    assert [l.count('|') for l in text.splitlines() if l.startswith('|')]==[4]*3

def test_card_on_the_hub(tmp_path, monkeypatch):
    "The card of a fine-tuned model names its place there in its call, and not the folder here."
    folder = tmp_path/"it's mine"
    folder.mkdir()
    for task in (Task(('text',), ('0','1')),Task(('a','b')),Task(('words',), ('O','B-PER'), kind='tag', scheme='BIO'),squad1):
        recipe = dict(max_len=64, tag_head='linear', pair_head='together', head='plain')
        line = dict(task='mine', start='pretrained', seed=0, score=1., recipe=recipe)
        (folder/'task.json').write_text(json.dumps(dict(name='mine', task=asdict(replace(task, splits={})), max_len=64, recipe=recipe)))
        (folder/'README.md').write_text(model_page(line, task, folder))
        card = hub_card(folder/'README.md', 'me/mine')
        assert str(folder) not in card and repr(str(folder)) not in card and "'me/mine'" in card
        ast.parse(card.split('```python\n')[1].split('```')[0])
