"Towers of every family are trained, resumed, saved, loaded by plain transformers, scored and fine-tuned like ELECTRA's."
import json, pytest, subprocess, sys, torch
from dataclasses import replace
from functools import partial
from electra_nb import finetune, pretrain, score
from electra_nb.core.tiny import tiny_text
from electra_nb.glue.encoders import find_encoder, load_encoder
from electra_nb.glue.head import Classifier, Task
from electra_nb.glue.kinds import kind_of
from electra_nb.glue.learner import finetune_config, layer_factors, layer_groups, set_dropout
from electra_nb.glue.twin import load_head, lone_encoder
from electra_nb.lab.families.optimizers import is_layer_matrix
from electra_nb.lab.questions.head import Reader, heads
from electra_nb.lab.tags.tagger import Tagger
from electra_nb.lab.tags.wide import WideTagger
from electra_nb.model.families import electra_config, encode, families, mlm_logits, rtd_logits, tie_towers
from electra_nb.model.hf import load_models, load_tower, save_models, save_tower
from electra_nb.model.towers import ModelConfig, get_models
from electra_nb.objectives.table import objectives
from electra_nb.recipe import make_recipe
from electra_nb.text.tokenizer import load_tokenizer, tiny_tokenizer
from electra_nb.training.loop import watchers
from electra_nb.training.optim import decay_groups
from fastai.callback.core import Callback, CancelFitException
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoModelForTokenClassification, BertConfig, RobertaConfig

texts = tiny_text.split('\n\n')
small = dict(steps=12, bs=4, max_len=32, vocab_size=300, valid=.3, eval_every=4, log_every=2, save_every=5, device='cpu', threads=1, dropout=.1)
names = 'bert','bert_two_labels','albert','modern'
shape = ModelConfig(hidden_size=32, n_layers=2, n_heads=2, embedding_size=16, max_positions=64, dropout=0., attention_dropout=0.)
ids,mask = torch.tensor([[2,9,8,7,3],[2,11,12,3,0]]),torch.tensor([[1,1,1,1,1],[1,1,1,1,0]]).bool()
lens = mask.sum(1)

class Halfway(Callback):
    def before_batch(self):
        if self.training and self.learn.steps.done==6: raise CancelFitException()

@pytest.fixture(scope='module', autouse=True)
def unwatched():
    "Without reports, which take longer than twelve steps."
    kept = watchers[:]
    watchers.clear()
    yield
    watchers.extend(kept)

@pytest.fixture(scope='module')
def home(tmp_path_factory): return tmp_path_factory.mktemp('runs')

def run(home, family, out, **kw): return pretrain(family=family, corpus=texts, out=home/f'{family}-{out}', cache=home/'cache', **{**small, **kw})

@pytest.fixture(scope='module')
def whole(home):
    runs = {}
    def get(family):
        if family not in runs: runs[family] = run(home, family, 'whole')
        return runs[family]
    return get

@pytest.mark.parametrize('family', names)
def test_resumed(home, whole, family):
    "Stopped in the middle and called again: the same weights, and the embeddings are one table for both towers."
    for cbs,done in (([Halfway()], 6),([], 12)):
        learn = run(home, family, 'stopped', cbs=cbs)
        assert learn.steps.done==done
    assert all(map(torch.equal, whole(family).model.parameters(), learn.model.parameters()))
    gen,disc = learn.model.generator,learn.model.discriminator
    assert gen.get_output_embeddings().weight is gen.get_input_embeddings().weight is disc.get_input_embeddings().weight

def test_folders(home, whole):
    "Both folders load with transformers' Auto classes in a process without this project, and give the logits of training."
    for family in names: whole(family)
    code = '''import sys, json, torch
from transformers import AutoModelForMaskedLM as M, AutoModelForTokenClassification as T
ids = torch.tensor(json.loads(sys.argv[1]))
found = []
for folder in sys.argv[2:]:
    for cls,name in ((M,'generator'),(T,'discriminator')):
        model,info = cls.from_pretrained(f'{folder}/{name}', output_loading_info=True)
        assert not any(info[k] for k in ('missing_keys','unexpected_keys','mismatched_keys')), info
        found.append(model.eval()(ids, attention_mask=(ids>0).long()).logits.tolist())
assert not any(k.startswith('electra_nb') for k in sys.modules)
print(json.dumps(found))'''
    argv = [sys.executable, '-c', code, json.dumps(ids.tolist()), *(str(home/f'{family}-whole') for family in names)]
    found = [torch.tensor(o) for o in json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()[-1])]
    for family,words,verdicts in zip(names, found[::2], found[1::2]):
        gen,disc = (whole(family).model.parts[t].eval() for t in ('generator','discriminator'))
        verdicts = verdicts[...,0] if verdicts.shape[-1]==1 else verdicts[...,1]-verdicts[...,0]
        with torch.no_grad():
            at_slots = mlm_logits(gen, ids, torch.tensor([[1],[2]]), mask)[:,0]
            torch.testing.assert_close(words[[0,1],[1,2]], at_slots, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(verdicts[mask], rtd_logits(disc, ids, mask)[mask], atol=1e-5, rtol=1e-4)
        assert len(load_file(home/f'{family}-whole/generator/model.safetensors'))<len(gen.state_dict()) # the tied table is there once

@pytest.mark.parametrize('family', names)
def test_scored(home, whole, family):
    "Both towers of a run score texts, and so does the folder of one of them."
    whole(family)
    for source,by in ((f'{family}-whole',None),(f'{family}-whole','generator'),(f'{family}-whole/discriminator','discriminator')):
        assert len(score(str(home/source), ['The fisher sells fish.'], by=by, device='cpu'))
    with pytest.raises(ValueError, match='holds a generator, not a discriminator'): score(str(home/f'{family}-whole'/'generator'), ['A.'], by='discriminator')

@pytest.mark.parametrize('family', names)
def test_layer_rates(home, whole, family):
    "Every weight has a learning rate, the layers each their own; hidden states of all layers can be asked for; dropout is set."
    whole(family)
    encoder = load_encoder(home/f'{family}-whole', .2, .3)
    assert encoder.config.to_dict()[families[encoder.config.model_type].dropouts[0]]==.2
    model,n = Classifier(encoder, 2),encoder.config.num_hidden_layers
    groups = layer_groups(model)
    assert len(groups)==len(layer_factors(n))==2*(2+n)
    assert sorted(id(p) for g in groups for p in g)==sorted(id(p) for p in model.parameters())
    set_dropout(encoder, 0., 0.)
    states = encode(encoder.eval(), ids, mask, output_hidden_states=True)
    torch.testing.assert_close(states[-1][mask], encode(encoder, ids, mask)[mask])

@pytest.mark.parametrize('family', names)
def test_twins(tmp_path, family):
    "Fine-tuned models of the three kinds are transformers' own classes with the same outputs; a saved classifier loads again."
    torch.manual_seed(0)
    encoder,tok = get_models(replace(shape, family=family), 220)[1].base_model.eval(),tiny_tokenizer()
    hf_in = dict(input_ids=ids, attention_mask=mask.long(), **({} if family=='modern' else dict(token_type_ids=ids*0)))
    without = families[encoder.config.model_type].without
    for pooling in ('cls','mean'):
        if ('pooling',pooling) in without: continue
        for n,task in ((3,Task(('a',), tuple('xyz'))),(1,Task(('a',), scale=(0.,5.)))):
            model = Classifier(encoder, n, pooling=pooling).eval()
            with torch.no_grad():
                want,hf = model(ids, lens, lens),model.hf_model(task)
                torch.testing.assert_close(hf(**hf_in).logits, want if n>1 else 5*want, atol=2e-5, rtol=1e-4)
    model.save(tmp_path/'saved', tok, task)
    with torch.no_grad(): assert torch.equal(load_head(tmp_path/'saved', [Classifier]).eval()(ids, lens, lens), want)
    tagger = Tagger(encoder, 4, word_types=0).eval()
    first = torch.tensor([[1,2,3],[1,2,0]])
    reader = Reader(encoder, heads['plain']).eval()
    with torch.no_grad():
        got = tagger.hf_model(Task(('a',), tuple('abcd')))(**hf_in).logits.gather(1, first[...,None].expand(-1, -1, 4))
        torch.testing.assert_close(got, tagger(ids, lens, lens, first), atol=2e-5, rtol=1e-4)
        starts = reader.hf_model(None)(**hf_in).start_logits
        torch.testing.assert_close(starts[mask], reader.head.start(encode(encoder, ids, mask, ids*0))[...,0][mask], atol=2e-5, rtol=1e-4)
    for name,twin in dict(answers=lone_encoder(Reader(encoder)), tags=lone_encoder(WideTagger(encoder, 4))).items():
        twin.save_pretrained(tmp_path/name)
        with pytest.raises(ValueError, match=f'_{name}'): AutoModelForTokenClassification.from_pretrained(tmp_path/name)
        with torch.no_grad(): assert torch.equal(encode(load_encoder(tmp_path/name).eval(), ids, mask), encode(encoder, ids, mask))

@pytest.mark.parametrize('family,norm', [('bert','encoder.layer.1.output.LayerNorm'),('albert','encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm')])
def test_twins_of_large_vectors(family, norm):
    "The class of transformers has the same outputs where the last normalization makes vectors far larger than that of the attention."
    torch.manual_seed(0)
    encoder = get_models(replace(shape, family=family), 220)[1].base_model.eval()
    encoder.get_submodule(norm).weight.data *= 1000
    model = Classifier(encoder, 3).eval()
    with torch.no_grad(): want,got = model(ids, lens, lens),model.hf_model(Task(('a',), tuple('xyz')))(ids, mask.long(), ids*0).logits
    torch.testing.assert_close(got/want, torch.ones_like(want), atol=2e-5, rtol=0)

def test_too_many_labels():
    "More labels than the class of transformers can carry are refused before the training, not after it."
    many = Task(('a',), tuple(f'label {i}' for i in range(40)))
    encoder = get_models(replace(shape, family='modern'), 100)[1].base_model
    for pooling,says in dict(cls='a head for 40 labels does not fit', mean='has room for 29 labels').items():
        with pytest.raises(ValueError, match=says): kind_of(many).model(encoder, 0., kind_of(many).settings(pooling=pooling, text_head='plain'))

def test_pooling():
    "A family whose class reads [CLS] only has that as its default, and refuses the mean before any training."
    cfg = get_models(replace(shape, family='albert'), 100)[1].config
    assert finetune_config(cfg).own.pooling=='cls'
    with pytest.raises(ValueError, match="pooling='mean' cannot be saved with an encoder of type 'albert'"): finetune_config(cfg, pooling='mean')

@pytest.mark.parametrize('family', names)
def test_tied(tmp_path, family):
    "Each way of tying shares what it says, and saved towers load again with the same sharing."
    tok = tiny_tokenizer()
    for tie in ('embeddings','disentangled','all','none'):
        towers = get_models(replace(shape, family=family, tie=tie, generator_size=.5), len(tok))
        shared = set(towers[0].parameters()) & set(towers[1].parameters())
        assert bool(shared)==(tie in ('embeddings','all'))
        save_models(*towers, tmp_path/tie, tok)
        again = load_models(tmp_path/tie, tie)
        assert len(set(again[0].parameters()) & set(again[1].parameters()))==len(shared)
        with torch.no_grad():
            for a,b in zip(towers, again):
                torch.testing.assert_close(encode(a.base_model.eval(), ids, mask)[mask], encode(b.base_model.eval(), ids, mask)[mask])
            read = again[1].get_input_embeddings().weight.clone()
            again[0].get_input_embeddings().weight += 1
        assert torch.equal(read, again[1].get_input_embeddings().weight)==(tie=='none')

def test_mixed_pairs(tmp_path):
    "Towers of two families are refused, in memory and in a folder."
    bert,albert = (get_models(replace(shape, family=f), 100) for f in ('bert','albert'))
    for tie in ('embeddings','all','none'):
        with pytest.raises(ValueError, match="type 'albert' cannot go with a discriminator of type 'bert'"): tie_towers(albert[0], bert[1], tie)
    save_models(albert[0], bert[1], tmp_path/'mixed')
    with pytest.raises(ValueError, match='cannot go with'): load_models(tmp_path/'mixed')

@pytest.mark.parametrize('name', objectives)
def test_objectives(name):
    "An objective builds its towers in each family, or says for which it is made."
    o,tok = objectives[name],tiny_tokenizer()
    for family in names:
        if o.families:
            with pytest.raises(ValueError, match='is made for electra'): make_recipe(objective=name, family=family)
            continue
        model = o(o.build(replace(shape, family=family), len(tok)), tok)['model']
        out = model(ids, lens, lens, ids.masked_fill(ids==9, tok.mask_token_id), torch.tensor([[1],[1]]))
        assert out[0].isfinite().all()

@pytest.mark.parametrize('family,old', [('bert','bert.pooler.dense.weight'),('albert','albert.pooler.weight')])
def test_foreign(tmp_path, family, old):
    "A folder with transformers' pooler and other settings is read as transformers reads it; what is impossible is refused."
    torch.manual_seed(0)
    gen,_ = get_models(replace(shape, family=family), 100)
    family = families[family]
    cls = family.encoder.__mro__[1]
    cfg = type(gen.config)(**{**gen.config.to_dict(), 'hidden_act':'relu', 'layer_norm_eps':1e-3})
    theirs = cls(cfg).eval()
    theirs.save_pretrained(tmp_path/'theirs')
    assert old.split('.', 1)[1] in load_file(tmp_path/'theirs'/'model.safetensors')
    ours = load_tower(family.encoder, tmp_path/'theirs').eval()
    with torch.no_grad(): torch.testing.assert_close(encode(ours, ids, mask)[mask], theirs(ids, mask).last_hidden_state[mask], atol=1e-5, rtol=1e-4)
    for k,v in dict(hidden_size=0, num_attention_heads=3, hidden_act='own', vocab_size=10**9, pad_token_id=-1).items():
        with pytest.raises(ValueError, match=k): family.config({**cfg.to_dict(), k:v}, 'a folder')

def test_modern_settings(tmp_path):
    "ModernBERT's own settings change what is computed, and are kept."
    torch.manual_seed(0)
    family = families['modern']
    cfg = family.configs(replace(shape, n_layers=3), 100)[1]
    values = {**cfg.to_dict(), 'layer_types':['sliding_attention']*3, 'local_attention':2, 'norm_bias':True, 'norm_eps':1e-3}
    values['rope_parameters'] = {k:dict(rope_type='default', rope_theta=50.) for k in ('full_attention','sliding_attention')}
    theirs = family.encoder(type(cfg)(**values)).eval()
    theirs.save_pretrained(tmp_path/'theirs')
    ours = load_tower(family.encoder, tmp_path/'theirs').eval()
    with torch.no_grad():
        got,want = encode(ours, ids),theirs(ids).last_hidden_state
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)
        plain = family.encoder(family.config({**cfg.to_dict()}, 'a folder')).eval()
        plain.load_state_dict(theirs.state_dict(), strict=False)
        assert (encode(plain, ids)-want).abs().max()>1e-3

@pytest.mark.parametrize('kind', [BertConfig,RobertaConfig])
def test_known_settings(kind):
    "A family says what a setting is that a config.json may lack; that of the file comes first (`howto/new_family`)."
    config = partial(electra_config, kind=kind, bos_token_id=None, type_vocab_size=2, max_position_embeddings=40)
    read = config(kind(type_vocab_size=3, max_position_embeddings=50).to_dict(), 'a folder')
    assert (read.type_vocab_size,read.max_position_embeddings)==(3,50)
    assert config({}, 'a folder').max_position_embeddings==40

def test_lone_encoder_folder(tmp_path):
    "Without a recipe.json, as in `howto/another_machine`, a folder with one tower has its encoder there."
    tower = get_models(ModelConfig(hidden_size=32, n_layers=1, n_heads=2, embedding_size=32, max_positions=64), 300)[1]
    for name in ('encoder','discriminator'):
        save_tower(tower, tmp_path/name, tiny_tokenizer())
        assert find_encoder(tmp_path)==str(tmp_path/name)

def test_names_of_the_lab():
    "A program that imports the book alone is told where the other names are; with the lab nothing is added."
    code = """
from electra_nb.recipe import make_recipe
def said(**more):
    try: make_recipe('tiny', **more)
    except ValueError as e: return 'more are known after import electra_nb.lab.register' in str(e)
unknown = dict(family='moderm'),dict(objective='elektra')
print([said(**k) for k in unknown])
import electra_nb.lab.register
print([said(**k) for k in unknown])"""
    assert subprocess.run([sys.executable,'-c',code], capture_output=True, text=True, check=True).stdout.split('\n')[:2]==['[True, True]','[False, False]']

def test_named_recipes():
    "lmtuners' recipes: 17 and 4 million parameters, batches of 512, half a million steps, LAMB."
    for name,low,high in (('small_owt',17e6,18e6),('alectra',4e6,5e6)):
        r = make_recipe(name)
        assert (r.train.bs,r.train.steps,r.optim.optimizer,r.optim.bias_correction)==(512,500_000,'lamb',True)
        with torch.device('meta'): n = get_models(r.model)[1].base_model.num_parameters()
        assert low<=n<high

@pytest.mark.parametrize('optimizer', ['lamb','muon'])
def test_optimizers(home, optimizer):
    "A run with another optimizer learns, and goes on after a stop as if there had been none."
    kw = dict(optimizer=optimizer, schedule='wsd', generator_lr=1e-3)
    whole = run(home, 'electra', f'{optimizer}-whole', **kw)
    for cbs in ([Halfway()],[]): learn = run(home, 'electra', f'{optimizer}-stopped', cbs=cbs, **kw)
    assert all(map(torch.equal, whole.model.parameters(), learn.model.parameters()))
    usual = run(home, 'electra', 'adam', **{**kw, 'optimizer':'adam'})
    assert not all(map(torch.equal, whole.model.parameters(), usual.model.parameters()))

def test_finetuned(home, whole, monkeypatch):
    "Classes and tags, by `finetune`, on files of a user."
    monkeypatch.chdir(home)
    (home/'reviews.csv').write_text('text,label\n'+'\n'.join(f'{w} fish {i},{l}' for i in range(20) for w,l in (('good','yes'),('bad','no'))))
    (home/'tags.txt').write_text('\n\n'.join(f'The O\nfisher B\nsells O\n{i} O\nfish B' for i in range(20))+'\n')
    for family in ('bert','albert','modern'):
        whole(family)
        for i,data in enumerate(('reviews.csv','tags.txt')):
            study = finetune(f'{family}-whole', data=data, runs=1, epochs=1, device='cpu', out=f'{family}-{i}', baseline=False)
            assert study is not None

def test_tables_of_gdes():
    "Muon leaves tables alone, those that share by difference too."
    model = torch.nn.ModuleList(get_models(ModelConfig(hidden_size=64, embedding_size=64, n_layers=1, tie='disentangled'), 300))
    assert len(decay_groups(model))==2
    tables = [p for n,p in model.named_parameters() if 'embeddings.' in n and p.ndim==2 and 'LayerNorm' not in n]
    assert len(tables)>3 and not any(map(is_layer_matrix, tables))
