"""How fast does one process pack text, how much memory does it take, and does that grow?

    python packing.py OUT --gb 20 TEXT …

The files are read again and again, as one endless text, with BERT's vocabulary and rows of 512 ids (as for `base`). A line of OUT (.jsonl)
is written for each gigabyte: text, tokens, CPU seconds (decompression of .xz included) and memory up to there. Shards are deleted once counted.
"""
import argparse, json, os, platform, resource, shutil, tempfile, time
from datetime import date
from electra_nb.lab.bench.measure import commit
from electra_nb.lab.stream.shards import pack_part, read_header
from electra_nb.recipe import make_recipe
from electra_nb.text.corpus import Corpus
from electra_nb.text.reading import read_docs
from electra_nb.text.tokenizer import load_tokenizer
from electra_nb.training.folder import versions
from itertools import cycle
from pathlib import Path

if __name__=='__main__':
    ask = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ask.add_argument('out', type=Path)
    ask.add_argument('--gb', type=float, default=20)
    ask.add_argument('--vocab', required=True, help='vocab.txt of BERT')
    ask.add_argument('texts', nargs='+', type=Path)
    a = ask.parse_args()
    os.environ['TOKENIZERS_PARALLELISM'] = 'false'
    tok,cfg = load_tokenizer(a.vocab),make_recipe('base').packing
    read = 0
    def endless():
        "All files, over and over; `read` counts their bytes."
        global read
        for path in cycle(a.texts):
            for d in read_docs(path):
                read += len(d.encode())
                yield d
    about = dict(commit=commit(), date=str(date.today()), device=f'{platform.machine()} CPU, one thread', versions=versions())
    began,tokens,gb = time.process_time(),0,0
    with tempfile.TemporaryDirectory() as home:
        for path in pack_part(Corpus('endless', endless, 'endless'), 0, Path(home), tok, cfg):
            tokens += sum(r.get('tokens_in', 0) for r in read_header(path)['report'].values())
            shutil.rmtree(path)
            if read<1e9*(gb+1): continue
            gb += 1
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss/1e6
            line = dict(gb=read/1e9, tokens=tokens, cpu_seconds=time.process_time()-began, peak_memory_gb=memory, **about)
            print(line)
            with a.out.open('a') as f: f.write(json.dumps(line)+'\n')
            if read>=1e9*a.gb: break
