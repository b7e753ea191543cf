"The project itself: README, notebooks, undefined names."
import ast, io, json, re, shutil, subprocess, sys, tarfile, zipfile
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from xml.etree import ElementTree

import pytest
from packaging.requirements import Requirement
from pyflakes.api import check
from pyflakes.reporter import Reporter

from electra_nb import finetune, pretrain
from electra_nb.commands import stored_help
from electra_nb.core.settings import other_names

root = Path(__file__).parent.parent
nbs = sorted((root/'nbs').rglob('*.ipynb'))

def cells(nb): return json.loads(nb.read_text())['cells']

def test_readme_is_index():
    "README.md is the text of index.ipynb."
    text = '\n\n'.join(''.join(c['source']).strip() for c in cells(root/'nbs'/'index.ipynb') if c['cell_type']=='markdown')
    assert (root/'README.md').read_text()==text+'\n'

def test_readme_has_the_test_command():
    "`.ci/run` runs the command that stands in the README, which is that of CONTRIBUTING.md."
    commands = [re.findall('^pip install -e .*pytest$', (root/f).read_text(), re.M) for f in ('README.md','CONTRIBUTING.md')]
    assert len(commands[0])==1 and commands[0]==commands[1]

def test_public_ci_runs_the_same_checks():
    "The one workflow of a public CI has no checks of its own: it calls `.ci/run`, on a Python that the package allows."
    workflow, = (root/'.github'/'workflows').glob('*.yml')
    text = workflow.read_text()
    steps = re.findall(r'^ +- (run|uses): (.+)$', text, re.M)
    assert ('run','.ci/run') in steps and not re.search(r'pytest|nbdev_test|chkstyle', text)
    lowest = re.search(r'^min_python = (.*)$', (root/'settings.ini').read_text(), re.M)[1]
    assert re.search(rf"python: \['{lowest}'", text) and (root/'.ci'/'run').stat().st_mode & 0o100

def test_readme_has_two_commands():
    "From a clone one line installs and trains, and one passes the tests; no line of a shell needs a place that has to be named first."
    blocks = re.findall(r'^```sh\n(.*?)^```', (root/'README.md').read_text(), re.M|re.S)
    assert [b.splitlines()[0][:14] for b in blocks]==['pip install . ','pip install -e'] and all(len(b.splitlines())==1 for b in blocks)
    assert blocks[0]=='pip install . && python -c "from electra_nb import pretrain; pretrain()"\n'

def test_no_invented_place():
    "No page names a repository or a site of this project unless settings.ini does."
    ini = (root/'settings.ini').read_text()
    url = re.search(r'^git_url *= *(.*)$', ini, re.M)[1]
    written = [root/f for f in ('README.md','CITATION.cff','CHANGELOG.md','CONTRIBUTING.md','setup.py','nbs/nbdev.yml','electra_nb/_modidx.py')]
    named = {(f.name,m) for f in [*written,*nbs] for m in re.findall(r'https?://[\w./-]*electra[-_]nb[\w./-]*|colab\.research', f.read_text())}
    assert {(f,m) for f,m in named if not (url and m.startswith(url))}==set()

flags = dict( # of the original code; those that say which work to do are left out
    both="debug model_name model_size vocab_file do_lower_case learning_rate weight_decay_rate max_seq_length train_batch_size eval_batch_size model_dir use_tpu tpu_name model_hparam_overrides",
    pretrain="""electra_objective electric_objective gen_weight disc_weight mask_prob lr_decay_power num_warmup_steps save_checkpoints_steps num_train_steps num_eval_steps keep_checkpoint_max
        embedding_size vocab_size uniform_generator two_tower_generator untied_generator_embeddings untied_generator generator_layers generator_hidden_size disallow_correct temperature
        pretrain_tfrecords results_txt results_pkl""",
    finetune="""num_trials keep_all_models task_names warmup_proportion layerwise_lr_decay num_train_epochs write_test_outputs n_writes_test predict_batch_size double_unordered max_query_length
        doc_stride n_best_size max_answer_length answerable_classifier answerable_uses_start_logits answerable_weight joint_prediction beam_size qa_na_threshold init_checkpoint data_dir""")

@pytest.mark.parametrize('function', ('pretrain','finetune'))
def test_other_names(function):
    "What an error says about another program's name is an option of the function, or a sentence; the name itself is none."
    known = {o[1] for o in stored_help()[f'electra_{function}']['options']}
    table = other_names(function)
    assert not known&{*table} and {here for here in table.values() if ' ' not in here}<=known
    usual = """optim optimizer scheduler lr_scheduler_type label_smoothing model_name_or_path init_checkpoint gradient_checkpointing num_proc
    push_to_hub start init_from checkpoint pretrained vocab seq_len num_workers wandb gpus tokeniser trainer learning_rate max_steps"""
    assert {*usual.split()}<={*table}|known and (function=='finetune' or {'mlm','streaming','vocab_kind'}<={*table})
    assert {*flags[function].split(),*flags['both'].split()}<={*table}|known
    options = {'gpus':{'cuda'}, 'push_to_hub':{'public'}}
    for name,here in table.items(): assert {*re.findall(r"\b(\w+)=", here)}<=known|options.get(name, set()), (name,here)

usual_names = dict(num_epochs='steps', total_steps='steps', block_size='max_len', heads='n_heads', run_name='out', checkpoint_every='save_every', use_cpu='device',
    gen_size='generator_size', disc_lr='lr', tie_weights='tie', add_tokens='add_words', text='corpus')

def test_names_of_arguments():
    "A slip in the name of any argument is answered with that name, and a usual name of other programs never with an unrelated sentence."
    for f in (pretrain,finetune):
        for name in (n for n in signature(f).parameters if len(n)>4 and n!='options'):
            with pytest.raises(ValueError, match=f"did you mean '{name}'"): f(**{name+name[-1]:1})
    for name,here in usual_names.items():
        with pytest.raises(ValueError, match=f"unknown option '{name}': did you mean '{here}'"): pretrain(**{name:1})
    for name in ('project','updates_per_second','push'):
        with pytest.raises(ValueError, match=f"unknown option '{name}'") as e: pretrain(**{name:1})
        assert 'GPU' not in str(e.value)

def clone(folder):
    "A repository with the files of the project, as they are now."
    shutil.copytree(root, folder, ignore=shutil.ignore_patterns('.git','.ci-work*','.venv','build','dist','runs','*.egg-info','nbs','results','tests'))
    for args in (['init','-q'], ['config','user.name','A'], ['config','user.email','a@example.org'], ['add','-A'], ['commit','-qm','All files']):
        subprocess.run(['git',*args], cwd=folder, check=True)
    return folder

def release(folder, *args): return subprocess.run([sys.executable, 'docs/release.py', *args], cwd=folder, capture_output=True, text=True)

def test_release(tmp_path):
    "One command sets a version, and builds a source distribution that gives a wheel with the package and nothing else; both are as PyPI wants them."
    tree = clone(tmp_path/'tree')
    log = tree/'CHANGELOG.md'
    log.write_text('# Changes\n\n## 9.1.0\n\n### Text\n- A new thing.\n'+log.read_text().removeprefix('# Changes\n'))
    subprocess.run(['git','commit','-qam','What is new'], cwd=tree, check=True)
    done = release(tree, '9.1.0')
    assert done.returncode==0, done.stdout+done.stderr
    git = lambda *args: subprocess.run(['git',*args], cwd=tree, check=True, capture_output=True, text=True).stdout
    assert 'A new thing.' in git('tag','-n9','-l','v9.1.0') and '### Text' in git('tag','-n9','-l','v9.1.0') and git('status','--porcelain')==''
    assert all('9.1.0' in (tree/f).read_text() for f in ('settings.ini','CITATION.cff','electra_nb/__init__.py'))
    sdist,wheel = tree/'dist'/'electra_nb-9.1.0.tar.gz',tree/'dist'/'electra_nb-9.1.0-py3-none-any.whl'
    with tarfile.open(sdist) as t: source = {n.partition('/')[2] for n in t.getnames()}
    assert {'settings.ini','README.md','LICENSE','setup.py','pyproject.toml'}<=source
    assert not {'tests','nbs','results','experiments','docs','.github','.ci'} & {n.partition('/')[0] for n in source}
    names = zipfile.ZipFile(wheel).namelist()
    modules = {p.relative_to(root).as_posix() for p in (root/'electra_nb').rglob('*.py')}
    pages = {p.relative_to(root).as_posix() for f in ('reports/templates','export/web') for p in (root/'electra_nb'/'lab'/f).iterdir()}
    inside = {n for n in names if '.dist-info/' not in n}
    assert inside==modules|{f'electra_nb/{f}' for f in ('py.typed','__init__.pyi','help.json')}|pages
    assert any(n.endswith('licenses/LICENSE') or n.endswith('.dist-info/LICENSE') for n in names)

@pytest.mark.parametrize('version,why', [('9.1.0',"no section '## 9.1.0'"), ('0.0.1','older than'), ('new','is no version')])
def test_no_release(tmp_path, version, why):
    "What cannot be released is refused before a file changes."
    tree = clone(tmp_path/'tree')
    done = release(tree, version)
    assert done.returncode and why in done.stderr and not subprocess.run(['git','status','--porcelain'], cwd=tree, capture_output=True, text=True).stdout
    if version!='9.1.0': return
    (tree/'CHANGELOG.md').write_text('## 9.1.0\n\n- New.\n')
    assert 'not committed' in release(tree, version).stderr and 'the files say' in release(tree, version, '--only_build').stderr

def test_readme_links():
    "Local links of the README lead somewhere."
    for link in re.findall(r'\]\(([^)#]+)\)', (root/'README.md').read_text()):
        if not link.startswith('http'): assert (root/link).exists(), link

def prose(page): return '\n'.join(''.join(c['source']) for c in cells(root/'nbs'/f'{page}.ipynb') if c['cell_type']=='markdown')

def test_scipy_is_new_enough():
    "`pip` takes a SciPy with `false_discovery_control` (1.11) that works with NumPy 2 (1.13), which pyarrow needs."
    needs = next(map(Requirement, re.findall(r'\bscipy\S*', (root/'settings.ini').read_text())))
    assert not needs.specifier.contains('1.12.9') and needs.specifier.contains(version('scipy'))

def test_imports_are_declared():
    "What the package imports is in Python or among the requirements, so that an installation without the tools for developers works."
    needed = re.search(r'^requirements = (.*)$', (root/'settings.ini').read_text(), re.M)[1]
    declared = {re.split(r'[<>=]', r)[0].lower() for r in needed.split()}
    sources = [ast.parse(f.read_text()) for f in (root/'electra_nb').rglob('*.py')]
    found = [o for tree in sources for o in ast.walk(tree) if isinstance(o, (ast.Import,ast.ImportFrom)) and o.col_offset==0]
    names = {a.name for o in found if isinstance(o, ast.Import) for a in o.names} | {o.module for o in found if isinstance(o, ast.ImportFrom) and not o.level}
    tops = {n.split('.')[0] for n in names}-sys.stdlib_module_names-{'electra_nb'}
    assert len(tops)>10 and {dict(sklearn='scikit-learn').get(n, n).lower() for n in tops}<=declared

def test_readme_is_short():
    assert len((root/'README.md').read_text().split())<1000

def test_map_lists_every_notebook():
    "A reader finds every notebook on one page, under the name of its module."
    text = prose('map')
    for nb in nbs:
        link = nb.relative_to(root/'nbs').as_posix()
        assert link in ('index.ipynb','map.ipynb') or f']({link})' in text, link
        module = next((m[1] for c in cells(nb) if (m := re.search(r'^#\|\s*default_exp (\S+)', ''.join(c['source']), re.MULTILINE))), None)
        assert not module or f'[{module}]({link})' in text, module

def test_map_is_fresh():
    "Map, front page and README have today's numbers, titles and summaries: `python docs/map.py` writes them."
    done = subprocess.run([sys.executable, root/'docs'/'map.py', '--check'], capture_output=True, text=True)
    assert done.returncode==0, f'run python docs/map.py: {done.stdout}{done.stderr}'

def test_evening_path_is_on_the_front_page():
    "Front page and map have the twenty pages in one order, a line each, and links that lead somewhere."
    front = re.findall(r'^\d+\. \[(\w+)\]\(nbs/(book/\S+)\): \S', (root/'README.md').read_text(), re.M)
    on_map = re.findall(r'^\d+\. \[[\w.]*?(\w+)\]\((book/\S+)\): \S', prose('map'), re.M)
    assert front==on_map and all((root/'nbs'/link).exists() for _,link in front)
    assert ' '.join(name for name,_ in front)=="""tiny tokenizer packing batches towers init forward masking sampling rtd
evaluation optim checkpoints steps loop recipe pretraining features head learner""".replace('\n', ' ')

def of_both(name): return [json.loads((root/'results'/folder/name).read_text()) for folder in ('','avx2')]

def test_times_agree():
    "How long `pretrain()` takes is said in one way: as the files of two processors say it of the training, and in all."
    seeds = [s for r in of_both('tiny.json') for s in r['seeds']]
    assert all(1<s['minutes_training']<3 for s in seeds) and all(s['minutes_in_all']<5 for s in seeds)
    assert 'takes two to five minutes, of which one to three are training' in (root/'README.md').read_text()
    guides = [nb for nb in nbs if nb.parent.name in ('tutorials','howto','explain')]
    assert [nb.name for nb in guides if re.search(r'(?i)three minutes|one or two minutes|two minutes of `pretrain', nb.read_text())]==[]
    shown = re.search(r'trained for about (\w+) minutes on one CPU core', (root/'README.md').read_text())[1]
    assert {round(s['minutes_training']) for s in seeds}=={dict(one=1, two=2, three=3)[shown]}

def test_names_are_defined():
    "No module uses a name that it does not have, or imports one in vain."
    for py in (root/'electra_nb').rglob('*.py'):
        if py.name=='_modidx.py': continue
        out = io.StringIO()
        check(py.read_text(), py.name, Reporter(out, out))
        side_effects = ('electra_nb.lab.register','electra_nb.objectives.show','fastai.callback.progress','fastai.callback.hook',
        'electra_nb.lab.reports.rules')
        assert [l for l in out.getvalue().splitlines() if not any(f"'{m}' imported but unused" in l for m in side_effects)]==[]

def test_outputs_are_clean():
    "Stored outputs show no path of a machine, no warning, no traceback and no progress bar."
    for nb in nbs:
        out = json.dumps([c.get('outputs', []) for c in cells(nb)])
        assert not re.search(r'/(root|home|tmp|Users)/|Warning|Traceback|<progress|\[\d+/\d+ \d\d:\d\d', out), nb.name

def test_outputs_are_stored():
    "Every notebook with code shows what it gives."
    bare = [nb.name for nb in nbs if any(c['cell_type']=='code' for c in cells(nb)) and not any(c.get('outputs') for c in cells(nb))]
    assert not bare, bare

def test_pictures_are_drawings():
    "Stored pictures can be enlarged and opened: `docs/execute.py` stores them so."
    for nb in nbs:
        for o in (o for c in cells(nb) for o in c.get('outputs', [])):
            if svg := ''.join(o.get('data', {}).get('image/svg+xml', '')): ElementTree.fromstring(svg)
    formats = {(nb.name,k) for nb in nbs for c in cells(nb) for o in c.get('outputs', []) for k in o.get('data', {}) if k.startswith('image/')}
    assert len(formats)>30 and {k for _,k in formats}=={'image/svg+xml'}, formats

def test_pictures_are_described():
    "Every stored picture says in a sentence what is seen, to those who cannot see it: `fig-alt` in its cell."
    drawn = [(nb.name, ''.join(c['source'])) for nb in nbs for c in cells(nb) if any(k.startswith('image/') for o in c.get('outputs', []) for k in o.get('data', {}))]
    lacking = [(name,source[:60]) for name,source in drawn if not re.search(r'^#\| fig-alt: .{20,400}$', source, re.MULTILINE)]
    assert drawn and not lacking, lacking

def test_figures_have_files():
    "The README's figures of the built-in run are those of its files, from two processors."
    seeds = [s for r in of_both('tiny.json') for s in r['seeds']]
    text = (root/'README.md').read_text()
    for k in ('mask_accuracy','disc_auc','unigram_auc'):
        found = [s['valid'][k] for s in seeds]
        assert f'| {sum(found)/len(found):.3f} | {min(found):.3f} to {max(found):.3f} |' in text, k
    assert f'| mean | {len(seeds)} runs |' in text
    pairs = [v for r in of_both('order_pairs.json') for v in r['accuracy']]
    assert f"swapped in {sum(pairs)/len(pairs):.0f} % of pairs ({len(pairs)} runs: {min(pairs)} to {max(pairs)});" in text
    counted = json.loads((root/'results'/'ngram_pairs.json').read_text())
    assert f"counted n-grams in {counted['docstrings']['order_of_all']['accuracy']:.0f} %" in text
    assert f"n-grams in {counted['ten million words']['zorro'][-1]['accuracy']:.0f} %" in text
    said = f"in {sum(pairs)/len(pairs):.0f} % of pairs", f'{len(pairs)} full runs: {min(pairs)} to {max(pairs)}'
    assert all(s in prose(page) for page in ('explain/slips','howto/score') for s in said)
    def best(runs, start): # all seeds of a processor, with the best of three rates
        rates = {r['lr'] for r in runs}
        def of(lr): return [r['accuracy'] for r in runs if (r['task'],r['rows'],r['start'],r['lr'])==('word_order',1000,start,lr)]
        return max(map(of, rates), key=sum)
    studies = [r['runs'] for r in of_both('first_minutes.json')]
    ours,fresh = ([v for runs in studies for v in best(runs, start)] for start in ('pretrained','random'))
    said = f"{sum(ours)/len(ours):.0f} % of new ones ({len(ours)} runs: {min(ours):.1f} to {max(ours):.1f})"
    assert f"{said}; a random start on {sum(fresh)/len(fresh):.0f} %" in text
    hours = json.loads((root/'results'/'one_hour.json').read_text())['three seeds']
    def zorro(tower): return [hours[f'seed {i}']['pairs'][f'zorro {tower}'][-1]['accuracy'] for i in range(3)]
    for tower in ('generator','discriminator'):
        found = zorro(tower)
        assert f"in {sum(found)/3:.0f} % ({'three runs: ' if tower=='generator' else ''}{min(found):.1f} to {max(found):.1f})" in text, tower

def test_results_say_what_they_are():
    "A file of measurements names what it holds, its commit and its date."
    found = {p:json.loads(p.read_text()) for p in (root/'results').rglob('*.json')}
    measured = {k:d for k,d in found.items() if isinstance(d, dict) and 'what' in d}
    assert len(measured)>10 and not {k for k,d in measured.items() if not {'commit','date'}<=d.keys()}

def test_speed_has_file():
    "What the README says of speed is in its file."
    tables = [{r['variant']:r for r in json.loads((root/'results'/f'{name}.json').read_text())['step']['table']} for name in ('bench','avx2/bench','avx2/bench_again')]
    found = [t['fused optimizer (lean)']['times_as_fast'] for t in tables]
    said = f'The same algorithm {min(found):.1f} to {max(found):.1f} times as fast as a plain faithful one, on two processors'
    assert said in (root/'README.md').read_text()

def test_study_has_file():
    "What `does_pretraining_help` says of failed runs, and that chunks alone are certain, follows from its file."
    studies = {(s['run'],s['task'],s['lr']):s for s in map(json.loads, (root/'results'/'finetuning.jsonl').read_text().splitlines())}
    gain = {k:s['gain'][0] for k,s in studies.items()}
    assert gain['hour','mr',None]['note'].startswith('not tested: 3 of 5 runs of the random start') and gain['hour','cola',None]['p'] is None
    assert all(gain[run,'chunk',None]['p']<.01 for run in ('tiny','hour'))
    assert .05<min(g['p'] for (run,task,_),g in gain.items() if run=='tiny' and task!='chunk')

def test_rivals_have_file():
    "What `does_pretraining_help` says of counting is in its file, and rivals are ahead where it says so."
    rivals = {(r['task'],r['rival']):r['score'] for r in map(json.loads, (root/'results'/'rivals.jsonl').read_text().splitlines())}
    studies = {(s['run'],s['task']):s for s in map(json.loads, (root/'results'/'finetuning.jsonl').read_text().splitlines()) if s['lr'] is None}
    best = {task:rivals[name,'tf-idf'] for task,name in dict(mr='mr_6398', subj='subj_6000', sst2='sst2_10000').items()} | dict(chunk=rivals['chunk','CRF'])
    ours = {task:next(r['mean'] for r in studies['hour',task]['statistics'] if r['start']=='pretrained') for task in best}
    text = prose('explain/does_pretraining_help')
    assert f"has {best['mr']:.1f} on MR, {best['subj']:.1f} on SUBJ and {best['sst2']:.1f} on SST-2" in text
    assert f"a CRF has {best['chunk']:.1f} against {ours['chunk']:.1f}, with classes of words {rivals['chunk','CRF with clusters']:.1f}" in text
    assert f"against {ours['mr']:.1f}, {ours['subj']:.1f} and {ours['sst2']:.1f} here" in text
    assert all(best[t]>ours[t] for t in best)
    few = {s['rows']:s['gain']['mean_a'] for s in json.loads((root/'results'/'few_labels.json').read_text())['studies']}
    assert {n for n in few if few[n]>rivals[f'sst2_{n}','tf-idf']}=={300}
    assert f"n-grams on {rivals['word_order_1000','n-grams']:.0f} %" in (root/'README.md').read_text()

def test_notebook_links():
    "Local links of the notebooks lead somewhere."
    for nb in nbs:
        base = root if nb.name=='index.ipynb' else nb.parent
        text = '\n'.join(''.join(c['source']) for c in cells(nb) if c['cell_type']=='markdown')
        for link in re.findall(r'\]\(([^)#\s]+)\)', text):
            if not link.startswith('http'): assert (base/link).exists(), f'{nb.name}: {link}'

def test_callbacks_leave_run():
    "fastai sets `run` of every callback to True after a fit, so no callback may keep anything there."
    of = lambda c: {b.attr if isinstance(b, ast.Attribute) else getattr(b, 'id', '') for b in c.bases}
    classes = [c for f in sorted((root/'electra_nb').rglob('*.py')) for c in ast.walk(ast.parse(f.read_text())) if isinstance(c, ast.ClassDef) and 'Callback' in of(c)]
    assert len(classes)>15
    for c in classes:
        kept = {n.attr for n in ast.walk(c) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)} | {n.name for n in c.body if isinstance(n, ast.FunctionDef)}
        assert 'run' not in kept, c.name

def test_notebooks_leave_no_settings():
    "One process tests several notebooks: the log's level and the cache are left as they were found."
    for nb in nbs:
        sources = [''.join(c['source']) for c in cells(nb) if c['cell_type']=='code']
        lines = [l for s in sources if '#| export' not in s and '#| eval: false' not in s for l in s.splitlines()]
        levels = [l for l in lines if l.startswith('logger.setLevel')]
        assert not levels or levels[-1]=="logger.setLevel('INFO')", nb
        caches = [l for l in lines if l.startswith('os.environ') and 'ELECTRA_NB_CACHE' in l]
        assert all('mkdtemp()' in l or "str(home/'cache')" in l for l in caches), nb
