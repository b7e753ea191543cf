"Google's files: checkpoints and prepared examples that TensorFlow wrote, damaged files, towers there and back, and what `verify` finds."
import gzip, json, random, resource, shutil, sys
from dataclasses import replace
from pathlib import Path

import google_crc32c, numpy as np, pytest, torch
from electra_nb import pretrain
from electra_nb.core.tiny import tiny_text
from electra_nb.glue.encoders import load_encoder
from electra_nb.lab.start.new_words import grow_tokenizer
from electra_nb.lab.start.weights import Start
from electra_nb.lab.tf1.names import from_tf1, read_towers, to_tf1
from electra_nb.lab.tf1.bundle import checkpoint_prefix, masked_crc, read_variables, table_bytes, to_varint, varint, write_variables
from electra_nb.lab.tf1.tfrecord import read_records, tfrecord_rows
from electra_nb.lab.tf1.verify import cli, fixed_logits, tower_folders, verify
from electra_nb.model.hf import load_tower, save_models, save_tower
from electra_nb.model.towers import ModelConfig, get_models
from electra_nb.text.tokenizer import bert_tokenizer, tiny_tokenizer
from safetensors.torch import load_file, save_file
from tf_names import hf_name, to_hf
from transformers import AutoModelForMaskedLM, BertConfig, BertForMaskedLM, CONFIG_MAPPING

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
    variables,(names,_) = read_variables(checkpoint_prefix(here)),read_towers(here, n_heads=2)
    for slot in ('/adam_m','/adam_v'):
        found,left = read_towers(here, n_heads=2, slot=slot)
        assert left==[]
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
    found,left = read_towers(tmp_path/'a', n_heads=2)
    assert [*found]==towers
    for tower in found.values():
        for k,v in tower.weights.items():
            assert hf_name(tower.names[k])[1]==k or tower.names[k]=='generator_predictions/output_bias'
            assert torch.equal(v, to_hf(tower.names[k], variables[tower.names[k]]))
    assert bool(left)==(name=='two_tower_electra') and all(n.startswith(('generator_','cloze_')) for n in left)
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
    small_file(tmp_path)
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

def record(content):
    n = len(content).to_bytes(8, 'little')
    return n+masked_crc(n).to_bytes(4, 'little')+content+masked_crc(content).to_bytes(4, 'little')

@real
def test_prepared_examples(tmp_path):
    "The rows of TensorFlow's record files are those that went into them; any damaged byte is noticed, in the record where it is."
    here = oracles/'tfrecords'
    files = json.loads((here/'contents.json').read_text())['files']
    found = list(tfrecord_rows(here/'pretrain_data.tfrecord-*'))
    want = [e for examples in files for e in examples]
    assert len(found)==len(want)>30
    for (ids,n_a),e in zip(found, want):
        n = sum(e['input_mask'])
        assert ids.tolist()==e['input_ids'][:n] and n_a==n-sum(e['segment_ids'])
    whole = (here/'pretrain_data.tfrecord-0-of-2').read_bytes()
    starts = [at for at,_ in read_records(here/'pretrain_data.tfrecord-0-of-2')]
    rng = random.Random(0)
    for _ in range(300):
        at = rng.randrange(len(whole))
        (tmp_path/'a').write_bytes(whole[:at]+bytes([whole[at]^1<<rng.randrange(8)])+whole[at+1:])
        with pytest.raises(ValueError, match=f'record at byte {max(s for s in starts if s<=at)} '): list(tfrecord_rows(tmp_path/'a'))

def example(**lists):
    def message(tag, content): return bytes([tag])+to_varint(len(content))+content
    def feature(xs): return message(26, message(10, b''.join(map(to_varint, xs))))
    return message(10, b''.join(message(10, message(10, k.encode())+message(18, feature(v))) for k,v in lists.items()))

def test_damaged_examples(tmp_path):
    "Records with right checksums and damaged content are refused in a sentence, or are rows."
    row = example(input_ids=[2,300,7,3,9,3,0,0], input_mask=[1]*6+[0]*2, segment_ids=[0]*4+[1]*2+[0]*2)
    rng,refused,read = random.Random(0),0,0
    for _ in range(2000):
        (tmp_path/'a').write_bytes(record(rng.choice((flipped,varints_inserted))(rng, row)))
        try:
            (ids,n_a), = tfrecord_rows(tmp_path/'a')
            assert 0<=n_a<=len(ids)<=len(row)
            read += 1
        except ValueError as e:
            assert f"{tmp_path/'a'}: the record at byte 0 is no row" in str(e)
            refused += 1
    assert refused>1000 and read>50, (refused,read)

@real
def test_pretrain_goes_on(tmp_path):
    "`pretrain` begins with both towers of TensorFlow's file, and its vocabulary; without one it says what to pass."
    here = tmp_path/'google'
    shutil.copytree(oracles/'checkpoints'/'tiny_proj', here)
    for p in (here,*here.iterdir()): p.chmod(0o755)
    (here/'bert_config.json').write_text('{"num_attention_heads": 2}')
    usual = dict(corpus=[f'{part} {i}' for i in range(20) for part in tiny_text.split('\n\n')], steps=2, bs=4, device='cpu', eval_every=2, save_every=2, probe=False, general=False, start=str(here/'model.ckpt-3'))
    with pytest.raises(ValueError, match='has no tokenizer.json or vocab.txt beside its weights: pass tokenizer='): pretrain(**usual, out=tmp_path/'run')
    shutil.copy(oracles/'vocab_small.txt', here/'vocab.txt')
    variables,start = read_variables(here/'model.ckpt-3'),Start(here)
    assert (start.towers.name,Start(here/'model.ckpt-3').towers.name)==('google','model.ckpt-3')
    assert start.tie=='embeddings' and [c.num_attention_heads for c in (start.cfg,*start.gen_cfg)]==[2,1]
    learn = pretrain(**usual, out=tmp_path/'run', lr=1e-9)
    gen,disc = learn.model.generator,learn.model.discriminator
    assert gen.electra.embeddings is disc.electra.embeddings or torch.equal(gen.electra.embeddings.word_embeddings.weight, disc.electra.embeddings.word_embeddings.weight)
    for tower,name in ((disc,'electra/encoder/layer_2/output/dense/kernel'),(gen,'generator/encoder/layer_0/intermediate/dense/kernel'),(disc,'discriminator_predictions/dense_1/kernel')):
        weight = tower.get_parameter(hf_name(name)[1])
        assert (weight-to_hf(name, variables[name])).abs().max()<1e-6
    assert verify(tmp_path/'run').problems==[]
    to_tf1(tmp_path/'run', tmp_path/'back'/'model.ckpt-2')
    again = read_variables(tmp_path/'back'/'model.ckpt-2')
    assert {k:v.shape for k,v in again.items()}=={k:v.shape for k,v in variables.items() if '/adam_' not in k}
    assert (tmp_path/'back'/'vocab.txt').read_text()==(here/'vocab.txt').read_text()
    assert verify(tmp_path/'run', tmp_path/'back').problems==[]

def exit_code(*argv):
    try: cli([*map(str, argv)])
    except SystemExit as e: return e.code
    return 0

def test_verify_finds_slips(mine, tmp_path, capsys):
    "Each known slip of a converter is named, the exit code is 1, and that of wrong input is 2."
    to_tf1(mine, tmp_path/'google'/'model.ckpt-0')
    assert exit_code(mine, '--other', tmp_path/'google')==0 and exit_code(tmp_path/'nowhere'/'a'/'b')==2
    weights = load_file(mine/'discriminator'/'model.safetensors')
    key = 'electra.encoder.layer.1.attention.self.query.weight' # square
    slips = {'logits of the discriminators differ':lambda w: w|{key:w[key].T.contiguous()}, 'a generator is here instead of a discriminator: its head':lambda w: load_file(mine/'generator'/'model.safetensors'),
        '1 weights are missing and would be random':lambda w: {k:v for k,v in w.items() if k!=key}, 'gamma and beta':lambda w: {k.replace('LayerNorm.weight', 'LayerNorm.gamma'):v for k,v in w.items()},
        'its head is absent':lambda w: {k:v for k,v in w.items() if k[0]!='d'}, 'every bias is 0':lambda w: {k:v*0 if k.startswith('d') else v for k,v in w.items()}}
    for i,(says,change) in enumerate(slips.items()):
        copy = tmp_path/f'copy_{i}'
        shutil.copytree(mine, copy)
        save_file(change(weights), copy/'discriminator'/'model.safetensors')
        capsys.readouterr()
        assert exit_code(copy, '--other', mine)==1
        said = [l for l in capsys.readouterr().out.splitlines() if l.startswith('WRONG')]
        assert says in said[0], said
    assert verify(mine/'generator').problems==[] and [*tower_folders(mine/'generator')]==['generator']

def test_verify_finds_other_rows(mine, tmp_path):
    "A row of a table that is another one, and a tokenizer with words in another order, are found; rows that one model has more are not compared."
    def spoil(place, i):
        folder = shutil.copytree(mine, tmp_path/place)
        path = folder/'discriminator'/'model.safetensors'
        weights = load_file(path)
        weights[f'electra.embeddings.{place}_embeddings.weight'][i] *= -1
        save_file(weights, path)
        return verify(mine, folder).problems
    for place,i in dict(position=60, token_type=1).items(): assert 'logits of the discriminators differ' in str(spoil(place, i))
    unread = next(i for i in range(300) if i not in {37*k%300 for k in range(128)})
    found, = spoil('word', unread)
    assert 'tables of words of the discriminators differ' in found
    folder = shutil.copytree(mine, tmp_path/'turned')
    words = sorted(tiny_tokenizer().get_vocab(), key=tiny_tokenizer().get_vocab().get)
    words[70],words[71] = words[71],words[70]
    for tower in ('discriminator','generator'): bert_tokenizer({w:i for i,w in enumerate(words)}).save_pretrained(folder/tower)
    assert verify(mine, folder).problems==[f'another vocabulary: id 70 is {words[71]!r} in {mine}, discriminator, and {words[70]!r} in {folder}, discriminator']
    tiny_tokenizer().save_pretrained(folder/'discriminator')
    assert 'another vocabulary: id 70' in str(verify(folder).problems)
    wide = get_models(ModelConfig(hidden_size=32, n_layers=2, n_heads=2, embedding_size=24, max_positions=80), len(words)+8)[1]
    for k,v in load_file(mine/'discriminator'/'model.safetensors').items(): wide.state_dict()[k][:len(v)] = v
    save_tower(wide, tmp_path/'wide', tiny_tokenizer())
    assert verify(mine, tmp_path/'wide').problems==[]

def test_heads_in_the_cache(mine, tmp_path):
    "Another number of heads is another model, also where the first one is in the cache."
    to_tf1(mine, tmp_path/'google'/'model.ckpt-0')
    assert verify(mine, tmp_path/'google').problems==[]
    assert 'differ' in verify(mine, tmp_path/'google', n_heads=4).problems[0]

def test_what_cannot_be_read_back(tmp_path):
    "Variables that no reader would take are refused before anything is written, with their name; so is an index that claims them."
    wrong = {'needs variables':{}, '1 to 255 bytes':{'y'*256:np.zeros(3)}, "'empty': it is empty":{'empty':np.zeros((2**40,0))}, "'deep'":{'deep':np.zeros((1,)*9)}}
    for says,variables in wrong.items():
        with pytest.raises(ValueError, match=says): write_variables(tmp_path/'a', variables)
    assert not [*tmp_path.iterdir()]
    for dims in ((0,2**63),(2**40,0)):
        shape = b''.join(b'\x12'+to_varint(len(d))+d for d in (b'\x08'+to_varint(n) for n in dims))
        (tmp_path/'a.index').write_bytes(table_bytes([(b'',b'\x08\x01'),(b'w',b'\x08\x01\x12'+to_varint(len(shape))+shape)]))
        (tmp_path/'a.data-00000-of-00001').touch()
        with pytest.raises(ValueError, match="a.index cannot be read: 'w': it is empty"): read_variables(tmp_path/'a')

def test_other_forms_of_examples(tmp_path, monkeypatch):
    "Numbers in fields of their own, folders whose names look like patterns, `~`; an example without tokens is none."
    def message(tag, content): return bytes([tag])+to_varint(len(content))+content
    lists = dict(input_ids=[2,300,7,3,0], input_mask=[1]*4+[0], segment_ids=[0]*5)
    def apart(xs): return message(26, b''.join(b'\x08'+to_varint(x) for x in xs))
    row = message(10, b''.join(message(10, message(10, k.encode())+message(18, apart(v))) for k,v in lists.items()))
    (tmp_path/'folder [a]').mkdir()
    (tmp_path/'folder [a]'/'x-0').write_bytes(record(row))
    monkeypatch.setenv('HOME', str(tmp_path))
    for source in (tmp_path/'folder [a]',tmp_path/'folder [a]'/'x-*',tmp_path/'folder [[]a]'/'x-0','~/folder [a]'):
        (ids,n_a), = tfrecord_rows(source)
        assert ids.tolist()==[2,300,7,3] and n_a==4
    (tmp_path/'b').write_bytes(record(example(input_ids=[], input_mask=[], segment_ids=[])))
    with pytest.raises(ValueError, match='no example of pre-training'): list(tfrecord_rows(tmp_path/'b'))

def moved(shape, folder, tok=None):
    "Two towers whose weights are all moved, in a folder."
    torch.manual_seed(42)
    tok = tok or tiny_tokenizer()
    pair = get_models(shape, len(tok))
    for t in pair:
        for p in t.parameters(): p.data += .1*torch.randn_like(p)
    save_models(*pair, folder, tok)
    return folder

small = ModelConfig(hidden_size=32, n_layers=2, n_heads=2, embedding_size=32, generator_size=.5, max_positions=64)

@pytest.mark.parametrize('family,says', [('albert',"of the family 'albert'"),('modern',"of the family 'modern'"),('bert',r'has a head \(classifier\)')])
def test_families_of_the_original_code(family, says, tmp_path, capsys):
    "What it lacks is refused, and nothing is written; an encoder without such a head is converted, and what is left out is named."
    folder = moved(replace(small, family=family), tmp_path/'mine')
    with pytest.raises(ValueError, match=says): to_tf1(folder, tmp_path/'google'/'model.ckpt-0')
    assert not (tmp_path/'google').exists()
    if family!='bert': return
    shutil.copytree(folder/'generator', tmp_path/'alone')
    weights = load_file(tmp_path/'alone'/'model.safetensors')
    save_file({**weights, 'bert.pooler.dense.weight':torch.ones(16, 16)}, tmp_path/'alone'/'model.safetensors')
    to_tf1(tmp_path/'alone', tmp_path/'google'/'model.ckpt-0')
    assert 'left out bert.pooler.dense' in capsys.readouterr().out
    assert 'electra/embeddings/word_embeddings' in read_variables(tmp_path/'google'/'model.ckpt-0')

def test_words_that_are_no_pieces(tmp_path, capsys):
    "Added words are counted in a warning; a usual vocabulary gets none."
    grown = grow_tokenizer(tiny_tokenizer(), ['harbourmaster','fishmonger'])
    for name,tok,n in ('plain',None,0),('grown',grown,1):
        to_tf1(moved(small, tmp_path/name, tok), tmp_path/f'{name}_tf1'/'model.ckpt-0')
        assert capsys.readouterr().out.count("the vocabulary has 2 added words, such as 'harbourmaster'")==n

def test_words_with_capitals(tmp_path, capsys):
    "That the original code takes capitals and accents away unless it is told otherwise is said of a vocabulary that has them."
    for name,lower,strip,n in ('plain',True,None,0),('cased',False,None,1),('accents',True,False,1):
        to_tf1(moved(small, tmp_path/name, bert_tokenizer(tiny_tokenizer().get_vocab(), lower, strip)), tmp_path/f'{name}_tf1'/'model.ckpt-0')
        assert capsys.readouterr().out.count('is for text with its capitals or accents')==n

def test_names_in_the_oldest_files_of_bert(tmp_path):
    "What transformers and start= read is not called wrong: gamma and beta in a BERT."
    torch.manual_seed(42)
    model = BertForMaskedLM(BertConfig(vocab_size=len(tiny_tokenizer()), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=40))
    for p in model.parameters(): p.data += .1*torch.randn_like(p)
    for name in 'new','old':
        model.save_pretrained(tmp_path/name)
        tiny_tokenizer().save_pretrained(tmp_path/name)
    weights = load_file(tmp_path/'old'/'model.safetensors')
    names = {'LayerNorm.weight':'LayerNorm.gamma', 'LayerNorm.bias':'LayerNorm.beta'}
    save_file({next((k.replace(n, o) for n,o in names.items() if k.endswith(n)), k):v for k,v in weights.items()}, tmp_path/'old'/'model.safetensors', dict(format='pt'))
    assert verify(tmp_path/'old', tmp_path/'new').problems==[]

def test_numbers_that_are_not_finite(mine, tmp_path):
    "The checkpoint and its variable are named, not a folder that is no longer there; so they are for a shape that does not fit."
    to_tf1(mine, tmp_path/'google'/'model.ckpt-0')
    variables,key = read_variables(tmp_path/'google'/'model.ckpt-0'),'electra/encoder/layer_0/output/dense/kernel'
    for x,says in (variables[key]*np.nan,'holds numbers that are not finite'),(variables[key][:,:5],'has the shape'):
        write_variables(tmp_path/'bad'/'model.ckpt-0', {**variables, key:x})
        with pytest.raises(ValueError, match=f"^{tmp_path/'bad'/'model.ckpt-0'}.*{key} {says}"): verify(tmp_path/'bad', n_heads=2)

def test_heads_are_said_once(mine, tmp_path, capsys):
    to_tf1(mine, tmp_path/'google'/'model.ckpt-0')
    (tmp_path/'google'/'bert_config.json').unlink()
    verify(tmp_path/'google')
    assert capsys.readouterr().out.count('a head for every 64 units')==1

def test_head_of_other_layers(tmp_path, capsys):
    "The original code has the activation of the layers in the head of the generator, transformers gelu: said both ways."
    towers = get_models(ModelConfig(hidden_size=32, n_layers=2, n_heads=2, max_positions=64, hidden_act='relu'), len(tiny_tokenizer()))
    save_models(*towers, tmp_path/'mine', tiny_tokenizer())
    for call,paths in (to_tf1,('mine','google/model.ckpt-0')),(from_tf1,('google','again')):
        call(*(str(tmp_path/p) for p in paths))
        assert 'transformers has gelu, and the original code relu: its guesses differ there' in capsys.readouterr().out

def test_verify_rows_and_folders(mine, tmp_path):
    "More rows than tokens is a fact; a third model without a head, or with the same head, changes nothing."
    wide = get_models(small, len(tiny_tokenizer())+8)[1]
    for p in wide.parameters(): p.data += .1*torch.randn_like(p)
    save_tower(wide, tmp_path/'wide', tiny_tokenizer())
    found = verify(tmp_path/'wide')
    assert found.problems==[] and 'the last 8 of 308 rows' in str(found.facts)
    for name in ('a_copy','finetuned'): shutil.copytree(mine/'discriminator', mine/name)
    weights = load_file(mine/'finetuned'/'model.safetensors')
    save_file({k:v for k,v in weights.items() if k.startswith('electra.')}, mine/'finetuned'/'model.safetensors')
    config = mine/'finetuned'/'config.json'
    config.write_text(config.read_text().replace('ElectraForPreTraining', 'ElectraModel'))
    found = verify(mine, mine/'discriminator')
    assert found.problems==[] and 'a_copy: a second discriminator, beside discriminator' in str(found.facts) and 'the same table' in str(found.facts)

@pytest.mark.parametrize('kind', ['roberta','distilbert','bert','albert','modernbert'])
def test_verify_reads_what_start_reads(kind, tmp_path):
    "Each layout, from safetensors and from a pytorch_model.bin; the logits are those of transformers."
    torch.manual_seed(0)
    sizes = dict(dim=32, n_layers=2, n_heads=2, hidden_dim=64) if kind=='distilbert' else dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    ids = dict(pad_token_id=0, bos_token_id=None, eos_token_id=None, cls_token_id=None, sep_token_id=None) if kind in ('albert','modernbert') else {}
    cfg = CONFIG_MAPPING[kind](vocab_size=300, max_position_embeddings=66, **sizes, **ids, **(dict(embedding_size=16) if kind=='albert' else {}))
    model = AutoModelForMaskedLM.from_config(cfg).eval()
    for p in model.parameters(): p.data += .1*torch.randn_like(p)
    model.save_pretrained(tmp_path/'a')
    (tmp_path/'b').mkdir()
    shutil.copy(tmp_path/'a'/'config.json', tmp_path/'b')
    torch.save(load_file(tmp_path/'a'/'model.safetensors'), tmp_path/'b'/'pytorch_model.bin')
    found = verify(tmp_path/'a', tmp_path/'b')
    assert found.problems==[] and f'generator: {kind}, layers: 2, units: 32' in found.facts[0] and 'differ by 0' in found.facts[-1]
    n = 64 if kind=='roberta' else 66
    x = torch.arange(2*n).view(2, n)*37 % 300
    mask = (torch.arange(n)<torch.tensor([[n],[5]])).long()
    types = dict(token_type_ids=torch.arange(2*n).view(2, n)%2) if kind in ('bert','albert') else {}
    with torch.no_grad(): want = model(x, attention_mask=mask, **types).logits[mask.bool()]
    if kind!='roberta': assert (fixed_logits([tmp_path/'b'], 'mlm')[0]-want).abs().max()<1e-4 # whose own positions skip the id of [PAD]

_bert = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, max_position_embeddings=66, vocab_size=300)
_modern = dict(pad_token_id=0, bos_token_id=None, eos_token_id=None, cls_token_id=None, sep_token_id=None)

def folder_of(kind, home, more={}, **settings):
    "A masked language model of random weights, with more of them, and with settings that its config.json gets afterwards."
    model = AutoModelForMaskedLM.from_config(CONFIG_MAPPING[kind](**_bert, **(_modern if kind=='modernbert' else {})))
    for p in model.parameters(): p.data += .1*torch.randn_like(p)
    model.save_pretrained(home)
    save_file({**load_file(home/'model.safetensors'), **more}, home/'model.safetensors')
    (home/'config.json').write_text(json.dumps({**json.loads((home/'config.json').read_text()), **settings}))
    return home

def test_verify_finds_other_layers(tmp_path):
    "Layers, or parts of them, that config.json does not have are wrong, and so is attention of another kind, wherever a model is opened."
    for kind,more in dict(bert={}, modernbert=dict(layer_types=['full_attention'])).items():
        found = verify(folder_of(kind, tmp_path/kind, num_hidden_layers=1, **more))
        assert any('weights of its layers have no place in the model of config.json, such as' in p for p in found.problems)
    part = {'bert.encoder.layer.0.adapter.down.weight':torch.zeros(3, 3)}
    assert 'such as encoder.layer.0.adapter.down.weight' in str(verify(folder_of('bert', tmp_path/'part', part)).problems)
    for k,v in dict(position_embedding_type='relative_key', is_decoder=True).items():
        folder = folder_of('bert', tmp_path/k, **{k:v})
        for call in (verify,Start,load_encoder):
            with pytest.raises(ValueError, match=f'{k}={v!r} is nothing that the layers of a run compute'): call(folder)

def test_verify_says_what_start_does(tmp_path):
    "What `start=` refuses of a sound model is said; what it reads is read: one token type becomes two."
    found = verify(folder_of('modernbert', tmp_path/'modern', local_attention=16))
    assert not found.problems and 'pretrain(start=…) refuses it' in found.facts[-1] and 'local_attention=16 would be 128' in found.facts[-1]
    twice = [*tiny_tokenizer().get_vocab()]
    twice[200] = twice[100]
    home = folder_of('bert', tmp_path/'twice')
    (home/'vocab.txt').write_text('\n'.join(twice)+'\n')
    assert 'refuses it: no token has id 100' in verify(home).facts[-1] and 'a line of vocab.txt is there twice, rename one' in verify(home).facts[-1]
    one = folder_of('bert', tmp_path/'one', {'bert.embeddings.token_type_embeddings.weight':torch.randn(1, 32)}, type_vocab_size=1)
    found = verify(one, one)
    assert not found.problems and 'generator: bert' in found.facts[0] and 'differ by 0' in found.facts[-1]
    assert not any('refuses' in f for f in found.facts)

def test_types_and_slices(tmp_path):
    "A variable of a type that is not read is named with its type, one in slices as such: neither is a damaged file."
    for what,says in (b'\x08\x0e', "'w': TensorFlow's type 14 is not read, only <f4"),(b'\x08\x01\x3a\0', "'w': it is in slices"):
        (tmp_path/'a.index').write_bytes(table_bytes([(b'',b'\x08\x01'),(b'w',what)]))
        with pytest.raises(ValueError, match=says): read_variables(tmp_path/'a')

def test_compressed_examples(tmp_path):
    (tmp_path/'a').write_bytes(gzip.compress(record(example(input_ids=[2,3], input_mask=[1,1], segment_ids=[0,0]))))
    with pytest.raises(ValueError, match='byte 0 has a wrong length or is cut off: fetch or make the file again, uncompressed'): list(tfrecord_rows(tmp_path/'a'))
