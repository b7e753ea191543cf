"""How much does a pre-trained encoder add when labels are few? SST-2 with some hundred or thousand training rows.

    python few_labels.py DATA OUT --run RUN

DATA has glue/SST-2/. Both starts, the pre-trained one and the same layers with random values, get the rate with which
they do best on rows of the training file that are not trained on; then they are scored on the dev file with other seeds.
The studies stay in OUT/studies, so the same command goes on where it was stopped; OUT/few_labels.json has the figures.
"""
import argparse, json, pandas as pd
from datetime import date
from electra_nb import finetune
from electra_nb.lab.bench.measure import commit
from electra_nb.lab.study.statistics import compare
from electra_nb.lab.study.statistics import is_random
from electra_nb.training.folder import versions
from pathlib import Path

epochs = {300:30.,1000:10.,3000:5.} # training rows -> epochs: 300 to 500 steps
rates = 2e-4,5e-4,1e-3
n_choice,n_tuned,n_seeds = 1000,2,5 # rows to choose a rate on, seeds for that, seeds that are reported

def sst2(data, split):
    path = next((data/'glue/SST-2').glob(f'{split}.tsv*'))
    return pd.read_csv(path, sep='\t', quoting=3)

def lines_of(study, random): return [r for r in study.lines if is_random(r)==random]

def mean_score(study, random):
    scores = [r['score'] for r in lines_of(study, random)]
    return sum(scores)/len(scores)

def best_rates(runs):
    "The rate of each start with the highest mean score; `runs` is rate -> study."
    return {random:max(rates, key=lambda lr: mean_score(runs[lr], random)) for random in (False,True)}

def compare_starts(run, n, train, choice, dev, out):
    "Both starts on `n` rows, each with its own rate."
    def tune(lr, name, rows, seeds, first):
        folder = out/'studies'/f'{n}-{name}-{lr:g}'
        return finetune(run, data=train[:n], dev=rows, text='sentence', label='label', lr=lr, epochs=epochs[n],
            runs=seeds, seed=first, baseline=True, threads=1, out=str(folder))
    tried = {lr:tune(lr, 'choice', choice, n_tuned, 100) for lr in rates}
    best = best_rates(tried)
    final = {lr:tune(lr, 'dev', dev, n_seeds, 0) for lr in set(best.values())}
    studies = [final[best[random]] for random in (False,True)]
    lines = [lines_of(s, random) for s,random in zip(studies, (False,True))]
    gain = compare(*lines, ('the pre-trained start','the random start'), [s.out for s in studies])
    chosen = {lr:dict(pretrained=mean_score(s, False), random=mean_score(s, True)) for lr,s in tried.items()}
    return dict(rows=n, epochs=epochs[n], on_the_choice=chosen, rates=dict(pretrained=best[False], random=best[True]),
        lines=lines[0]+lines[1], gain=json.loads(gain.to_json(orient='records'))[0])

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    for word in ('data','out'): ask.add_argument(word, type=Path)
    ask.add_argument('--run', required=True, help='a run folder')
    a = ask.parse_args()
    every = sst2(a.data, 'train').sample(frac=1, random_state=0).drop_duplicates('sentence')
    dev = sst2(a.data, 'dev')
    every = every[~every.sentence.isin(dev.sentence)]
    choice,train = every[:n_choice],every[n_choice:]
    found = [compare_starts(a.run, n, train, choice, dev, a.out) for n in epochs]
    about = dict(what=__doc__.split('\n')[0], date=str(date.today()), commit=commit(), device='CPU, one thread', versions=versions(),
        recipe=json.loads((Path(a.run)/'recipe.json').read_text())['recipe'])
    (a.out/'few_labels.json').write_text(json.dumps(dict(about, studies=found), indent=1))
