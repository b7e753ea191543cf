"""Do GLiNER and PyLate open the encoder of a run, and is it better there than the same encoder with random weights?

    python other_libraries.py gliner OUT ENCODER SENTENCES
    python other_libraries.py pylate OUT ENCODER QUESTIONS --vectors FOLDER

ENCODER is `runs/…/discriminator`, SENTENCES the tagged sentences of CoNLL-2000 (a word, its part of speech and its chunk a line; .xz),
QUESTIONS a file of SQuAD (.json.xz). A line of OUT (.jsonl) is one training: the library, the weights at its start, the seed, and the score on rows
that were not trained on. The libraries want versions of transformers of their own, so each has an environment of its own:
`pip install gliner`, `pip install pylate scikit-learn`.
"""
import argparse, json, lzma, random, shutil, tempfile
from datetime import date
from importlib.metadata import version
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel, set_seed

names = dict(NP='noun phrase', VP='verb phrase', PP='preposition', ADVP='adverb phrase')

def read(path):
    "Sentences as lists of (word, chunk)."
    blocks = lzma.open(path, 'rt').read().strip().split('\n\n')
    return [[(l.split()[0],l.split()[2]) for l in b.split('\n')] for b in blocks]

def spans(sentence):
    "A sentence as GLiNER takes it: its words, and first word, last word and name of each span."
    found = []
    for i,(_,tag) in enumerate(sentence):
        kind = names.get(tag[2:])
        if tag[:2]=='B-' and kind: found.append([i, i, kind])
        elif tag[:2]=='I-' and kind: found[-1][1] = i
    return dict(tokenized_text=[w for w,_ in sentence], ner=found)

def gliner_score(encoder, train, test, out, seed):
    "F1 over the spans of 500 sentences, after training on 1,000."
    from gliner import GLiNER, GLiNERConfig
    config = GLiNERConfig(model_name=str(encoder), hidden_size=128, max_len=128, max_width=8)
    model = GLiNER.from_config(config)
    options = dict(learning_rate=1e-3, per_device_train_batch_size=16, max_steps=300)
    options.update(use_cpu=True, save_strategy='no', disable_tqdm=True)
    model.train_model(train, None, output_dir=out, seed=seed, **options)
    _,f1 = model.evaluate(test, flat_ner=True, entity_types=[*names.values()])
    model.save_pretrained(out)
    again = GLiNER.from_pretrained(out)
    text = 'The new manager of the bank has sold its shares .'
    found = again.predict_entities(text, [*names.values()])
    return dict(score=float(f1), example=[(s['text'],s['label']) for s in found])

def questions(path):
    "One question of each paragraph of SQuAD, and the paragraph."
    found = json.load(lzma.open(path))['data']
    return [(p['qas'][0]['question'],p['context']) for d in found for p in d['paragraphs']]

def tfidf_score(test):
    "How often the paragraph of a question is the best one by tf-idf."
    from sklearn.feature_extraction.text import TfidfVectorizer
    asked,texts = zip(*test)
    count = TfidfVectorizer(sublinear_tf=True).fit(texts)
    best = (count.transform(asked)@count.transform(texts).T).toarray().argmax(1)
    return float((best==range(len(test))).mean())

def pylate_score(encoder, train, test, out, seed):
    "How often the paragraph of a question is the best of 200, before and after training on 1,000 pairs."
    from datasets import Dataset
    from pylate import losses, models, scores, utils
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    model = models.ColBERT(str(encoder), device='cpu', embedding_size=64, query_length=32, document_length=128)
    def found(model):
        asked = torch.stack([torch.as_tensor(v) for v in model.encode([a for a,_ in test], is_query=True)])
        texts = [torch.as_tensor(v) for v in model.encode([b for _,b in test], is_query=False)]
        texts = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
        best = scores.colbert_scores(asked, texts).argmax(1)
        return (best==torch.arange(len(test))).float().mean().item()
    before = found(model)
    rows = Dataset.from_dict(dict(query=[a for a,_ in train], document=[b for _,b in train]))
    options = dict(num_train_epochs=3, per_device_train_batch_size=32, learning_rate=1e-3)
    options.update(seed=seed, use_cpu=True, report_to='none', save_strategy='no', disable_tqdm=True)
    args = SentenceTransformerTrainingArguments(out, **options)
    SentenceTransformerTrainer(model, args, train_dataset=rows, loss=losses.Contrastive(model),
        data_collator=utils.ColBERTCollator(model.tokenize)).train()
    after = found(model)
    model.save_pretrained(out)
    assert found(models.ColBERT(out, device='cpu'))==after
    return dict(before=before, score=after)

def random_weights(encoder, out, seed):
    "The same encoder and tokenizer, with weights that nobody has trained."
    shutil.copytree(encoder, out)
    set_seed(seed)
    for f in Path(out).glob('*.safetensors'): f.unlink()
    AutoModel.from_config(AutoConfig.from_pretrained(encoder)).save_pretrained(out)
    return out

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ask.add_argument('library', choices=['gliner','pylate'])
    ask.add_argument('out', type=Path)
    ask.add_argument('encoder', type=Path)
    ask.add_argument('data', type=Path)
    ask.add_argument('--vectors', type=Path, help="folder that export(run, 'sentence-transformers') has made of it")
    ask.add_argument('--seeds', type=int, default=3)
    a = ask.parse_args()
    torch.set_num_threads(1)
    rows = [spans(s) for s in read(a.data)] if a.library=='gliner' else questions(a.data)
    random.Random(0).shuffle(rows)
    train,test = (rows[:1000],rows[1000:1500]) if a.library=='gliner' else (rows[:1000],rows[1000:1200])
    more = {} if a.library=='gliner' else dict(tfidf=tfidf_score(test))
    starts = dict(pretrained=a.encoder, random=None, **(dict(exported=a.vectors) if a.vectors else {}))
    for seed in range(a.seeds):
        for start,encoder in starts.items():
            with tempfile.TemporaryDirectory() as tmp:
                encoder = encoder or random_weights(a.encoder, f'{tmp}/encoder', seed)
                set_seed(seed)
                score = dict(gliner=gliner_score, pylate=pylate_score)[a.library]
                line = dict(library=a.library, version=version(a.library), transformers=version('transformers'), start=start, seed=seed,
                    **score(encoder, train, test, f'{tmp}/out', seed), **more, date=str(date.today()))
            print(line)
            with a.out.open('a') as f: f.write(json.dumps(line)+'\n')
