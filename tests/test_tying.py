"What the towers share: nothing, their embeddings, these with a difference, or the whole encoder."
import pytest, torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining

from electra_nb import diagnose, open_run, plan, pretrain
from electra_nb.model.towers import ModelConfig, get_models
from electra_nb.objectives.rtd import JointLoss, LossConfig, RTDModel
from electra_nb.recipe import make_recipe
from electra_nb.core.tiny import tiny_text
from test_objectives import StopAt, timeless

docs = tiny_text.split('\n\n')
settings = dict(corpus=docs, steps=20, bs=4, max_len=32, eval_every=10, log_every=5, save_every=10, device='cpu', threads=1)
ties = ('none','embeddings','disentangled','all')
shape = dict(hidden_size=32, n_layers=2, n_heads=2, embedding_size=16, max_positions=64, dropout=0., attention_dropout=0.)

def names(tower, params): return {n for n,p in tower.named_parameters() if any(p is q for q in params)}

@pytest.mark.parametrize('tie', ties)
def test_which_tensors_are_shared(tie):
    "Word, position and type vectors and their layer norm; or the encoder as well; the heads never."
    gen,disc = get_models(ModelConfig(**shape, tie=tie), 300)
    shared = names(gen, list(disc.parameters()))
    embeddings = {n for n,_ in gen.named_parameters() if n.startswith('electra.embeddings.')}
    encoder = {n for n,_ in gen.named_parameters() if n.startswith('electra.')}
    assert shared==dict(none=set(), embeddings=embeddings, disentangled=set(), all=encoder)[tie]
    assert len(embeddings)==5 and gen.generator_lm_head.weight is gen.get_input_embeddings().weight
    widths = gen.config.hidden_size,disc.config.hidden_size
    assert widths==((32,32) if tie=='all' else (8,32)), 'the whole encoder can only be shared at equal sizes'

@pytest.mark.parametrize('tie', ties)
def test_gradients(tie):
    "A shared tensor gets the sum of what both losses ask for, another one that of its own tower alone."
    torch.manual_seed(0)
    model = RTDModel(*get_models(ModelConfig(**shape, tie=tie), 300)).eval()
    ids,lens = torch.randint(5, 300, (4,12)),torch.full((4,), 12)
    slots,masked = torch.tensor([[2,5,7]]*4),ids.index_fill(1, torch.tensor([2,5,7]), 4)
    model.sample = lambda logits,log_probs,targets: (targets+1)%300
    def gradients(gen, disc):
        model.zero_grad(set_to_none=True)
        JointLoss(LossConfig(gen, disc))(model(ids, lens, lens, masked, slots), torch.ones(4, 3)).backward()
        return {n:p.grad.clone() for n,p in model.named_parameters()}
    of_gen,of_disc,of_both = gradients(1., 0.), gradients(0., 5.), gradients(1., 5.)
    touched = lambda grads, tower: {n for n,p in tower.named_parameters() if any(p is q for m,q in model.named_parameters() if grads[m].any())}
    assert all(torch.allclose(of_both[n], of_gen[n]+of_disc[n], atol=1e-6) for n in of_both)
    part = dict(none='nothing', embeddings='electra.embeddings.', disentangled='nothing', all='electra.')[tie]
    assert {n for n in touched(of_gen, model.discriminator) if not n.startswith(part)}==set()
    assert {n for n in touched(of_disc, model.generator) if not n.startswith(part)}==set()
    if tie in ('embeddings','all'): assert touched(of_gen, model.discriminator) and touched(of_disc, model.generator)

@pytest.mark.parametrize('tie', ties)
def test_a_run(tie, tmp_path):
    "Stopped and gone on with: the same bits, tensors still shared; both folders load in transformers; a plan counts the shape."
    own = dict(settings, tie=tie, cache=tmp_path/'cache')
    pretrain(**own, out=tmp_path/'whole')
    for n in (7,99): learn = pretrain(**own, out=tmp_path/'broken', cbs=[StopAt(n)])
    shared = names(learn.model.generator, list(learn.model.discriminator.parameters()))
    whole,broken = ({t:load_file(tmp_path/run/t/'model.safetensors') for t in ('generator','discriminator')} for run in ('whole','broken'))
    assert all(torch.equal(v, broken[t][k]) for t,tower in whole.items() for k,v in tower.items())
    assert timeless(tmp_path/'whole')==timeless(tmp_path/'broken') and diagnose(tmp_path/'whole')==[]
    common = [k for k in whole['generator'] if k in whole['discriminator'] and whole['generator'][k].shape==whole['discriminator'][k].shape]
    same = {k for k in common if torch.equal(whole['generator'][k], whole['discriminator'][k])}
    moved = {k for k in same if 'LayerNorm' not in k and not k.endswith('bias')} # both towers begin with ones and zeros
    assert (tie in ('embeddings','all'))==bool(moved) and shared<=same
    gen,disc = (c.from_pretrained(tmp_path/'whole'/t) for c,t in ((AutoModelForMaskedLM,'generator'),(AutoModelForPreTraining,'discriminator')))
    assert not any('parametrizations' in k for k in whole['discriminator'])
    for tower,module in (('generator',gen),('discriminator',disc)):
        state = module.state_dict()
        assert all(torch.equal(v, state[k]) for k,v in whole[tower].items())
    opened = open_run(tmp_path/'whole', docs, tmp_path/'cache', 'cpu')
    assert names(opened.model.generator, list(opened.model.discriminator.parameters()))==shared
    assert plan('tiny', docs, tie=tie, steps=20, device='cpu').flops>0

@pytest.mark.parametrize('objective', ('replace_mlm','all_tokens_mlm'))
@pytest.mark.parametrize('tie', ties)
def test_head_of_a_main_model(objective, tie):
    "Where a model with a vocabulary head stands in the discriminator's place, the head is its table of word vectors."
    towers = make_recipe('tiny', objective=objective, tie=tie).objective.build(ModelConfig(**shape, tie=tie), 300)
    main = towers['encoder']
    with torch.no_grad(): towers['generator'].get_input_embeddings().weight.mul_(2)
    assert torch.equal(main.generator_lm_head.weight, main.get_input_embeddings().weight) and main.generator_lm_head.weight.std()>0

@pytest.mark.parametrize('objective', ('replace_mlm','all_tokens_mlm'))
def test_a_run_with_a_difference_in_the_head(objective, tmp_path):
    "One difference for table and head: stopped and gone on with, the same bits; transformers reads the folder, and guesses the same."
    own = dict(settings, objective=objective, tie='disentangled', cache=tmp_path/'cache')
    pretrain(**own, out=tmp_path/'whole')
    for n in (7,99): learn = pretrain(**own, out=tmp_path/'broken', cbs=[StopAt(n)])
    files = [(tmp_path/'whole').glob('*/model.safetensors'), (tmp_path/'broken').glob('*/model.safetensors')]
    for a,b in zip(*map(sorted, files), strict=True): assert all(torch.equal(v, load_file(b)[k]) for k,v in load_file(a).items())
    main,gen = learn.model.parts['encoder'].eval(),learn.model.parts['generator']
    assert not torch.equal(main.get_input_embeddings().weight, gen.get_input_embeddings().weight), 'the difference was trained'
    assert torch.equal(main.generator_lm_head.weight, main.get_input_embeddings().weight)
    loaded,ids = AutoModelForMaskedLM.from_pretrained(tmp_path/'broken'/'encoder').eval(),torch.arange(5, 25)[None]
    assert torch.allclose(loaded(ids).logits, main(ids).logits, atol=1e-5)

def test_shape_of_a_tied_generator():
    "Where one encoder serves both, a shape of the generator is refused; a stored recipe is read."
    for name,value in dict(generator_size=.5, generator_layers=1., generator_heads=2).items():
        with pytest.raises(ValueError, match=f'{name}=.* would have no effect'): make_recipe('tiny', tie='all', **{name:value})
    stored = make_recipe('tiny', tie='all').flat()
    assert make_recipe('tiny', **stored).model==make_recipe('tiny', tie='all').model
    with pytest.raises(ValueError, match='generator_size, tie would have no effect'): make_recipe('tiny', objective='mlm', generator_size=.5, tie='all')

def test_rate_of_the_generator(tmp_path):
    "At the usual rate an own rate changes nothing; at another one it does; a run goes on exactly."
    own = dict(settings, cache=tmp_path/'cache')
    for name,rate in dict(usual=None, same=2e-3, slow=1e-4).items(): pretrain(**own, generator_lr=rate, out=tmp_path/name)
    for n in (7,99): pretrain(**own, generator_lr=1e-4, out=tmp_path/'broken', cbs=[StopAt(n)])
    load = lambda name, tower: load_file(tmp_path/name/tower/'model.safetensors')
    equal = lambda a, b, tower: all(torch.allclose(v, load(b, tower)[k], atol=1e-6) for k,v in load(a, tower).items())
    assert equal('usual', 'same', 'generator') and equal('usual', 'same', 'discriminator') and not equal('usual', 'slow', 'generator')
    assert all(torch.equal(v, load('broken', t)[k]) for t in ('generator','discriminator') for k,v in load('slow', t).items())

def test_generator_without_dropout(tmp_path):
    "Its samples in training are those of its own distribution; the discriminator keeps its dropout; transformers reads the folder."
    own = dict(settings, cache=tmp_path/'cache', dropout=.1, attention_dropout=.1, generator_dropout=0.)
    learn = pretrain(**own, out=tmp_path/'run')
    gen,disc = learn.model.train().parts.values()
    ids = torch.arange(5, 25)[None]
    assert torch.equal(gen(ids).logits, gen(ids).logits) and not torch.equal(disc(ids).logits, disc(ids).logits)
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path/'run'/'generator')
    assert loaded.config.hidden_dropout_prob==loaded.config.attention_probs_dropout_prob==0
    assert torch.allclose(loaded(ids).logits, gen.eval()(ids).logits, atol=1e-5)
    with pytest.raises(ValueError, match='generator_dropout=0.0 would have no effect'): make_recipe('small', tie='all', generator_dropout=0.)
