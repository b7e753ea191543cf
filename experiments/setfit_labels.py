"""What does SetFit make of a run with few labels? It trains the vectors so that texts of one label come near each other, then a logistic regression.

    python setfit_labels.py RUN DATA OUT --tasks subj_200 --layers 1 4 --seeds 0 1 2

RUN is a run folder; DATA has sentences/ and glue/, as for rivals.py. The library setfit is needed. Vectors are means over the tokens of
the layer that --layers counts. OUT (.jsonl) gets a line a task, layer and seed: accuracy alone, and of its log-probabilities with those
of tf-idf added at equal weight. Lines that OUT has already are left out.
"""
import argparse, json, tempfile, time, torch
import electra_nb.lab.register
import numpy as np
from datasets import Dataset
from electra_nb.glue.classify import Classify
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder
from electra_nb.lab.export.vectors import first_layers
from electra_nb.lab.rivals.tfidf import fit_tfidf
from paper_tables import add_line, versions
from pathlib import Path
from rivals import rows_of
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from sklearn.linear_model import LogisticRegression

def vectors_model(run, n, max_len):
    "A `SentenceTransformer` of the first layers."
    with tempfile.TemporaryDirectory() as tmp:
        encoder = first_layers(load_encoder(run), n)
        encoder.save_pretrained(tmp)
        encoder_tokenizer(run).save_pretrained(tmp)
        return SentenceTransformer(modules=[Transformer(tmp, max_seq_length=max_len),Pooling(encoder.config.hidden_size, 'mean')], device='cpu')

def tune(run, data, n, seed, pairs, lr):
    "Log-probabilities (rows, labels) for the dev rows."
    from setfit import SetFitModel, Trainer, TrainingArguments
    train,dev = data.splits['train'],data.splits['dev']
    torch.manual_seed(seed)
    model = SetFitModel(model_body=vectors_model(run, n, 128), model_head=LogisticRegression(max_iter=1000))
    n_iterations = max(1, pairs//(2*len(train)))
    with tempfile.TemporaryDirectory() as tmp:
        options = dict(num_iterations=n_iterations, body_learning_rate=lr, batch_size=32, report_to='none', output_dir=tmp, save_strategy='no')
        trainer = Trainer(model, TrainingArguments(num_epochs=1, seed=seed, **options), train_dataset=Dataset.from_dict(dict(text=train.text_a, label=train.labels.tolist())))
        trainer.train()
    return np.log(np.clip(np.asarray(model.predict_proba(dev.text_a)), 1e-6, 1))

def accuracy(log_probs, rows): return round(100*float((log_probs.argmax(1)==rows.labels).mean()), 2)

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('run','data','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--tasks', nargs='+', default=['subj_200','mr_2000','sst2_1000'])
    ask.add_argument('--layers', nargs='+', type=int, default=[1])
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2,3,4])
    ask.add_argument('--pairs', type=int, default=8000, help='pairs of texts that are compared in training')
    ask.add_argument('--lr', type=float, default=1e-3)
    a = ask.parse_args()
    torch.set_num_threads(1)
    done = [json.loads(l) for l in a.out.read_text().splitlines()] if a.out.exists() else []
    for task in a.tasks:
        data = rows_of(task, a.data, a.out.parent)
        dev = data.splits['dev']
        counted = np.log(np.clip(fit_tfidf(Classify(data.task), data.splits['train'])(dev), 1e-6, 1))
        for seed in a.seeds:
            for n in a.layers:
                line = dict(run=a.run.name, task=task, layers=n, seed=seed, pairs=a.pairs, lr=a.lr)
                if any(line.items()<=d.items() for d in done): continue
                began = time.process_time()
                own = tune(str(a.run), data, n, seed, a.pairs, a.lr)
                scores = dict(setfit=accuracy(own, dev), tfidf=accuracy(counted, dev), both=accuracy(own+counted, dev))
                add_line(a.out, dict(line, **scores, cpu_seconds=round(time.process_time()-began, 1), versions=versions()))
