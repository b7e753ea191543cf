"""How well does a pre-trained model find synthetic errors? Pairs of sentences, marked words, and the most suspicious word.

    python synthetic_errors.py OUT --run RUN

Half of the held-out docstrings of RUN, a run of `pretrain()`, get an error each: a misspelt word, two neighbours swapped, or
another word of the text. Both towers choose between each sentence and its copy with an error, and mark words: a threshold is
chosen on one half of the sentences and measured on the other. OUT gets the figures that `explain/slips` shows.
"""
import argparse, json, time
import numpy as np
from collections import Counter, namedtuple
from pathlib import Path
from scipy.stats import binomtest
from sklearn.metrics import precision_recall_curve
from electra_nb import evaluate_pairs
from electra_nb.lab.bench.measure import commit
from electra_nb.lab.own_data.builtin import builtin_docs, split_sentences, swap_words, unread_share
from electra_nb.lab.scoring.pairs import Pair
from electra_nb.lab.scoring.towers import load_scorer
from electra_nb.lab.scoring.words import score_texts
from electra_nb.text.corpus import is_held_out
from electra_nb.training.folder import versions

def places(words, least): return [i for i,w in enumerate(words) if i and len(w)>=least and w.isalpha() and w==w.lower()]

def changed(words, i, new):
    "The sentence with another word at `i`, the first of `new` that differs; empty if none does."
    found = next((w for w in new if w!=words[i]), '')
    return ' '.join([*words[:i],found,*words[i+1:]]) if found else ''

def edited(word, rng):
    "A word with one letter doubled, lost, changed or swapped with the next."
    i = int(rng.integers(1, len(word)-1))
    a,b,c = word[:i],word[i],word[i+1:]
    letter = str(rng.choice(sorted(set(word))))
    edits = [a+b+b+c, a+c, a+letter+c, a+c[:1]+b+c[1:]]
    return edits[int(rng.integers(4))]

def misspell(sentence, rng):
    "The sentence with a misspelt word; empty if no word has four letters."
    words = sentence.split()
    at = places(words, 4)
    if not at: return ''
    i = int(rng.choice(at))
    return changed(words, i, (edited(words[i], rng) for _ in range(20)))

def wrong_word(sentences):
    "A function that puts another word of these sentences, drawn by frequency, in the place of one."
    counts = Counter(w for s in sentences for w in s.split() if w.isalpha() and w==w.lower())
    known,shares = list(counts),np.array(list(counts.values()))/max(1, counts.total())
    def replace_one(sentence, rng):
        words = sentence.split()
        at = places(words, 1)
        if not at: return ''
        i = int(rng.choice(at))
        return changed(words, i, rng.choice(known, 20, p=shares))
    return replace_one

def error_kinds(sentences): return dict(spelling=misspell, order=swap_words, word=wrong_word(sentences))

Altered = namedtuple('Altered', 'text spans kind') # sentence, (start, end) of each wrong word, kind of error or ''

def wrong_spans(original, altered):
    "Where two sentences with as many words differ: (start, end) in the second."
    spans,at = [],0
    for a,b in zip(original.split(), altered.split(), strict=True):
        start = altered.index(b, at)
        at = start+len(b)
        if a!=b: spans.append((start,at))
    return spans

def inject(sentences, kinds, seed=0, share=.5):
    "A share of the sentences with an error each; the others as they are. Sentences without a place for theirs are left out."
    rng,names,out = np.random.default_rng(seed),list(kinds),[]
    for s in (' '.join(s.split()) for s in sentences):
        kind = names[int(rng.integers(len(names)))] if rng.random()<share else ''
        text = kinds[kind](s, rng) if kind else s
        if text: out.append(Altered(text, wrong_spans(s, text), kind))
    return out

def judge(scorer, altered):
    "Of each word of all sentences: its error probability, whether it is wrong, the number of its sentence."
    words = [(w,p.spans,i) for i,(p,s) in enumerate(zip(altered, score_texts(scorer, [p.text for p in altered]))) for w in s.words]
    wrong = [any(w.start<end and w.end>start for start,end in spans) for w,spans,_ in words]
    return np.array([w.error_prob for w,*_ in words]),np.array(wrong),np.array([i for *_,i in words])

def threshold_for(prob, wrong, precision, least=10):
    "The lowest threshold with this precision and `least` marked words or more; None: there is none."
    reached,_,thresholds = precision_recall_curve(wrong, prob)
    n_marked = len(prob)-np.searchsorted(np.sort(prob), thresholds)
    good = np.flatnonzero((reached[:-1]>=precision) & (n_marked>=least))
    return float(np.nextafter(thresholds[good[0]], 0)) if len(good) else None

def share(k, n):
    "A share with Wilson's 95 % interval, and of how many."
    if not n: return [float('nan')]*3+[0]
    ci = binomtest(int(k), int(n)).proportion_ci(method='wilson')
    return [k/n, ci.low, ci.high, int(n)]

def marked(scorer, altered, threshold):
    "Precision and recall of the words above a threshold, and the recall of each kind of error."
    prob,wrong,sentence = judge(scorer, altered)
    above = prob>threshold
    found = np.isin(np.arange(len(altered)), sentence[above & wrong])
    kind = np.array([p.kind for p in altered])
    def recall(which): return share(found[which].sum(), which.sum())
    kinds = {k:recall(kind==k) for k in sorted({*kind.tolist()}-{''})}
    return dict(precision=share(wrong[above].sum(), above.sum()), recall=recall(kind!=''), **kinds)

def marking(scorer, sentences, share):
    "Precision and recall for several precisions that are asked for; chosen on one half, measured on the other."
    altered,rows = inject(sentences, error_kinds(sentences), share=share),[]
    prob,wrong,_ = judge(scorer, altered[::2])
    for asked in (.1,.2,.3,.4,.5,.6):
        threshold = threshold_for(prob, wrong, asked)
        if threshold is None: break
        rows.append(dict(asked=asked, threshold=threshold, **marked(scorer, altered[1::2], threshold)))
    return rows

def most_suspicious(scorer, sentences, seed=0):
    "How often a replaced word is the most suspicious one of its sentence, beside chance."
    rng,spoil = np.random.default_rng(seed),wrong_word(sentences)
    texts = [(s,t) for s in (' '.join(s.split()) for s in sentences) if (t := spoil(s, rng))]
    hits,chance = 0,0.
    for (s,t),score in zip(texts, score_texts(scorer, [t for _,t in texts])):
        if not score.words: continue
        (start,end),worst = wrong_spans(s, t)[0],max(score.words, key=lambda w: w.error_prob)
        hits += start<=worst.start<end
        chance += 1/len(score.words)
    return dict(found=hits, chance=round(chance, 1), n=len(texts))

def unread_sentences(run):
    "The sentences of the held-out docstrings of a run, each once."
    held_out,_ = unread_share(run)
    return list(dict.fromkeys(s for d in builtin_docs() if is_held_out(d, held_out) for s in split_sentences(d)))

def error_pairs(sentences, seed=1):
    "Each sentence and its copy with an error, for each kind."
    rng,plain = np.random.default_rng(seed),[' '.join(s.split()) for s in sentences]
    return [Pair(s, bad, kind) for kind,spoil in error_kinds(sentences).items() for s in plain if (bad := spoil(s, rng))]

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ask.add_argument('out', type=Path)
    ask.add_argument('--run', required=True, help='a run folder of pretrain()')
    a = ask.parse_args()
    sentences = unread_sentences(a.run)
    about = dict(what='synthetic errors in held-out docstrings, for the model of pretrain()', commit=commit(),
        date=time.strftime('%Y-%m-%d'), versions=versions(), device='CPU', sentences=len(sentences), ways={})
    for by in ('discriminator','generator'):
        scorer = load_scorer(a.run, by, 'cpu')
        marks = {str(s):marking(scorer, sentences, s) for s in (.5,.1)}
        table = evaluate_pairs(a.run, error_pairs(sentences[:1000]), by, device='cpu').round(2)
        about['ways'][by] = dict(marks=marks, top=most_suspicious(scorer, sentences[:1000]), pairs=table.to_dict('records'))
    a.out.mkdir(parents=True, exist_ok=True)
    (a.out/'slips.json').write_text(json.dumps(about, indent=1)+'\n')
