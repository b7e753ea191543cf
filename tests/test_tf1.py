"Google's files: checkpoints and prepared examples that TensorFlow wrote, damaged files, towers there and back, and what `verify` finds."
import json, random, resource, shutil, sys
from pathlib import Path

import google_crc32c, numpy as np, pytest, torch
from electra_nb import pretrain
from electra_nb.core.tiny import tiny_text
from electra_nb.lab.start.weights import Start
from electra_nb.lab.tf1.names import from_tf1, read_towers, to_tf1
from electra_nb.lab.tf1.table import checkpoint_prefix, masked_crc, read_table, read_variables, to_varint, varint, write_variables
from electra_nb.lab.tf1.tfrecord import read_records, tfrecord_rows
from electra_nb.lab.tf1.verify import cli, tower_folders, verify
from electra_nb.model.hf import load_tower, save_models
from electra_nb.model.towers import ModelConfig, get_models
from electra_nb.text.tokenizer import tiny_tokenizer
from safetensors.torch import load_file, save_file
from tf_names import hf_name, to_hf

oracles = Path(__file__).parents[2]/'shared'/'oracles'
real = pytest.mark.skipif(not (oracles/'checkpoints').is_dir(), reason='the files of TensorFlow are not here (../shared/oracles)')
ends = '.index','.data-00000-of-00001'

@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch): monkeypatch.setenv('ELECTRA_NB_CACHE', str(tmp_path/'cache'))

@pytest.fixture
def mine(tmp_path):
    "Two towers whose weights are all moved, and their tokenizer."
    torch.manual_seed(42)
    tok = tiny_tokenizer()
    pair = get_models(ModelConfig(hidden_size=32, n_layers=2, n_heads=2, embedding_size=24, generator_size=.5, max_positions=64), len(tok))
    for t in pair:
        for p in t.parameters(): p.data += .1*torch.randn_like(p)
    save_models(*pair, tmp_path/'mine', tok)
    return tmp_path/'mine'

def small_file(home):
    "A checkpoint of a few variables of all types, names with common beginnings and more than one whole name in a block."
    rng = np.random.default_rng(0)
    variables = {f'electra/layer_{i}/{k}':rng.normal(size=(2,3)).astype(t) for i in range(10) for k,t in dict(bias='f4',half='f2').items()}
    variables |= {'global_step':np.int64(-3), 'none':np.zeros((0,4),np.float32), 'whole':np.arange(5, dtype=np.int32), 'wide':np.arange(3.)}
    write_variables(home/'model.ckpt-1', variables)
    return variables

def plain_parse(prefix):
    "The variables of a checkpoint by a second reader: it walks from the first byte of the table, knows one block, and asks for nothing twice."
    data,numbers,at,name,out = Path(f'{prefix}.index').read_bytes(),Path(f'{prefix}.data-00000-of-00001').read_bytes(),0,b'',{}
    def number():
        nonlocal at
        n,shift = 0,0
        while True:
            b,at = data[at],at+1
            n += (b%128)*2**shift
            shift += 7
            if b<128: return n
    while data[at:at+4]!=bytes(4) or not out: # the list of whole names begins with place 0
        shared,new,size = number(),number(),number()
        name = name[:shared]+data[at:at+new]
        at += new
        stop,found,dims = at+size,{},[]
        while at<stop:
            tag = number()
            if tag==18:
                inner = number()+at
                while at<inner:
                    assert (number(),number())[0]==18 and number()==8
                    dims.append(number())
            elif tag==53: found[tag],at = int.from_bytes(data[at:at+4], 'little'),at+4
            elif tag==26: at = number()+at
            else: found[tag] = number()
        if not name: out['head'] = found[8]
        else:
            raw = numbers[found.get(32, 0):][:found[40]]
            crc = google_crc32c.value(raw)
            assert found[53]==((crc>>15 | crc<<17)+0xa282ead8)%2**32
            out[name.decode()] = np.frombuffer(raw, {1:'<f4',2:'<f8',3:'<i4',9:'<i8',19:'<f2'}[found[8]]).reshape(dims)
    assert out.pop('head')==1
    return out

def test_write_and_read(tmp_path):
    variables = small_file(tmp_path)
    for found in (read_variables(checkpoint_prefix(tmp_path)),plain_parse(tmp_path/'model.ckpt-1')):
        assert found.keys()==variables.keys()
        for k,v in variables.items(): assert found[k].dtype==v.dtype and found[k].shape==v.shape and np.array_equal(found[k], v), k

@real
@pytest.mark.parametrize('name', ['tiny_proj','tiny_noproj'])
def test_bytes_of_tensorflow(name, tmp_path):
    "Every variable of TensorFlow's file is read, and what is written of them is that file, byte for byte."
    prefix = checkpoint_prefix(oracles/'checkpoints'/name)
    variables,meta = read_variables(prefix),json.loads((prefix.parent/'meta.json').read_text())
    assert {k:list(v.shape) for k,v in variables.items()}=={v['name']:v['shape'] for v in meta['variables']} | {'global_step':[]} and variables['global_step']==3
    weights = np.load(prefix.parent/'variables.npz')
    assert all(np.array_equal(variables[k], weights[k]) for k in weights.files)
    write_variables(tmp_path/prefix.name, variables)
    for end in ends: assert Path(f'{prefix}{end}').read_bytes()==(tmp_path/f'{prefix.name}{end}').read_bytes()
    assert (prefix.parent/'checkpoint').read_text()==(tmp_path/'checkpoint').read_text()

@real
@pytest.mark.parametrize('name', ['tiny_proj','tiny_noproj'])
def test_recorded_logits(name, tmp_path):
    "Folders made of TensorFlow's files give the logits that the original code gave: to 2e-5."
    here = oracles/'checkpoints'/name
    n_heads = json.loads((here/'meta.json').read_text())['config']['discriminator_config']['num_attention_heads']
    from_tf1(here, tmp_path/'hf', n_heads=n_heads)
    t = {k:torch.from_numpy(v) for k,v in np.load(here/'batch_and_outputs.npz').items() if '/' not in k}
    gen,disc = (load_tower(getattr(__import__('transformers'), c), tmp_path/'hf'/n).eval() for n,c in dict(generator='ElectraForMaskedLM', discriminator='ElectraForPreTraining').items())
    kw = dict(attention_mask=t['input_mask'].long(), token_type_ids=t['segment_ids'].long())
    with torch.no_grad():
        verdicts = disc(t['corrupted_ids'].long(), **kw).logits
        guesses = gen(t['masked_input_ids'].long(), **kw).logits
    real_tokens = t['input_mask'].bool()
    assert (verdicts-t['disc_logits'])[real_tokens].abs().max()<2e-5
    slots = t['masked_lm_positions'].long()
    used = t['masked_lm_weights']>0
    assert (guesses.gather(1, slots[...,None].expand(-1, -1, guesses.shape[-1]))-t['mlm_logits'])[used].abs().max()<2e-5

@real
def test_moments():
    "Adam's moments stand under the names of their weights, turned round as these are."
    here = oracles/'checkpoints'/'tiny_proj'
    variables,names = read_variables(checkpoint_prefix(here)),read_towers(here, n_heads=2)
    for slot in ('/adam_m','/adam_v'):
        found = read_towers(here, n_heads=2, slot=slot)
        for tower in found:
            for k,v in found[tower].weights.items():
                name = names[tower].names[k]
                assert torch.equal(v, to_hf(name, variables[f'{name}{slot}'])) and v.abs().sum()>0

@real
@pytest.mark.parametrize('name,towers', [('untied_embeddings',['generator','discriminator']), ('tied_generator',['generator','discriminator']),
    ('masked_lm_only',['encoder']), ('uniform_generator',['discriminator']), ('two_tower_electra',['discriminator']), ('generator_half_depth',['generator','discriminator'])])
def test_options_of_the_original_code(name, towers, tmp_path):
    "What the towers of each option share is found, and the names are those that the other tests use."
    z = np.load(oracles/'objectives'/f'{name}.npz')
    variables = {k[4:]:z[k] for k in z.files if k.startswith('var/')}
    write_variables(tmp_path/'a'/'model.ckpt-0', variables)
    found = read_towers(tmp_path/'a', n_heads=2)
    assert [*found]==towers
    for tower in found.values():
        for k,v in tower.weights.items():
            assert hf_name(tower.names[k])[1]==k or tower.names[k]=='generator_predictions/output_bias'
            assert torch.equal(v, to_hf(tower.names[k], variables[tower.names[k]]))
    used = {v for t in found.values() for v in t.names.values()}
    assert all(n.startswith(('generator_','cloze_')) for n in variables.keys()-used)
    if name in ('two_tower_electra','masked_lm_only'): return
    from_tf1(tmp_path/'a', tmp_path/'hf', n_heads=2)
    to_tf1(tmp_path/'hf', tmp_path/'b'/'model.ckpt-0')
    again = read_variables(tmp_path/'b'/'model.ckpt-0')
    assert again.keys()==variables.keys() | {'global_step'} and all(np.array_equal(again[k], v) for k,v in variables.items())

def varints_inserted(rng, data):
    at = rng.randrange(len(data))
    return data[:at]+to_varint(rng.choice((0,127,128,2**31,2**63,2**64-1,rng.getrandbits(70))))+data[at:]

def flipped(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice((1,1,1,3,9))): data[rng.randrange(len(data))] ^= 1<<rng.randrange(8)
    return bytes(data)

def signed(data, blocks):
    "The same with right checksums of its blocks, so that what stands in them is read."
    data = bytearray(data)
    for at,n in blocks:
        if at+n+5<=len(data): data[at+n+1:at+n+5] = masked_crc(bytes(data[at:at+n+1])).to_bytes(4, 'little')
    return bytes(data)

def test_mutations(tmp_path):
    "10,000 damaged checkpoints: each is refused in a sentence, or reads as one; none asks for memory or time."
    variables = small_file(tmp_path)
    paths = [tmp_path/f'model.ckpt-1{e}' for e in ends]
    whole = [p.read_bytes() for p in paths]
    (n,i),footer = varint(whole[0][-48:]),whole[0][-48:]
    places = [n]
    for _ in range(3):
        n,i = varint(footer, i)
        places.append(n)
    blocks = [(0,places[0]-5),tuple(places[:2]),tuple(places[2:])]
    rng,refused,read = random.Random(0),0,0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(10_000):
        which = int(i%5==4) # now and then the numbers
        change = rng.choice((flipped,varints_inserted,lambda rng,data: data[:rng.randrange(len(data))],lambda rng,data: data+bytes(rng.randrange(1, 99))))
        data = change(rng, whole[which])
        if which==0 and i%5<3: data = signed(data, blocks if change is flipped else [])
        paths[which].write_bytes(data)
        try:
            found = read_variables(tmp_path/'model.ckpt-1')
            read += 1
            assert sum(v.nbytes for v in found.values())<=paths[1].stat().st_size
        except ValueError as e:
            refused += 1
            assert str(e).startswith(str(tmp_path)) and str(e).endswith('Fetch or make the file again') and len(str(e))<len(str(tmp_path))+500, e
        paths[which].write_bytes(whole[which])
    assert refused>5000 and read>500, (refused,read)
    if sys.platform=='linux': assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss-before<50_000 # KB
