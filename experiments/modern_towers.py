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

from electra_nb.model.families import Family, families

families['modernbert'] = Family(encode, mlm_logits, rtd_logits, blocks)

from dataclasses import dataclass
from electra_nb.objectives.rtd import RTD
from electra_nb.objectives.table import objectives
from transformers import ModernBertForMaskedLM, ModernBertForTokenClassification

@dataclass(frozen=True)
class ModernRTD(RTD):
    "Replaced-token detection with towers of ModernBERT's layout."
    def build(self, cfg, vocab_size, pad_id=0):
        "Both towers, on one table of embeddings."
        def shape(n_layers): return modern_config(cfg, vocab_size, pad_id, n_layers)
        n_generator = max(1, round(cfg.n_layers*cfg.generator_layers))
        gen = ModernBertForMaskedLM(shape(n_generator))
        disc = ModernBertForTokenClassification(shape(cfg.n_layers))
        for tower in (gen,disc): tower.set_attn_implementation('sdpa')
        gen.model.embeddings = disc.model.embeddings
        gen.decoder.weight = disc.get_input_embeddings().weight
        return dict(generator=gen, discriminator=disc)

objectives['modern'] = ModernRTD()
