"Variables of the original TensorFlow code under the names of `transformers`."
import re
import numpy as np, torch

_parts = [(r'layer_(\d+)', r'layer.\1'), (r'embeddings_project', 'embeddings_project'), (r'LayerNorm/gamma', 'LayerNorm/weight'), (r'LayerNorm/beta', 'LayerNorm/bias'),
    (r'kernel', 'weight'), (r'(word|position|token_type)_embeddings$', r'\1_embeddings/weight'), (r'discriminator_predictions/dense_1', 'discriminator_predictions/dense_prediction')]

def hf_name(name):
    "(tower, parameter) of a variable; the shared embeddings belong to the discriminator."
    tower = 'generator' if name.startswith(('generator', 'cloze_predictions')) else 'discriminator'
    if name=='generator_predictions/output_bias': return tower,'generator_lm_head.bias'
    if name=='cloze_predictions/output_bias': return tower,'bias'
    for a,b in _parts: name = re.sub(a, b, name)
    return tower,re.sub(r'^generator_(ltr|rtl)', r'\1', re.sub(r'^generator/', 'electra/', name)).replace('/', '.')

def to_hf(name, array):
    "A tensor in PyTorch's layout: dense kernels are transposed."
    return torch.from_numpy(np.array(array.T if name.endswith('kernel') else array))

def load_variables(gen, disc, variables):
    "Put a dictionary `TF name -> array` into the towers; every parameter must be set. `gen` may be None."
    towers,seen = {k:m for k,m in dict(generator=gen, discriminator=disc).items() if m is not None},set()
    params = {k:dict(m.named_parameters(remove_duplicate=False)) for k,m in towers.items()}
    for name,array in variables.items():
        tower,key = hf_name(name)
        p = params[tower][key]
        assert p.shape==to_hf(name, array).shape, (name, p.shape, array.shape)
        p.data.copy_(to_hf(name, array))
        seen.add(id(p))
    missing = [n for m in towers.values() for n,p in m.named_parameters() if id(p) not in seen]
    assert not missing, missing

def group(npz, prefix):
    "The arrays of one group of an npz file, without the prefix."
    return {k[len(prefix):]:npz[k] for k in npz.files if k.startswith(prefix)}
