"Towers of another kind, those of howto/new_family, are trained, resumed, saved and fine-tuned like ELECTRA's."
import importlib, pytest, torch
from electra_nb.core.tiny import tiny_text
from electra_nb.model.families import encode, families, mlm_logits, rtd_logits
from electra_nb.pretraining import pretrain
from electra_nb.glue.head import Classifier
from electra_nb.glue.learner import layer_groups
from fastai.callback.core import Callback, CancelFitException
from safetensors.torch import load_file
from test_pages import root
from transformers import ModernBertForMaskedLM, ModernBertForTokenClassification, ModernBertModel

texts = tiny_text.split('\n\n')
small = dict(family='modernbert', steps=12, bs=4, max_len=32, vocab_size=300, valid=.3, eval_every=4, log_every=2, save_every=5, device='cpu')

class Halfway(Callback):
    def before_batch(self):
        if self.training and self.learn.steps.done==6: raise CancelFitException()

@pytest.fixture(scope='module')
def modern():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(root/'experiments')
        yield importlib.import_module('modern_towers')
    del families['modernbert']

@pytest.fixture(scope='module')
def home(modern, tmp_path_factory): return tmp_path_factory.mktemp('runs')

@pytest.fixture(scope='module')
def whole(home): return pretrain(corpus=texts, out=home/'whole', cache=home/'cache', **small)

def test_resumed(home, whole):
    "Stopped in the middle and called again: the same weights, and the embeddings are one table for both towers."
    for cbs,done in (([Halfway()], 6),([], 12)):
        learn = pretrain(corpus=texts, out=home/'stopped', cache=home/'cache', cbs=cbs, **small)
        assert learn.steps.done==done
    assert all(map(torch.equal, whole.model.parameters(), learn.model.parameters()))
    table = learn.model.discriminator.get_input_embeddings().weight
    assert learn.model.generator.decoder.weight is learn.model.generator.get_input_embeddings().weight is table

def test_folders(home, whole):
    "Both folders load with transformers' own classes, and give the logits of training."
    gen,disc = whole.model.generator.eval(),whole.model.discriminator.eval()
    ids = torch.tensor([[2,9,8,7,3],[2,11,12,3,0]])
    mask,slots = ids>0,torch.tensor([[1],[2]])
    for cls,name,want in ((ModernBertForMaskedLM, 'generator', mlm_logits(gen, ids, slots, mask)[:,0]),
        (ModernBertForTokenClassification, 'discriminator', rtd_logits(disc, ids, mask)[mask])):
        logits = cls.from_pretrained(home/'whole'/name)(ids, attention_mask=mask).logits
        got = logits[[0,1],[1,2]] if name=='generator' else logits[...,0][mask]
        torch.testing.assert_close(got, want)
    assert 'decoder.weight' not in load_file(home/'whole'/'generator'/'model.safetensors')

def test_fine_tuned(home, whole):
    "Every weight has a learning rate, the layers each their own; hidden states of all layers can be asked for."
    encoder = ModernBertModel.from_pretrained(home/'whole'/'discriminator')
    model = Classifier(encoder, 2, pooling='mean')
    groups = layer_groups(model)
    assert len(groups)==2*(2+encoder.config.num_hidden_layers)
    assert sorted(id(p) for g in groups for p in g)==sorted(id(p) for p in model.parameters())
    ids = torch.tensor([[2,9,8,7,3]])
    states = encode(encoder, ids, ids>0, output_hidden_states=True)
    torch.testing.assert_close(states[-1], encode(encoder, ids, ids>0))
    assert model(ids, torch.tensor([5]), torch.tensor([5])).shape==(1,2)
