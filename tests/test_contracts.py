"Every row of the tables of objectives and of families has every member of its contract."
import pytest, re, torch
import electra_nb.lab.register # puts the lab's rows into the tables
from dataclasses import fields
from electra_nb.model.families import count_weights, families, family_of
from electra_nb.model.forward import at_slots
from electra_nb.model.towers import ModelConfig, get_models, tower_configs
from electra_nb.objectives.contract import Evaluate, Objective, Panel, encoder_flops
from electra_nb.objectives.table import objectives
from electra_nb.text.tokenizer import tiny_tokenizer
from pathlib import Path
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedConfig, PreTrainedModel

members = [k for k in (*Objective.__annotations__,*vars(Objective)) if not k.startswith('__')]
shape = ModelConfig(hidden_size=32, n_layers=2, n_heads=2, embedding_size=16, generator_size=.5, max_positions=64)

@pytest.mark.parametrize('name', objectives)
def test_objective(name):
    "Each member is there and of its kind, and the towers that it names exist."
    o = objectives[name]
    assert isinstance(o, Objective) and all(hasattr(o, k) for k in members)
    assert o.encoder in o.towers and o.losses and o.description!=Objective.description
    named = o.mlm_tower,o.rtd_tower,o.energies,*o.waits
    assert all(tower is None or tower in o.towers for tower in named)
    assert all(isinstance(p, Panel) for p in o.panels) and isinstance(o.headline_metrics, dict) and isinstance(o.meanings, dict)
    assert all(isinstance(getattr(o, k), tuple) for k in ('towers','table','panels','without','waits'))
    o.check_model(shape)
    o.check_steps(1000)
    assert o.flops(shape, 8, 64, 300)>0

@pytest.mark.parametrize('name', objectives)
def test_learner_arguments(name):
    "It builds the towers that it names, and its call gives what fastai's `Learner` takes."
    o,tok = objectives[name],tiny_tokenizer()
    towers = o.build(shape, len(tok))
    assert tuple(towers)==o.towers
    args = o(towers, tok)
    assert set(args)=={'model','loss_func','cbs','metrics'}
    assert tuple(args['model'].parts)==o.towers and args['model'].encoder==o.encoder
    assert [m.name for m in args['metrics']]==list(o.table)
    assert sum(isinstance(cb, Evaluate) for cb in args['cbs'])==1
    assert isinstance(args['cbs'][0], o.masking) and hasattr(args['loss_func'], 'last')

def test_summary():
    "The default says the figures of a report."
    class Small(Objective): headline_metrics = {'loss':'a', 'area':'b'}
    assert Small().summary(dict(a=1., b=.5))=='loss 1.000, area 0.500'

@pytest.mark.parametrize('name', families)
def test_family(name):
    "Each member is there; both towers are built, tied, initialised and cut into parts by it."
    family = families[name]
    assert all(getattr(family, f.name) is not None for f in fields(family) if f.name not in ('unpad','layer','dense_head'))
    assert {'mlm','rtd','classify','tag','answer'}<=family.heads.keys() and family.head_weights.keys()=={'mlm','rtd'}
    gen_cfg,disc_cfg = family.configs(shape, 300, 0)
    assert isinstance(gen_cfg, PreTrainedConfig) and all(hasattr(disc_cfg, k) for k in family.dropouts)
    read = family.config(disc_cfg.to_dict(), 'a folder')
    assert all(getattr(read, k)==getattr(disc_cfg, k) for k in ('vocab_size','hidden_size','num_hidden_layers'))
    gen,disc = family.heads['mlm'](gen_cfg),family.heads['rtd'](disc_cfg)
    for tower in (gen,disc): family.initialize(tower, shape)
    family.tie(gen, disc, 'embeddings', True)
    assert gen.get_input_embeddings().weight is disc.get_input_embeddings().weight is gen.get_output_embeddings().weight
    encoder = disc.base_model
    assert issubclass(family.encoder, type(encoder)) and isinstance(encoder, PreTrainedModel)
    parts = [p for block in family.blocks(encoder) for m in block for p in m.parameters()]
    assert len(parts)==len(set(parts)) and set(parts)==set(encoder.parameters())
    assert len(family.blocks(encoder))==1+disc_cfg.num_hidden_layers
    assert count_weights(disc_cfg)>=sum(p.numel() for p in parts)
    for kind,tower in dict(mlm=gen, rtd=disc).items():
        assert any(k.startswith(family.head_weights[kind]) for k in tower.state_dict())

@pytest.mark.parametrize('name', families)
def test_forward(name):
    "Logits and hidden states have the shapes of the contract; padding has no influence."
    family = families[name]
    torch.manual_seed(0)
    gen,disc = get_models(ModelConfig(**{**vars(shape), 'family':name}), 300)
    ids,mask = torch.randint(5, 300, (2,8)),torch.arange(8)<torch.tensor([[8],[5]])
    types,at = torch.zeros_like(ids),torch.tensor([[1,2],[3,4]])
    other = ids.masked_fill(~mask, 7)
    for tower in (gen,disc): tower.eval()
    def rtd(x): return family.rtd_head(disc, family.forward(disc.base_model, x, mask, types))
    def mlm(x): return family.mlm_head(gen, at_slots(family.forward(gen.base_model, x, mask, types), at))
    with torch.no_grad():
        for f in (lambda x: family.forward(disc.base_model, x, mask, types)[mask], lambda x: rtd(x)[mask], mlm): torch.testing.assert_close(f(ids), f(other))
        assert family.forward(disc.base_model, ids, mask, types).shape==(2,8,32)
        assert mlm(ids).shape==(2,2,300) and rtd(ids).shape==(2,8)
        states = family.forward(disc.base_model, ids, mask, types, output_hidden_states=True)
    assert len(states)==1+tower_configs(shape, 300)[1].num_hidden_layers and family_of(disc) is families[disc.config.model_type]
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counted: family.forward(disc.base_model, ids, mask, types)
    assert encoder_flops(disc.config, ids.numel(), 8)==pytest.approx(counted.get_total_flops(), rel=.005)

objectives_of = [*Path(electra_nb.__file__).parent.glob('objectives/*.py'), *Path(electra_nb.__file__).parent.glob('lab/objectives/*.py')]

def test_no_class_by_name():
    "Objectives ask the family for classes of transformers; the generator of two towers alone is made of ELECTRA's layers."
    named = {p.stem for p in objectives_of if re.search(r'\bElectra[A-Z]\w+', p.read_text())}
    assert named<={'two_tower'}
