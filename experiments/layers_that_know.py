"""Which layers of a pre-trained encoder are worth keeping? Two answers for a run, as lines of JSON.

    python layers_that_know.py RUN TAGGING SENTENCES OUT --starts 0 1 2 3 generator random --seeds 0 1 2 3 4

`probe`: a linear model reads chunk tags from the frozen vectors of each layer, of both towers and of a random start.
`tune`: fine-tuning from each start: the run with its n top layers begun anew, its generator, or a random start.
TAGGING and SENTENCES: as in recipe_trials.py. Lines that OUT has already are left out, so the same command goes on
where it was stopped.
"""
import argparse, json, torch
import numpy as np
from electra_nb.glue.encoders import encoder_tokenizer, load_encoder, random_encoder, restart_layers
from electra_nb.lab.kinds import kind_of
from electra_nb.glue.learner import dev_predictions, finetune_config, fit_task, task_features, task_learner
from electra_nb.glue.loading import load_files
from electra_nb.training.folder import versions
from paper_tables import add_line, sentence_task
from pathlib import Path
from recipe_trials import few
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

def start(run, n, seed):
    "The run with its `n` top layers begun anew; 'random': all of it; 'generator': the other tower."
    torch.manual_seed(seed)
    if n=='random': return random_encoder(run)
    if n=='generator': return load_encoder(Path(run)/'generator')
    return restart_layers(load_encoder(run), run, int(n))

def word_vectors(encoder, tok, rows):
    "Vectors of the first piece of each word, (layers, words, width), and the tags."
    found,tags = [],[]
    for words,ts in zip(rows.words, rows.tags):
        row = tok(words, is_split_into_words=True, truncation=True, max_length=encoder.config.max_position_embeddings)
        of = row.word_ids()
        first = [i for i,w in enumerate(of) if w is not None and w!=of[i-1]]
        with torch.no_grad(): states = encoder(torch.tensor([row['input_ids']]), output_hidden_states=True).hidden_states
        found.append(torch.stack([h[0,first] for h in states]))
        tags += [ts[of[i]] for i in first]
    return torch.cat(found, 1).numpy(),np.array(tags)

def probe(encoder, tok, data):
    "For each layer: accuracy of a linear model, and how much of the vectors' length is not the same for all words."
    encoder.eval()
    (x,y),(x_dev,y_dev) = (word_vectors(encoder, tok, data.splits[s]) for s in ('train','dev'))
    out = []
    for train,dev in zip(x, x_dev):
        linear = make_pipeline(StandardScaler(), LogisticRegression(C=.1, max_iter=300)).fit(train, y)
        varies = train.var(0).sum()/(train**2).sum(1).mean()
        out.append(dict(accuracy=round(100*linear.score(dev, y_dev), 2), varies=round(float(varies), 4)))
    return out

def row_sums(kind, rows, pred):
    "The score, and what each row adds to its numerator and denominator, as bytes in hexadecimal digits."
    metric = kind.task.metrics[0]
    if kind.task.kind=='tag': of = kind.sums(metric, rows.tags, [kind.words_of(p) for p in pred])
    else: of = np.stack([pred==rows.labels, np.ones(len(rows))], 1)
    score = round(float(kind.score(rows, pred)[metric]), 3)
    return dict(metric=metric, score=score, **{k:column.astype(np.uint8).tobytes().hex() for k,column in zip(('of','all'), of.T)})

def tune(run, n, tok, data, epochs, seed):
    "The score of a fine-tuning."
    encoder = start(run, n, seed)
    head = dict(tag_head='linear') if data.task.kind=='tag' else dict(pooling='mean')
    cfg = finetune_config(encoder.config, data.task.kind, epochs=epochs, max_len=min(data.task.max_len, encoder.config.max_position_embeddings),
        lr=5e-4, layer_decay=1., reinit_layers=0, **head)
    feats = task_features(data, tok, cfg)
    learn = task_learner(data, feats, encoder, cfg, seed)
    fit_task(learn, cfg)
    return row_sums(kind_of(data.task), data.splits['dev'], dev_predictions(learn)[1])

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('run','tagging','sentences','out'): ask.add_argument(word)
    ask.add_argument('--starts', nargs='+', default=['0','1','random'])
    ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2,3,4])
    ask.add_argument('--tasks', nargs='*', default=None, help='names; none after it: only the probe')
    a = ask.parse_args()
    torch.set_num_threads(1)
    out,tok,size = Path(a.out),encoder_tokenizer(a.run),json.loads((Path(a.run)/'recipe.json').read_text())['recipe']
    chunks = load_files('chunk', a.tagging)
    tasks = [(few(o, n), e) for o in (chunks,*(sentence_task(a.sentences, k) for k in ('MR','SUBJ'))) for n,e in ((200,30.),(2000,5.))]
    found = [json.loads(l) for l in out.read_text().splitlines()] if out.exists() else []
    about = {k:size[k] for k in ('n_layers','hidden_size','max_len','steps','lr','generator_lr')}
    def known(**o): return any(all(r.get(k)==v for k,v in o.items()) for r in found)
    for n in ('0','generator','random'):
        if not known(part='probe', start=n, **about):
            add_line(out, dict(part='probe', start=n, **about, found=probe(start(a.run, n, 0), tok, few(chunks, 600, 300)), versions=versions()))
    for seed in a.seeds:
        for data,epochs in tasks:
            for n in a.starts:
                line = dict(part='tune', start=n, seed=seed, task=data.name, **about)
                if (a.tasks is None or data.name in a.tasks) and not known(**line): add_line(out, dict(line, **tune(a.run, n, tok, data, epochs, seed)))
