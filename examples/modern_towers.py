"""ModernBERT's layout for both towers, as a family and an objective of one's own; a trial of recipe_trials.py uses it.

Rotary positions, a normalisation before each sublayer, gated feed-forward layers, no biases (Warner et al., 2024). The
folders of a run load as ModernBertForMaskedLM and, with one label, as ModernBertForTokenClassification.
"""
import torch
from dataclasses import dataclass
from electra_nb.model.families import Family, families
from electra_nb.model.forward import at_slots
from electra_nb.model.hf import quiet_hf
from electra_nb.objectives.rtd import RTD
from electra_nb.objectives.table import objectives
from electra_nb.text.tokenizer import load_tokenizer
from electra_nb.zero_shot.towers import Scorer
from pathlib import Path
from transformers import ModernBertConfig, ModernBertForMaskedLM, ModernBertForTokenClassification, ModernBertModel

def encode(encoder, ids, attention_mask=None, token_type_ids=None, unpad=None, output_hidden_states=False):
    "Hidden states (bs, sl, d); token types and `unpad` are not used."
    out = encoder(ids, attention_mask, output_hidden_states=output_hidden_states)
    return list(out.hidden_states) if output_hidden_states else out.last_hidden_state

def mlm_logits(tower, masked, slots, *inputs): return tower.decoder(tower.head(at_slots(encode(tower.model, masked, *inputs), slots)))
def rtd_logits(tower, ids, *inputs): return tower.classifier(tower.head(encode(tower.model, ids, *inputs)))[...,0]
def blocks(encoder): return [[encoder.embeddings],*([layer] for layer in encoder.layers[:-1]),[encoder.layers[-1],encoder.final_norm]]

families['modernbert'] = Family(encode, mlm_logits, rtd_logits, blocks)

def modern_config(cfg, vocab_size, pad_id, n_layers):
    "A tower as wide as the embeddings; its gated layers have as many weights as 4 times the width without a gate."
    return ModernBertConfig(vocab_size=vocab_size, hidden_size=cfg.hidden_size, intermediate_size=cfg.hidden_size*8//3//8*8,
        num_hidden_layers=n_layers, num_attention_heads=cfg.n_heads, max_position_embeddings=cfg.max_positions, pad_token_id=pad_id,
        bos_token_id=None, eos_token_id=None, cls_token_id=None, sep_token_id=None, num_labels=1)

@dataclass(frozen=True)
class ModernRTD(RTD):
    "Replaced-token detection with towers of ModernBERT's layout."
    def build(self, cfg, vocab_size, pad_id=0):
        n_gen = max(1, round(cfg.n_layers*cfg.generator_layers))
        gen = ModernBertForMaskedLM(modern_config(cfg, vocab_size, pad_id, n_gen))
        disc = ModernBertForTokenClassification(modern_config(cfg, vocab_size, pad_id, cfg.n_layers))
        for tower in (gen,disc): tower.set_attn_implementation('sdpa')
        gen.model.embeddings = disc.model.embeddings
        gen.decoder.weight = disc.get_input_embeddings().weight
        return dict(generator=gen, discriminator=disc)

objectives['modern'] = ModernRTD()

@quiet_hf()
def load_modern_encoder(run): return ModernBertModel.from_pretrained(Path(run)/'discriminator', dtype=torch.float32)

@quiet_hf()
def load_modern_scorer(run):
    "The generator of a run, for pairs of sentences."
    tower = ModernBertForMaskedLM.from_pretrained(Path(run)/'generator', dtype=torch.float32).eval()
    return Scorer(tower, load_tokenizer(Path(run)/'tokenizer'), 'generator', tower.config.max_position_embeddings)
