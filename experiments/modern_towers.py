"""The definitions of `nbs/howto/new_family.ipynb`, which writes this file: towers of ModernBERT's layout."""

from transformers import ModernBertConfig

def modern_config(cfg, vocab_size, pad_id, n_layers):
    "The configuration of a tower; its embeddings are as wide as its layers."
    width,n_heads = cfg.hidden_size,cfg.n_heads or max(1, cfg.hidden_size//64)
    shape = dict(hidden_size=width, num_hidden_layers=n_layers, num_attention_heads=n_heads)
    shape.update(intermediate_size=width*8//24*8, max_position_embeddings=cfg.max_positions)
    ids = dict.fromkeys(('bos_token_id','eos_token_id','cls_token_id','sep_token_id'))
    ids.update(vocab_size=vocab_size, pad_token_id=pad_id)
    return ModernBertConfig(num_labels=1, **shape, **ids)

def modern_configs(cfg, vocab_size, pad_id):
    "The configurations of the generator and of the discriminator."
    n_generator = max(1, round(cfg.n_layers*cfg.generator_layers))
    layers = n_generator,cfg.n_layers
    return tuple(modern_config(cfg, vocab_size, pad_id, n) for n in layers)

def known_settings(values, source):
    "The configuration that a config.json describes."
    names = '''vocab_size hidden_size intermediate_size num_hidden_layers
        num_attention_heads max_position_embeddings'''.split()
    wrong = [k for k in names if type(values.get(k)) is not int or not 0<values[k]<2**24]
    needs = 'must be a whole number above 0'
    for k in wrong: raise ValueError(f"{source}: {k}={values.get(k)!r} {needs}")
    ids = dict.fromkeys(('bos_token_id','eos_token_id','cls_token_id','sep_token_id'), None)
    own = dict(num_labels=1, pad_token_id=values.get('pad_token_id'))
    return ModernBertConfig(**own, **ids, **{k:values[k] for k in names})

def n_weights(config):
    "About how many weights an encoder has."
    d = config.hidden_size
    return d*config.vocab_size+config.num_hidden_layers*(4*d*d+3*d*config.intermediate_size)

from electra_nb.model.forward import at_slots

def encode(encoder, ids, mask=None, types=None, output_hidden_states=False):
    "Hidden states (bs, sl, d) of the last layer, or those of all."
    out = encoder(ids, mask, output_hidden_states=output_hidden_states)
    return list(out.hidden_states) if output_hidden_states else out.last_hidden_state

def mlm_logits(tower, masked, slots, *inputs):
    "Logits over the vocabulary (bs, n, v) at the slots."
    return tower.decoder(tower.head(at_slots(encode(tower.model, masked, *inputs), slots)))

def rtd_logits(tower, ids, *inputs):
    "A logit (bs, sl) for each token, above 0 for a replaced one."
    return tower.classifier(tower.head(encode(tower.model, ids, *inputs)))[...,0]

def blocks(encoder):
    "Embeddings, then layers, as lists of modules."
    *layers,last = encoder.layers
    return [[encoder.embeddings],*([l] for l in layers),[last,encoder.final_norm]]

def initialize(tower, cfg):
    "The initial values of transformers, which the tower has already."
    tower.set_attn_implementation('sdpa')

def share(gen, disc, tie, fresh):
    "Let the generator read the discriminator's table of words."
    if tie!='embeddings': raise ValueError(f"tie={tie!r}: only embeddings can be shared")
    gen.model.embeddings = disc.model.embeddings
    gen.decoder.weight = disc.get_input_embeddings().weight

from electra_nb.model.families import Family, families
from transformers import ModernBertForMaskedLM, ModernBertForSequenceClassification
from transformers import ModernBertForTokenClassification, ModernBertModel

families['modernbert'] = Family(encoder=ModernBertModel, # chkstyle: ignore (a table)
    heads=dict(mlm=ModernBertForMaskedLM, rtd=ModernBertForTokenClassification,
        classify=ModernBertForSequenceClassification),
    config=known_settings, configs=modern_configs, n_weights=n_weights,
    initialize=initialize, tie=share, blocks=blocks,
    forward=encode, mlm_logits=mlm_logits, rtd_logits=rtd_logits,
    dropouts=('mlp_dropout','attention_dropout'),
    head_weights=dict(mlm='decoder.', rtd='classifier.'))
