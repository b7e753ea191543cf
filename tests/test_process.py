"Whole processes: the main job, the command, signals, silence when piped. Kills are in `test_faults`, a process that asks nothing of the network in `test_safety`."
import json, os, re, shlex, signal, subprocess, sys, time
from pathlib import Path

import pytest
from forked import Program
from safetensors.torch import load_file

text = '\n\n'.join(f'The {a} {v} the {b} in the {c}.\nThen the {b} {v} a {a} near the {c}.\nEvery {c} has a {b} and a {a}.' for a in ('baker','fisher','doctor','sailor')
    for v in ('sees','asks','helps') for b in ('teacher','miller','driver') for c in ('town','harbour','library'))
common = "steps=30, bs=4, max_len=32, eval_every=10, log_every=5, save_every=5, device='cpu'"

def env(tmp, **kw): return {**os.environ, 'ELECTRA_NB_CACHE':str(tmp/'cache'), 'HF_HOME':str(tmp/'hf'), 'CUDA_VISIBLE_DEVICES':'', 'OMP_NUM_THREADS':'1', **kw}

def run(tmp, code, *argv, **kw):
    "A program in a fork: exit code and both outputs."
    p = Program(code, tmp, env(tmp, **kw), argv)
    out,err = p.communicate()
    return p.returncode,out,err

def run_fresh(tmp, code, **kw):
    "The same in a process that has imported nothing."
    p = subprocess.run([sys.executable, '-c', code], cwd=tmp, env=env(tmp, **kw), capture_output=True, text=True, timeout=300)
    return p.returncode,p.stdout,p.stderr

def job(out, extra=''): return f"from electra_nb import pretrain; pretrain(corpus='texts.txt', out={out!r}, {common}{extra})"

def weights(run): return {f'{t}.{k}':v for t in ('generator','discriminator') for k,v in load_file(run/t/'model.safetensors').items()}

def timeless(run): return [{k:v for k,v in json.loads(l).items() if k not in ('tokens_per_s','seconds')} for l in open(run/'log.jsonl')]

@pytest.fixture(scope='module')
def tmp(tmp_path_factory):
    "A folder with a corpus and one uninterrupted run."
    tmp = tmp_path_factory.mktemp('runs')
    (tmp/'texts.txt').write_text(text)
    rc,out,err = run_fresh(tmp, job('whole'))
    assert rc==0, err
    (tmp/'out.txt').write_text(out)
    (tmp/'err.txt').write_text(err)
    return tmp

def test_quiet_and_complete(tmp):
    "Piped output has no control characters, nothing is printed on stderr, no warning, and everything is in the folder."
    out,err = (tmp/'out.txt').read_text(),(tmp/'err.txt').read_text()
    assert err=='' and '\r' not in out and '\x1b' not in out and 'Warning' not in out
    assert ' 30/30 ' in out and 'whole/discriminator' in out
    names = {p.name for p in (tmp/'whole').iterdir()}
    assert {'recipe.json','log.jsonl','curves.png','README.md','tokenizer','generator','discriminator','checkpoints'}<=names
    assert str(tmp) not in (tmp/'whole'/'recipe.json').read_text()+(tmp/'whole'/'README.md').read_text()

def test_score_command(tmp):
    "The command for suspicious words that the run prints at its end works too."
    line = next(l for l in (tmp/'out.txt').read_text().splitlines() if 'electra_score' in l).strip()
    name,*argv = shlex.split(line)
    rc,out,err = run(tmp, 'from electra_nb.scoring import cli; cli()', *argv)
    assert name=='electra_score' and rc==0 and len(out.splitlines())==1, err

def test_plain_transformers(tmp):
    "The command that the run prints at its end works, offline and without this package; both folders load without missing or unexpected weights."
    line = next(l for l in (tmp/'out.txt').read_text().splitlines() if 'python -c' in l).strip()
    code = re.fullmatch(r'python -c "(.*)"', line)[1]+"""
import sys
from transformers import AutoModelForPreTraining, AutoModelForMaskedLM, AutoTokenizer
for cls,name in ((AutoModelForPreTraining,'discriminator'),(AutoModelForMaskedLM,'generator')):
    m,info = cls.from_pretrained(f'whole/{name}', output_loading_info=True)
    assert not any(info[k] for k in ('missing_keys','unexpected_keys','mismatched_keys')), info
    AutoTokenizer.from_pretrained(f'whole/{name}')
assert 'electra_nb' not in sys.modules"""
    rc,out,err = run_fresh(tmp, code, HF_HUB_OFFLINE='1')
    assert rc==0 and out.count('score')==5, err

def test_no_folder_named(tmp):
    "Without `out`, a folder in runs/ is made, and the same call finds it again."
    code = "from electra_nb import pretrain; pretrain(corpus='texts.txt', "+common.replace('steps=30', 'steps=5')+')'
    for says in (' 5/5 ','finished before'):
        rc,out,err = run(tmp, code)
        assert rc==0 and says in out, err
    assert len(list((tmp/'runs').glob('tiny-*/discriminator')))==1

@pytest.mark.parametrize('sig,code', [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals(tmp, sig, code):
    "A signal finishes the step, saves, says how to go on, and sets the exit code."
    name = f'signal{code}'
    argv = f"--corpus texts.txt --out {name} --steps 100000 --bs 4 --max_len 32 --log_every 5 --save_every 100000 --device cpu".split()
    p = Program('import sys; from electra_nb.commands import pretrain; sys.exit(pretrain())', tmp, env(tmp), argv)
    end = time.time()+120
    while time.time()<end and not ((tmp/name/'log.jsonl').exists() and (tmp/name/'log.jsonl').stat().st_size): time.sleep(.05)
    p.send_signal(sig)
    out,err = p.communicate(timeout=60)
    assert p.returncode==code, (out, err)
    assert 'goes on from there' in out
    assert len(list((tmp/name/'checkpoints').glob('step_*')))>=1

def test_interrupted_script(tmp):
    "Ctrl-C in a script of Python: the run is saved, one line says so, and there is no traceback."
    p = Program(job('script').replace('steps=30', 'steps=100000'), tmp, env(tmp))
    end = time.time()+120
    while time.time()<end and not ((tmp/'script'/'log.jsonl').exists() and (tmp/'script'/'log.jsonl').stat().st_size): time.sleep(.05)
    p.send_signal(signal.SIGINT)
    out,err = p.communicate(timeout=60)
    assert (p.returncode,err)==(130,''), err
    assert 'goes on from there' in out

@pytest.mark.parametrize('where', ['pretraining.prepare_text','pretraining.get_corpus','pretraining.build_learner'])
def test_interrupted_before_the_training(tmp, where):
    "Ctrl-C while the text is prepared: one line, and the same call goes on."
    module,name = where.split('.')
    code = f"""import electra_nb.{module} as module, os, signal
own = module.{name}
def late(*args, **kw):
    parts = own(*args, **kw)
    if not os.path.exists('{name}'): os.kill(os.getpid(), signal.SIGINT)
    return parts
module.{name} = late
signal.signal(signal.SIGINT, signal.default_int_handler)
"""+job(f'in_{name}').replace('steps=30', 'steps=2')
    rc,out,err = run(tmp, code)
    assert (rc,err)==(130,'') and 'stopped while the text was prepared' in out, (rc, out, err)
    (tmp/name).touch()
    assert run(tmp, code)[0]==0

def test_command(tmp):
    "The command shows its options, refuses unknown ones, and trains."
    exe = str(Path(sys.executable).parent/'electra_pretrain')
    go = lambda *a: subprocess.run([exe, *a], cwd=tmp, env=env(tmp), capture_output=True, text=True)
    text = go('--help').stdout
    assert '--mask_prob' in text and 'Table 6' in text
    assert go('--version').stdout.strip()[0].isdigit()
    rc,_,err = run(tmp, 'from electra_nb.commands import pretrain; pretrain()', '--max_steps', '3')
    assert rc==2 and "did you mean 'steps'" in err and 'Traceback' not in err
    good = go('tiny', '--corpus', 'texts.txt', '--out', 'cli', '--steps', '5', '--bs', '4', '--max_len', '32', '--no-replacement', '--carry_overflow')
    assert good.returncode==0, good.stderr
    r = json.loads((tmp/'cli'/'recipe.json').read_text())['recipe']
    assert (r['replacement'],r['carry_overflow'],r['steps'])==(False,True,5)

def test_required(tmp):
    "A command without an option that must be given says so in one line, and its help says it too."
    for argv,missing in ([],'corpus and out'),(['texts'],'out'):
        rc,_,err = run(tmp, 'from electra_nb.commands import pack; pack()', *argv)
        assert (rc,err)==(2,f'electra_pack: required: {missing}; electra_pack --help says what is meant\n')
    rc,out,_ = run(tmp, 'from electra_nb.commands import pack; pack()', '--help')
    assert rc==0 and 'empty' not in out and out.count('[required]')==2

def test_help_is_cheap():
    "The commands of the shell show their help without loading the libraries, and every option has a type that one can write."
    listed = re.findall(r'(\w+)=electra_nb\.commands:(\w+)', (Path(__file__).parent.parent/'settings.ini').read_text())
    assert len(listed)>=6
    for command,name in listed:
        code = f"import sys; sys.argv = ['{command}', '--help']\nfrom electra_nb.commands import {name}\ntry: {name}()\nfinally: assert not {{'torch','fastai','transformers','numpy','sklearn'}}&set(sys.modules)"
        p = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
        assert p.returncode==0 and p.stdout.startswith(f'usage: {command}'), p.stderr
        assert 'NoneType' not in p.stdout, command

def test_import_is_cheap():
    "`import electra_nb` loads neither torch nor fastai."
    code = "import sys, electra_nb; assert not {'torch','fastai','transformers'} & set(sys.modules), 'heavy import'; assert 'pretrain' in dir(electra_nb)"
    assert subprocess.run([sys.executable, '-c', code]).returncode==0

def test_deadline(tmp):
    "A run with a deadline plans its steps, ends with a rate near 0, and is finished when it is asked for again, also after a stop."
    code = f"from electra_nb import pretrain; pretrain(corpus='texts.txt', out='deadline', hours=.002, {common.replace('steps=30, ', '')}"
    rc,out,err = run(tmp, code+", max_hours=.0008)")
    assert rc==0 and 'deadline: about' in out, err
    rc,out,err = run(tmp, code+')')
    assert rc==0 and 'finished:' in out, err
    steps,last = timeless(tmp/'deadline')[-1]['step'],[l['lr'] for l in timeless(tmp/'deadline') if 'lr' in l][-1]
    assert last<=1.01*json.loads((tmp/'deadline'/'recipe.json').read_text())['recipe']['lr']/steps
    assert (tmp/'deadline'/'checkpoints'/f'step_{steps}').exists()
    rc,out,err = run(tmp, code+')')
    assert rc==0 and 'finished before' in out and timeless(tmp/'deadline')[-1]['step']==steps, err

def test_closed_pipe(tmp_path):
    "`electra_env | head` ends in silence when its reader has gone."
    code = 'import sys; from electra_nb.commands import exit_codes\nwith exit_codes("try"):\n    for _ in range(100_000): print("a line")'
    p = subprocess.Popen([sys.executable, '-c', code], env=env(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.readline()==b'a line\n'
    p.stdout.close()
    assert (p.stderr.read(), p.wait(60))==(b'', 141)

def test_modules_are_commands(tmp_path):
    "`python -m` runs the command of every module that has one."
    package = Path(__file__).parent.parent/'electra_nb'
    modules = [p for p in package.rglob('*.py') if '\ncli = Command(' in p.read_text()]
    names = ['electra_nb.pretraining']+['.'.join(p.relative_to(package.parent).with_suffix('').parts) for p in modules]
    code = f"""
import runpy, sys
for name in {names!r}:
    sys.argv[1:] = ['--version']
    try: runpy.run_module(name, run_name='__main__', alter_sys=True)
    except SystemExit as e: print(name, e.code)
"""
    rc,out,err = run(tmp_path, code)
    assert rc==0 and len(names)>=10 and all(f'{name} 0' in out for name in names), out+err

@pytest.mark.slow
def test_module_under_torchrun(tmp_path):
    "`torchrun -m` runs it too, so that a mistake ends with an error."
    command = [sys.executable,'-m','torch.distributed.run','--standalone','--nproc-per-node','1','-m','electra_nb.lab.register','--steps','0']
    p = subprocess.run(command, cwd=tmp_path, env=env(tmp_path), capture_output=True, text=True, timeout=240)
    assert p.returncode!=0 and 'steps=0' in p.stderr, p.stderr
