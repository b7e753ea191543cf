"Comparison with numbers obtained by running the original implementation."
import gzip, json, random, re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np, pytest, torch, torch.nn.functional as F
from fastai.basics import DataLoaders, Learner
from fastai.callback.core import Callback
from torch import nn
from transformers import ElectraConfig, ElectraModel

from electra_nb.lab.questions.head import AnswerConfig, AnswerHead, Beam, HeadConfig, answer_losses, best_spans
from electra_nb.lab.questions.spans import align, word_splitter
from electra_nb.glue.head import Classifier, TaskLoss
from electra_nb.glue.learner import SparseNorm, SumLoss
from electra_nb.lab.questions.rows import question_rows
from electra_nb.lab.questions.spans import find_answers
from electra_nb.lab.questions.squad import answer_scores, normalise, squad1_scores, squad2_scores
from electra_nb.lab.questions.windows import Windows
from electra_nb.glue.learner import layer_factors, layer_groups
from electra_nb.objectives.masking import MaskConfig, apply_mask, mask_tokens, n_slots, n_used
from electra_nb.lab.objectives.flops import Shape, embedding_operations, forward_operations, head_operations, layer_operations, paper_models, paper_operations
from electra_nb.model.families import mlm_logits
from electra_nb.model.forward import encode
from electra_nb.model.towers import ModelConfig, count_parameters, get_models, mlm_tower
from electra_nb.training.optim import ClipGrads, OptimConfig, WarmupDecay, decay_groups, lr_at, make_opt
from electra_nb.training.progress import Steps
from electra_nb.lab.objectives.two_tower import two_tower_models
from electra_nb.lab.objectives.two_tower import ClozeLoss, ClozeModel
from electra_nb.lab.objectives.electric import ElectricModel
from electra_nb.lab.objectives.fixed_generators import FixedModel
from electra_nb.objectives.mlm import MLMLoss, MLMModel
from electra_nb.objectives.rtd import JointLoss, LossConfig, RTDModel, tower_losses
from electra_nb.objectives.sampling import adjust_logits, gumbel_sample
from electra_nb.lab.tags.rows import read_conll
from electra_nb.glue.tables import read_file
from electra_nb.glue.tasks import tasks
from electra_nb.lab.tags.spans import ratio, schemes, span_tags, tag_metrics, tag_spans
from electra_nb.lab.tags.rows import TagSplit
from electra_nb.lab.tags.tagger import TagFeatures, Tagger, TagLoss
from electra_nb.text.packing import ExampleBuilder, ExamplesConfig
from electra_nb.text.tokenizer import line_encoder, load_tokenizer
from tf_names import group, hf_name, load_variables, to_hf

here = Path(__file__).parent/'oracles'
shared = Path(__file__).parents[2]/'shared'

def shape(config, tie='embeddings', dropout=0.):
    "The shapes of an oracle's configuration."
    o = {**config.get('discriminator_config', {}), **config['model_hparam_overrides']}
    return ModelConfig(hidden_size=o['hidden_size'], n_layers=o['num_hidden_layers'], n_heads=o['num_attention_heads'], intermediate_size=o['intermediate_size'],
        embedding_size=config['embedding_size'] or o['hidden_size'], max_positions=o['max_position_embeddings'], generator_size=config['generator_hidden_size'],
        generator_layers=config['generator_layers'], dropout=dropout, attention_dropout=dropout, tie=tie)

def build(config, tie='embeddings', dropout=0.):
    "Both towers of an oracle's configuration."
    return get_models(shape(config, tie, dropout), config['vocab_size'])

def tensors(z): return {k:torch.from_numpy(z[k]) for k in z.files if '/' not in k}

def inputs(t, config, mask_id, masked=None):
    "What `RTDModel` takes, from fed draws."
    ids,lens,n_a = t['input_ids'].long(),t['input_mask'].sum(1).long(),((t['segment_ids']==0) & (t['input_mask']==1)).sum(1).long()
    L,p = ids.shape[1],config['mask_prob']
    masked,slots,weights = apply_mask(ids, t['drawn_positions'].long(), n_used(lens, L, p), t['replace_uniform'], mask_id)
    return (ids,lens,n_a,masked,slots),weights

def fed_sampler(t, config):
    "Gumbel sampling with the recorded uniform numbers."
    def sample(logits, probs, targets):
        return gumbel_sample(adjust_logits(logits, targets, config['temperature'], config['disallow_correct']), t['gumbel_uniform'])
    return sample

def close(a, b, tol, what=''):
    a,b = (np.asarray(x.detach() if isinstance(x, torch.Tensor) else x) for x in (a, b))
    assert a.shape==b.shape, (what, a.shape, b.shape)
    assert np.abs(a-b).max()<=tol, (what, np.abs(a-b).max())

def compare(model, t, out_ref, config, special, loss_ref, kind=JointLoss):
    "One forward pass against the recorded outputs; returns the total loss."
    xb,weights = inputs(t, config, special['[MASK]'])
    model.sample = fed_sampler(t, config)
    out = model.eval()(*xb)
    on = weights.bool().numpy()
    np.testing.assert_array_equal(xb[3], out_ref['masked_input_ids'])
    np.testing.assert_array_equal(xb[4], out_ref['masked_lm_positions'])
    np.testing.assert_array_equal(out.sampled.numpy()[on], out_ref['sampled_ids'][on])
    np.testing.assert_array_equal(out.corrupted, out_ref['corrupted_ids'])
    np.testing.assert_array_equal(out.is_replaced.int(), out_ref['is_fake'])
    np.testing.assert_array_equal(out.mlm_preds.numpy()[on], out_ref['mlm_preds'][on])
    real = out.real.numpy()
    close(out.logits.detach().numpy()[real], out_ref['disc_logits'][real], 2e-5, 'disc_logits')
    gen,disc = tower_losses(out, weights)
    total = kind(LossConfig(config['gen_weight'], config['disc_weight']))(out, weights)
    for a,k in ((gen,'mlm_loss'),(disc,'disc_loss'),(total,'total_loss')): assert a.item()==pytest.approx(float(loss_ref[k]), rel=1e-5), k
    return xb,total

@pytest.mark.parametrize('name', ['tiny_proj', 'tiny_noproj', 'tiny_gen_full'])
def test_checkpoints(name):
    folder = next((d for d in (here,shared/'oracles') if (d/'checkpoints'/name).exists()), None)
    if folder is None: pytest.skip('no ../shared/oracles')
    folder = folder/'checkpoints'/name
    meta,z = json.load(open(folder/'meta.json')),np.load(folder/'batch_and_outputs.npz')
    config,t = meta['config'],tensors(z)
    gen,disc = build(config)
    load_variables(gen, disc, {k:v for k,v in np.load(folder/'variables.npz').items()})
    model = RTDModel(gen, disc)
    with torch.no_grad():
        xb,_ = compare(model, t, z, config, meta['special_ids'], z)
        ids,lens,n_a,masked,slots = xb
        at = torch.arange(ids.shape[1])
        real = at<lens[:,None]
        types = ((at>=n_a[:,None]) & real).long()
        logits = mlm_logits(gen, masked, slots, real, types)
        on = (torch.arange(slots.shape[1])<n_used(lens, ids.shape[1], config['mask_prob'])[:,None]).numpy()
        close(logits.numpy()[on], z['mlm_logits'][on], 2e-5, 'mlm_logits')
        for tower,key,x in ((gen,'generator',masked),(disc,'electra',torch.from_numpy(z['corrupted_ids']).long())):
            last = encode(tower.electra, x, real, types)
            close(last.numpy()[real.numpy()], z[f'{key}/all_layers'][-1][real.numpy()], 2e-5, key)

ties = dict(tied_generator='all', untied_embeddings='none')
names = ['electra', 'mask_25', 'weights', 'tied_generator', 'untied_embeddings', 'disallow_correct', 'temperature_half', 'temperature_two', 'generator_half_depth']

@pytest.mark.parametrize('name', names)
def test_objectives(name):
    index,z = json.load(open(here/'objectives/index.json'))[name],np.load(here/f'objectives/{name}.npz')
    config,out_ref = index['config'],group(z, 'out/')
    gen,disc = build(config, ties.get(name, 'embeddings'))
    load_variables(gen, disc, group(z, 'var/'))
    _,total = compare(RTDModel(gen, disc), tensors(z), out_ref, config, index['special_ids'], out_ref)
    check_gradients(total, dict(generator=gen, discriminator=disc), z)

def check_gradients(total, towers, z):
    "The gradients of a loss against the recorded ones."
    total.backward()
    params = {k:dict(m.named_parameters(remove_duplicate=False)) for k,m in towers.items()}
    for k,g in group(z, 'grad/').items():
        tower,key = hf_name(k)
        g = to_hf(k, g)
        close(params[tower][key].grad, g, 1e-4*max(g.abs().max().item(), 1e-3), k)

def test_uniform_generator():
    "Replacements that are drawn with equal chance."
    index,z = json.load(open(here/'objectives/index.json'))['uniform_generator'],np.load(here/'objectives/uniform_generator.npz')
    config,out_ref = index['config'],group(z, 'out/')
    _,disc = build(config)
    load_variables(None, disc, group(z, 'var/'))
    _,total = compare(FixedModel(disc), tensors(z), out_ref, config, index['special_ids'], out_ref)
    assert group(z, 'grad/')
    check_gradients(total, dict(discriminator=disc), z)

def cloze_model(name, gen, disc, config, special):
    ids = [special[k] for k in ('[CLS]','[SEP]','[MASK]')]
    model = (ClozeModel if name=='two_tower_electra' else ElectricModel)(gen, disc, ids)
    model.noise = config['mask_prob']
    return model

@pytest.mark.parametrize('name', ['two_tower_electra', 'electric', 'electric_both_flags'])
def test_two_towers(name):
    "A cloze model as the generator: for replaced token detection, and for noise-contrastive estimation."
    index,z = json.load(open(here/'objectives/index.json'))[name],np.load(here/f'objectives/{name}.npz')
    config,out_ref,t = index['config'],group(z, 'out/'),tensors(z)
    gen,disc = two_tower_models(shape(config), config['vocab_size'])
    load_variables(gen, disc, group(z, 'var/'))
    model = cloze_model(name, gen, disc, config, index['special_ids'])
    xb,total = compare(model, t, out_ref, config, index['special_ids'], out_ref, ClozeLoss)
    out = model(*xb)
    real = out.real.numpy()
    np.testing.assert_array_equal(out.ordinary.float().numpy(), out_ref['cloze_weights'])
    close((out.cloze_nll.detach()*out.real).numpy()[real], out_ref['cloze_per_position_loss'][real], 2e-5, 'cloze_per_position_loss')
    assert group(z, 'grad/') or name=='electric_both_flags'
    check_gradients(total, dict(generator=gen, discriminator=disc), z)

def test_masked_lm_only():
    "The original code with its ELECTRA objective switched off: loss, guesses and gradients of masked language modelling."
    index,z = json.load(open(here/'objectives/index.json'))['masked_lm_only'],np.load(here/'objectives/masked_lm_only.npz')
    config,t,want = index['config'],tensors(z),group(z, 'out/')
    tower = mlm_tower(shape(config), config['vocab_size'])
    params = dict(tower.named_parameters(remove_duplicate=False))
    unset = {id(p) for p in tower.parameters()}
    for name,array in group(z, 'var/').items():
        p = params[hf_name(name)[1]]
        p.data.copy_(to_hf(name, array))
        unset.discard(id(p))
    assert not unset
    xb,weights = inputs(t, config, index['special_ids']['[MASK]'])
    out = MLMModel(tower).eval()(*xb)
    on = weights.bool().numpy()
    close(out.nll.detach().numpy()[on], want['mlm_per_position_loss'][on], 2e-5, 'nll')
    np.testing.assert_array_equal(out.preds.numpy()[on], want['mlm_preds'][on])
    loss = MLMLoss()(out, weights)
    assert loss.item()==pytest.approx(float(want['total_loss']), rel=1e-5)
    loss.backward()
    grads = group(z, 'grad/')
    assert grads
    for name,g in grads.items():
        g = to_hf(name, g)
        close(params[hf_name(name)[1]].grad, g, 1e-4*max(g.abs().max().item(), 1e-3), name)

def test_trajectory():
    "Twenty steps of official pre-training."
    index,z = json.load(open(here/'trajectories/index.json'))['paper_lr'],np.load(here/'trajectories/paper_lr.npz')
    config = index['config']
    gen,disc = build(config)
    load_variables(gen, disc, group(z, 'init/'))
    model = RTDModel(gen, disc).train()
    cfg = OptimConfig(lr=config['learning_rate'], warmup=config['num_warmup_steps'], wd=config['weight_decay_rate'])
    decays,spared = decay_groups(model)
    opt = make_opt([decays,spared], cfg.lr, cfg)
    decayed = {id(p) for p in decays}
    params = {k:dict(m.named_parameters(remove_duplicate=False)) for k,m in dict(generator=gen, discriminator=disc).items()}
    for k,d in index['weight_decay'].items(): assert (id(params[hf_name(k)[0]][hf_name(k)[1]]) in decayed)==d, k
    for s in range(20):
        t = {k:torch.from_numpy(z[k][s]) for k in z.files if '/' not in k}
        ids,lens = t['input_ids'].long(),t['input_mask'].sum(1).long()
        n_a = ((t['segment_ids']==0) & (t['input_mask']==1)).sum(1).long()
        slots,weights = t['masked_lm_positions'].long(),t['masked_lm_weights'].float()
        model.sample = lambda logits,probs,targets: t['sampled_ids'].long()
        out = model(ids, lens, n_a, t['masked_input_ids'].long(), slots)
        np.testing.assert_array_equal(out.is_replaced.int(), t['is_fake'])
        loss = JointLoss()(out, weights)
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
        lr = lr_at(s, config['num_train_steps'], cfg)
        assert lr==pytest.approx(float(z['rec/lr'][s]), rel=1e-6, abs=1e-12)
        assert loss.item()==pytest.approx(float(z['rec/total_loss'][s]), rel=1e-4)
        assert norm.item()==pytest.approx(float(z['rec/global_norm'][s]), rel=1e-3)
        opt.set_hyper('lr', lr)
        opt.step()
        if s in (0, 4, 19):
            for k,v in group(z, f'after{s+1}/').items(): close(params[hf_name(k)[0]][hf_name(k)[1]], to_hf(k, v), 1e-4, (s, k))

def test_initial_values():
    "Spread and range of every array at real size."
    ref = json.load(open(here/'initial_values.json'))['variables']
    torch.manual_seed(0)
    gen,disc = get_models(ModelConfig(n_layers=2), 30522)
    params = {k:dict(m.named_parameters(remove_duplicate=False)) for k,m in dict(generator=gen, discriminator=disc).items()}
    for k,r in ref.items():
        p = params[hf_name(k)[0]][hf_name(k)[1]].detach()
        assert sorted(p.shape)==sorted(r['shape']), k
        assert p.std(correction=0).item()==pytest.approx(r['sd'], rel=.15 if p.numel()<1000 else .05, abs=1e-9), k
        assert p.abs().max().item()<=max(abs(r['min']), abs(r['max']))*1.06+1e-9, k

@pytest.mark.parametrize('name', ['small', 'base', 'large', 'small_pp'])
def test_parameter_counts(name):
    from electra_nb.recipe import recipes
    ref = json.load(open(here/'parameter_counts.json'))[name]
    with torch.device('meta'):
        from transformers import ElectraForMaskedLM, ElectraForPreTraining
        from electra_nb.model.families import tie_towers
        from electra_nb.model.towers import tower_configs
        g,d = tower_configs(recipes[name].model)
        gen,disc = ElectraForMaskedLM(g),ElectraForPreTraining(d)
    tie_towers(gen, disc)
    counts = count_parameters(gen, disc)
    assert counts=={k:ref[k] for k in counts}
    assert n_slots(recipes[name].packing.max_len, recipes[name].objective.mask.mask_prob)==dict(small=19, base=79, large=130, small_pp=79)[name]

@pytest.mark.parametrize('lower', [1, 0])
@pytest.mark.parametrize('strip', [1, 0])
@pytest.mark.parametrize('vocab', ['bert', 'small'])
def test_tokenizer(vocab, lower, strip):
    "The Rust tokenizer gives the ids of the original Python one, also for odd strings."
    file = dict(bert='vocab_bert_uncased.txt', small='vocab_small.txt')[vocab]
    encode = line_encoder(load_tokenizer(here/file, lower=bool(lower), strip_accents=bool(strip)))
    for case in json.load(open(here/'tokenizer.json'))[f'{vocab}_lower{lower}_strip{strip}']: assert encode([case['text']])[0]==case['ids'], case['text']

@pytest.fixture(scope='module')
def squad():
    "Paragraphs and the original's features."
    with gzip.open(here/'squad_features.json.gz') as f: return json.load(f)

def question_windows(squad, folder, task, max_len, doc_stride, max_question):
    "Rows and features of the recorded paragraphs."
    (folder/'squad.json').write_text(json.dumps(squad['data'][task]))
    rows = question_rows(read_file(folder/'squad.json'))
    return rows,Windows(rows, load_tokenizer(here/'vocab_bert_uncased.txt'), max_len, AnswerConfig(doc_stride=doc_stride, max_question=max_question), train=True)

@pytest.mark.parametrize('key', ['squadv1_384_128_64', 'squad_512_128_64', 'squad_96_32_16', 'squadv1_128_64_24'])
def test_squad_features(squad, key, tmp_path):
    "Words, ids, targets, places and max_context of every window."
    task,*config = key.split('_')
    want = squad['features'][key]
    rows,feats = question_windows(squad, tmp_path, task, *map(int, config))
    k = 0
    for train,dev in zip(want['train']['examples'], want['dev']['examples']):
        row = int(feats.row[k])
        c = feats.contexts[rows.contexts[row]]
        words = [c.text[a:b] for a,b in c.words]
        assert (rows.ids[row], len(words))==(train['id'], train['n_words'])
        assert words==want['first_words'].get(train['id'], words)
        for f,g in zip(train['features'], dev['features']):
            (ids,n_a,y),begin = feats[k],feats.begin[k]
            assert (ids.tolist(), n_a)==(f['ids'], f['n_first_segment'])
            assert y.tolist()==[f['start_positions'], f['end_positions'], f['is_impossible']]
            assert [[n_a+j, int(c.word[begin+j])] for j in range(len(ids)-n_a-1)]==g['token_to_word']
            assert [*range(*feats.judged[k])]==g['max_context']
            assert feats.row[k]==row
            k += 1
    assert k==len(feats)

_options = dict(joint_prediction='joint', answerable_classifier='answerable', answerable_uses_start_logits='uses_start', beam_size='beam')

def head_layers(head):
    "The dense layers of a head by the original's names."
    numbered = [head.end.out if head.cfg.joint else head.end]
    if head.cfg.answerable: numbered += [head.absent[0],head.absent[2]] if head.cfg.uses_start else [head.absent]
    hidden = dict(qa_hidden=head.end.hidden) if head.cfg.joint else {}
    return dict(dense=head.start, **hidden, **{f'dense_{i}':l for i,l in enumerate(numbered, 1)})

def answer_head(name):
    "A head with the recorded weights, its layers by variable, hidden states, mask, targets and the record."
    o,z = json.load(open(here/'heads/index.json'))[name],np.load(here/f'heads/{name}.npz')
    head = AnswerHead(16, replace(HeadConfig(), **{_options[k]:v for k,v in o['options'].items()}))
    prefix = f"task_specific/{o['task']}"
    params = {f'{prefix}/{n}/{k}':p for n,l in head_layers(head).items() for k,p in (('kernel',l.weight),('bias',l.bias))}
    assert params.keys()==o['variables'].keys()
    for k,p in params.items(): p.data.copy_(to_hf(k, z[f'var/{k}']))
    mask = torch.tensor(z['in/input_mask']*z['in/segment_ids']).bool()
    mask[:,0] = True
    y = [z[f"in/{o['task']}_{k}"] for k in ('start_positions','end_positions','is_impossible')]
    return head,params,torch.tensor(z['sequence_output'], requires_grad=True),mask,torch.tensor(np.stack(y, 1)).long(),z

@pytest.mark.parametrize('name', ['qa_training', 'qa_v1_training', 'qa_no_answerable', 'qa_plain_cls', 'qa_independent_ends'])
def test_answer_heads(name):
    "Logits, losses and gradients of the heads for answers."
    head,params,h,mask,y,z = answer_head(name)
    starts = head.starts(h, mask)
    for got,key in ((starts,'start_logits'),(head.ends(h, mask, y[:,:1])[:,0],'end_logits')):
        close(got, z[f'out/{key}'], 1e-4, key) # those far below are about -1000
        close(got[mask], z[f'out/{key}'][mask.numpy()], 2e-5, key)
    close(head.absence(h, starts), z['out/answerable_logit'], 2e-5)
    losses = answer_losses(head, h, mask, y)
    np.testing.assert_allclose(losses.detach(), z['out/loss'], rtol=1e-5)
    losses.sum().backward()
    for k,p in {**params, 'sequence_output':h}.items():
        if f'grad/{k}' not in z.files: continue
        want = to_hf(k, z[f'grad/{k}'])
        close(p.grad, want, max(1e-4*float(want.abs().max()), 1e-6), k) # that of the start's bias is zero in exact arithmetic

@pytest.mark.parametrize('name', ['qa_prediction', 'qa_beam_5'])
def test_answer_beam(name):
    "The beam of a prediction, and its loss, for which the original takes end logits of zero."
    head,_,h,mask,y,z = answer_head(name)
    beam = best_spans(head, h, mask, answer_losses(head, h, mask, y))
    close(beam.start_score, z['out/start_top_log_probs'], 2e-5)
    close(beam.end_score, z['out/end_top_log_probs'], 2e-5)
    np.testing.assert_array_equal(beam.start, z['out/start_top_index'])
    unmasked = z['out/end_top_log_probs']>-900
    np.testing.assert_array_equal(beam.end.numpy()[unmasked], z['out/end_top_index'][unmasked])
    starts = head.starts(h, mask)
    spans = (F.cross_entropy(starts, y[:,0], reduction='none')+np.log(h.shape[1]))/2
    absent = F.binary_cross_entropy_with_logits(head.absence(h, starts), y[:,2].float(), reduction='none')
    np.testing.assert_allclose((spans+.5*absent).detach(), z['out/loss'], rtol=1e-5)

@pytest.fixture(scope='module')
def postprocessing(): return json.load(open(here/'squad_postprocessing.json'))

def recorded_beam(z, name, o):
    "What `find_answers` reads, from recorded outputs; without a beam, from logits."
    g = {k.split('/')[1]:z[k] for k in z.files if k.startswith(f'{name}/')}
    loss = np.zeros(len(g['eid']))
    keys = ['start_top_log_probs','start_top_index','end_top_log_probs','end_top_index']
    if 'start_top_index' in g: return Beam(g['answerable_logit'], *(g[k] for k in keys), loss)
    s,e = (torch.tensor(g[f'{k}_logits']).topk(o['n_best_size']) for k in ('start','end'))
    k = o['n_best_size']
    ends = [t[:,None].expand(-1, k, -1).numpy() for t in e]
    absent = g['answerable_logit'] if o['answerable_classifier'] else g['start_logits'][:,0]+g['end_logits'][:,0]
    return Beam(absent, s.values.numpy(), s.indices.numpy(), *ends, loss)

names2 = dict(exact='exact_match', f1='f1', HasAns_exact='has_answer_exact_match', HasAns_f1='has_answer_f1', NoAns_exact='no_answer_exact_match',
    NoAns_f1='no_answer_f1', best_exact='best_exact_match', best_exact_thresh='best_exact_match_threshold', best_f1='best_f1', best_f1_thresh='best_f1_threshold')

def check_scores2(got, want):
    for k,v in names2.items(): assert got[v]==pytest.approx(want[k], rel=1e-6) or want[k] is None, k

@pytest.mark.parametrize('name', ['v2_beam', 'v1_beam', 'v2_independent', 'v2_no_classifier', 'v1_short_answers'])
def test_squad_answers(squad, postprocessing, name, tmp_path):
    "Answers, scores of no answer and official results from recorded outputs."
    want = postprocessing[name]
    o,task,v2 = want['options'],want['task'],want['task']=='squad'
    rows,feats = question_windows(squad, tmp_path, task, o['max_seq_length'], o['doc_stride'], o['max_query_length'])
    beam = recorded_beam(np.load(here/'squad_outputs.npz'), name, o)
    cfg = AnswerConfig(o['n_best_size'], o['max_answer_length'], o['qa_na_threshold'])
    found = find_answers(feats, beam, cfg, relative=not o['answerable_classifier'])
    texts = [a.best.text if v2 else a.spans[0].text for a in found]
    assert dict(zip(rows.ids, texts))==want['predictions']
    if not v2:
        assert squad1_scores(texts, rows.answers)==pytest.approx(want['results'])
        return
    absent = [a.absent for a in found]
    assert dict(zip(rows.ids, absent))==pytest.approx(want['null_scores'], rel=1e-6)
    check_scores2(squad2_scores(texts, absent, rows.answers, cfg.no_answer_above), want['results'])

def test_squad_texts(postprocessing):
    "Alignment and normalisation on odd texts."
    split = {lower:word_splitter(load_tokenizer(here/'vocab_bert_uncased.txt', lower=lower)) for lower in (True,False)}
    for c in postprocessing['final_text']:
        assert c['original'][slice(*align(c['predicted'], c['original'], split[c['do_lower_case']]))]==c['result'], c
    for c in postprocessing['normalise']: assert {normalise(c['text'])}=={c['v1'],c['v2'],c['mrqa']}, c

def test_squad_metrics(postprocessing):
    "Scores of both official scripts on edge cases, one by one and together; version 1.1 counts missing answers as wrong."
    for version,v2 in (('v1_metric',False),('v2_metric',True)):
        m = postprocessing[version]
        qas = [q for p in m['dataset'][0]['paragraphs'] for q in p['qas']]
        gold = {q['id']:[a['text'] for a in q['answers']] for q in qas}
        per = {k:(m['exact'][k],m['f1'][k]) for k in m['exact']} if v2 else {k:(v['em'],v['f1']) for k,v in m['per_question'].items()}
        for k,pair in per.items(): assert answer_scores(m['predictions'].get(k), gold[k], v2)==pytest.approx(pair), (version, k)
        if not v2: assert squad1_scores([m['predictions'].get(k) for k in gold], gold.values())==pytest.approx(m['results'])
        for r in m.get('runs', []):
            ids = [k for k in gold if k in m['predictions']]
            args = [m['predictions'][k] for k in ids],[r['null_scores'][k] for k in ids],[gold[k] for k in ids]
            check_scores2(squad2_scores(*args, r['threshold']), r['results'])

class Batches(list):
    "Fed batches as a data loader."
    dataset = ()
    def to(self, device): return self

class Record(Callback):
    "Keep loss, norm and weights of every update."
    order = 100
    def before_fit(self): self.loss_values,self.norms,self.weights = [],[],{}
    def after_batch(self):
        self.loss_values.append(self.learn.loss.item()*len(self.yb[0]))
        self.norms.append(self.learn.clip_grads.norm.item())
        self.weights[len(self.norms)] = {k:v.clone() for k,v in self.learn.model.named_parameters()} if len(self.norms) in (2,10) else {}

@pytest.mark.parametrize('case,clip', [('cola_one_hot',ClipGrads), ('cola',SparseNorm)])
def test_finetuning_trajectory(case, clip):
    "Ten steps of official fine-tuning through fastai's Learner: layer-wise rates, summed loss, clip by either norm, decay."
    o,z = json.load(open(here/'trajectories/finetune_index.json'))[case],np.load(here/f'trajectories/finetune_{case}.npz')
    e = {k:v for k,v in o['encoder'].items() if k!='hidden_act'}
    model = Classifier(ElectraModel(ElectraConfig(embedding_size=o['embedding_size'], **e)), 2, 0.)
    names = {k:re.sub(r'^task_specific\.cola\.dense', 'head', hf_name(k)[1]) for k in group(z, 'init/')}
    params = dict(model.named_parameters())
    assert sorted(names.values())==sorted(params)
    for k,v in group(z, 'init/').items(): params[names[k]].data.copy_(to_hf(k, v))
    t = {k:torch.from_numpy(z[f'in/{k}']).long() for k in ('input_ids','input_mask','segment_ids','cola_label_ids')}
    lens = t['input_mask'].sum(-1)
    n_a = ((t['segment_ids']==0) & (t['input_mask']==1)).sum(-1)
    batches = Batches((t['input_ids'][s],lens[s],n_a[s],t['cola_label_ids'][s]) for s in range(10))
    cfg = OptimConfig(lr=o['learning_rate'], warmup=o['warmup_proportion'], wd=o['weight_decay_rate'])
    record = Record()
    learn = Learner(DataLoaders(batches, Batches()), model, TaskLoss(tasks['cola']), partial(make_opt, cfg=cfg), splitter=layer_groups, wd_bn_bias=True,
        cbs=[Steps(),SumLoss(),clip(cfg.clip),WarmupDecay(10, cfg, layer_factors(3, o['layerwise_lr_decay'])),record])
    with learn.no_bar(), learn.no_logging(): learn.fit(1)
    np.testing.assert_allclose(record.loss_values, z['rec/loss'], rtol=1e-4)
    np.testing.assert_allclose(record.norms, z['rec/global_norm'], rtol=1e-3)
    for n in (2,10):
        for k,v in group(z, f'after{n}/').items(): close(record.weights[n][names[k]], to_hf(k, v), 1e-4, (n, k))

@pytest.mark.parametrize('name,wd', [('layerwise',0.), ('layerwise_decay',.1)])
def test_layerwise_adam(name, wd):
    "Twelve updates of toy weights, each layer with its own rate, clipping included."
    z,n_layers = np.load(here/f'adam/{name}.npz'),12
    params = {k:nn.Parameter(torch.tensor(v)) for k,v in group(z, 'init/').items()}
    def depth(k): return n_layers+1 if k.startswith('task_specific') else int(layer[1])+1 if (layer := re.search(r'layer_(\d+)', k)) else 0
    factors = [f for k in params for f in [layer_factors(n_layers, .8)[2*depth(k)]]*2]
    groups = [[p] if spared==('LayerNorm' in k or k.endswith('bias')) else [] for k,p in params.items() for spared in (False,True)]
    opt = make_opt(groups, 3e-3, OptimConfig(wd=wd))
    for s in range(12):
        for k,p in params.items(): p.grad = torch.tensor(z[f'grads/{k}'][s])
        assert nn.utils.clip_grad_norm_(params.values(), 1.).item()==pytest.approx(float(z['global_norm'][s]), rel=1e-4)
        opt.set_hyper('lr', [lr_at(s, 12, OptimConfig(lr=3e-3, warmup=.25))*f for f in factors])
        opt.step()
        for k,p in params.items(): close(p, torch.tensor(z[f'params/{k}'][s]), 2e-6, (s, k))

masking = json.load(open(here/'masking.json'))

@pytest.mark.parametrize('name', [k for k in masking['statistics'] if k.endswith('full')])
def test_masking_statistics(name):
    "Free draws on full rows: how many positions are masked, how many of them twice, and how many show [MASK]; within .01, as the file asks."
    ref = masking['statistics'][name]
    case = masking['cases'][name.removesuffix('_full')]
    sl = case['max_seq_length']
    ids = torch.full((ref['sequences'],sl), 9)
    ids[:,[0,sl//2,-1]] = torch.tensor([2,3,3])
    torch.manual_seed(0)
    masked,slots,weights = mask_tokens(ids, torch.full((len(ids),), sl), torch.tensor([2,3,4]), 4, MaskConfig(mask_prob=case['mask_prob']))
    assert slots.shape[1]==case['max_predictions_per_seq']
    times = torch.zeros(ids.shape).scatter_add_(1, slots, weights)
    unique = (times>0).sum().item()
    assert unique/ids.numel()==pytest.approx(ref['unique_share_of_tokens'], abs=.01)
    assert (times>1).sum().item()/unique==pytest.approx(ref['repeated_share_of_unique'], abs=.01)
    assert (masked==4).sum().item()/unique==pytest.approx(ref['shown_as_mask_share_of_unique'], abs=.01)
    assert not ((masked!=ids) & (times==0)).any() and not times[:,[0,sl//2,-1]].any()

packings = json.load(open(here/'example_statistics.json'))['runs']

@pytest.mark.parametrize('name', packings)
def test_packing_statistics(name):
    "Shares of a packing of books, for lines of about their lengths: within .02, and within .01 where all lines are cut to 20 tokens."
    ref = packings[name]
    draw,n = np.random.default_rng(0),packings['len128_run0']['n_lines']
    at = draw.random(n)
    lengths = np.interp(at, (0,.1,.25,.5,.75,.9), packings['len128_run0']['line_length_quantiles'][:6])
    lengths = np.where(at<.9, lengths, lengths+draw.exponential(65, n)).round().astype(int) # so that the mean is that of the books
    is_cut = name.endswith('20_tokens')
    if is_cut: lengths = np.array([min(20, k-i) for k in lengths for i in range(0, k, 20)])
    cfg,rows = ExamplesConfig(max_len=ref['max_length']),[]
    builder = ExampleBuilder(cfg, random.Random(0), 2, 3)
    for document in np.array_split(lengths, 39):
        for k in document: rows += builder.add_line([5]*k)
        rows += builder.end_document()
    lens,n_a = np.array([(len(ids),n) for ids,n in rows]).T
    single,margin = (lens==n_a).mean(),.01 if is_cut else .02
    kept = (lens-3+(lens==n_a)).sum()
    assert single==pytest.approx(ref['single_segment_share'], abs=margin)
    assert 1-lens.mean()/cfg.max_len==pytest.approx(ref['padding_share'], abs=margin)
    assert 1-kept/lengths.sum()==pytest.approx(ref['lost_share'], abs=margin)

def test_operations_of_the_paper():
    "The operations of thirteen models as the original script counts them, and those of ELECTRA at other lengths of training."
    official = json.loads((here/'flops.json').read_text())
    assert set(paper_models)==set(official['models'])
    for name,n in official['models'].items(): assert paper_models[name]==pytest.approx(n, rel=1e-12), name
    for call in official['calls'][:5]:
        a = call['arguments']
        disc,gen = (Shape(a[d], a[n], sl=a['s'], e=a['e']) for d,n in (('h_d','l_d'),('h_g','l_g')))
        assert paper_operations(a['batch_size']*a['train_steps'], gen, discriminator=disc)==pytest.approx(call['flops'], rel=1e-12)
    for call in official['calls'][5:]:
        a = call['arguments']
        s = Shape(a['h'], a['l'], **({'sl':a['s'], 'e':a['e']} if 's' in a else {}))
        parts = dict(block=layer_operations(s), embedding=embedding_operations(s), embedding_output=head_operations(s), binary_head=head_operations(s, True))
        for k,operations in parts.items(): assert s.sl*sum(operations.values())==pytest.approx(call[k], rel=1e-12), k
        assert sum(forward_operations(s, True).values())==pytest.approx(call['inference'], rel=1e-12)
        assert paper_operations(1, s)==pytest.approx(call['train_mlm_1_step_1_example'], rel=1e-12)
        assert paper_operations(1, discriminator=s)==pytest.approx(call['train_discriminator_1_step_1_example'], rel=1e-12)

tagging = json.load(open(here/'tagging.json'))

def test_spans():
    "Tags that make sense or not become the same spans, and spans the same tags; the scores of a whole evaluation, with the doubled loss."
    for case in tagging['conversion']:
        spans = tag_spans(case['tags'])
        assert [list(s) for s in spans]==case['spans']
        for scheme in schemes: assert span_tags(spans, len(case['tags']), scheme)==case[scheme]
    for name,o in tagging['runs'].items():
        rows = o['rows']
        pairs = [(r['tags'],r['predicted_tags']) for r in rows]
        true,predicted = ({(i,*s) for i,p in enumerate(pairs) for s in tag_spans(p[side])} for side in (0,1))
        right = len(true & predicted)
        got = dict(precision=ratio((right,len(predicted))), recall=ratio((right,len(true))))
        for k,metric in dict(f1='entity_f1', accuracy='accuracy').items(): got[k] = ratio([*map(sum, zip(*(tag_metrics[metric](*p) for p in pairs)))])
        assert got==pytest.approx({k:{**o['accuracy'], **o['entity_f1']}[k] for k in got}), name
        n_words = sum(map(sum, (r['labels_mask'] for r in rows)))
        assert 2*sum(r['loss'] for r in rows)/n_words==pytest.approx(o['entity_f1']['loss']) # the original adds each sentence's loss twice

def test_tag_features(tmp_path):
    "Files become the same labels, ids and places of first pieces. A sentence that does not fit is read in parts, where the original code loses it."
    o,splits = tagging['chunk'],{}
    for s in ('train','dev','test'):
        (tmp_path/f'{s}.txt').write_text(o[f'{s}_text'])
        table = read_conll(tmp_path/f'{s}.txt')
        tags = [span_tags(tag_spans(ts), len(ts)) for ts in table.columns['3']]
        splits[s] = TagSplit(table.columns['1'], tags)
    labels = tuple(sorted({t for rows in splits.values() for ts in rows.tags for t in ts}))
    assert {l:i for i,l in enumerate(labels)}==o['label_mapping']
    tok = load_tokenizer(here/'vocab_bert_uncased.txt', lower=True)
    feats = TagFeatures(splits['train'], tok, labels, o['max_seq_length'])
    assert len(splits['train'])==len(o['examples'])
    for i,e in enumerate(o['examples']):
        at = np.flatnonzero(feats.row==i)
        assert splits['train'].words[i]==e['words']
        assert np.concatenate([feats.targets[k] for k in at]).tolist()==e['word_labels']
        if e['input_ids'][0]==tok.sep_token_id:
            assert len(at)>1
            continue
        ids,lens,n_a,first,y = feats.batch(at)
        n,w = int(lens[0]),len(e['words'])
        assert (ids[0].tolist(), first[0].tolist(), y[0].tolist())==(e['input_ids'][:n], e['labeled_positions'][:w], e['labels'][:w])
        assert int(n_a[0])==0 and e['segment_ids'][:n]==[1]*n

def test_tagging_head(monkeypatch):
    "Logits, loss of each sentence and gradients of the original head."
    z = np.load(here/'heads/tagging.npz')
    h = torch.from_numpy(z['sequence_output']).requires_grad_()
    model = Tagger(ElectraModel(ElectraConfig(vocab_size=10, embedding_size=16, hidden_size=16, num_hidden_layers=1, num_attention_heads=1, intermediate_size=16)), 6)
    variables = {k.rpartition('/')[2]:torch.from_numpy(v) for k,v in group(z, 'var/').items()}
    model.head.load_state_dict(dict(weight=variables['kernel'].T, bias=variables['bias']))
    monkeypatch.setattr('electra_nb.lab.tags.tagger.encode_rows', lambda *args: (h,None,None))
    mask,first = torch.from_numpy(z['in/chunk_labels_mask']).bool(),torch.from_numpy(z['in/chunk_labeled_positions']).long()
    out = model(torch.zeros(5, 24, dtype=torch.long), torch.full((5,), 24), torch.zeros(5, dtype=torch.long), first)
    close(out, z['out/logits'], 2e-5)
    loss = TagLoss()
    loss.reduction = 'none'
    losses = loss(out, torch.from_numpy(z['in/chunk_labels']).long().masked_fill(~mask, -100))
    np.testing.assert_allclose(losses.detach(), z['out/loss'], rtol=1e-5)
    losses.sum().backward()
    grads = {k.rpartition('/')[2]:v for k,v in group(z, 'grad/').items()}
    for got,name in ((model.head.weight.grad.T,'kernel'), (model.head.bias.grad,'bias'), (h.grad,'sequence_output')):
        close(got, grads[name], 1e-4*np.abs(grads[name]).max(), name)
