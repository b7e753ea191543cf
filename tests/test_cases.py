"Awkward files of users: each is read as meant, or refused or announced in words that say what is wrong and what to pass."
import fcntl, json, warnings
from functools import partial
from pathlib import Path

import numpy as np, pandas as pd, pytest

from electra_nb.glue.kinds import kind_of
from electra_nb.lab.own_data.data import own_data, own_rows
from electra_nb.lab.study.study import rows_to_predict
from electra_nb.lab.tags.spans import tag_spans
from electra_nb.text.corpus import Corpus, get_corpus
from electra_nb.text.prepare import get_tokenizer
from electra_nb.text.tokenizer import VocabConfig, bert_tokenizer, special_tokens
from electra_nb.lab.scoring.texts import read_texts
from electra_nb.lab.stream.parts import parts_of
from electra_nb.pretraining import read_recipe
from electra_nb.recipe import make_recipe, recipe_from_file

texts = [f'{who} sold {what} at the quay on day {i}' for i,(who,what) in enumerate([('Olga','herring'),('Piet','rope'),('the clerk','salt'),('a sailor','tar')]*9)]
moods = ['calm','loud']*18
sentences = [(['Olga','Berg','left','Turku',f'on{i}'],['B-PER','I-PER','O','B-LOC','O']) for i in range(12)]+[(['Piet','rests',f'at{i}'],['B-PER','O','O']) for i in range(12)]
places = [f'House {i}. The mill of Brink was sold in 17{i:02} to Klaas Visser.' for i in range(24)]
squad_cells = [dict(text=['Klaas Visser'], answer_start=[p.index('Klaas')]) for p in places]
questions = [f'Who bought house {i}?' for i in range(24)]

def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path

def table(sep=',', **columns):
    "A table in text, with quotes where a cell needs them."
    return pd.DataFrame(columns).to_csv(index=False, sep=sep)

def docs_of(texts): return [f'{t}, as they all say' for t in texts]

def squad(answers, **more):
    qas = [[dict(id=f'q{i}', question=q, answers=a, **more)] for i,(q,a) in enumerate(zip(questions, answers))]
    return json.dumps(dict(version='v2.0', data=[dict(title='mills', paragraphs=[dict(context=c, qas=q) for c,q in zip(places, qas)])]))

def articles(*passages): return [dict(title='mills', paragraphs=[dict(context=c, qas=[dict(id=c[6:8], question=q, answers=[dict(text='Brink', answer_start=c.index('Brink'))])])])
    for c,q in zip(passages or places, questions)]

def n_rows(task): return sum(map(len, task.splits.values()))

def heard(capsys): return capsys.readouterr().out

def placed(task, n=24):
    "All answers stand where the rows say."
    rows = [r for s in task.splits.values() for r in zip(s.contexts, s.answers, s.spans)]
    return task.task.kind=='answer' and len(rows)==n and all(c[slice(*span)] in a for c,a,span in rows)

# labelled rows that are read: name of a file -> content
reads = {
    'return.csv':table(text=texts, mood=moods).replace('\n', '\r'),
    'windows.tab':table('\t', text=texts, mood=moods).replace('\n', '\r\n'),
    'mark.csv':'\ufeff'+table(text=texts, mood=moods),
    'excel.csv':'"sep=|"\n'+table('|', text=texts, mood=moods),
    'quotes.tsv':'text\tmood\n'+''.join(f'"{t}, ""so"" he said"\t{m}\n' for t,m in zip(texts, moods)),
    'rows.ndjson':pd.DataFrame(dict(text=texts, mood=moods)).to_json(orient='records', lines=True),
    'rows.json':json.dumps(dict(examples=[dict(text=t, mood=m) for t,m in zip(texts, moods)])),
    'pretty.json':json.dumps([dict(text=t, mood=m) for t,m in zip(texts, moods)], indent=2),
    'pandas.json':pd.DataFrame(dict(text=texts, mood=moods)).to_json(),
    'split.json':pd.DataFrame(dict(text=texts, mood=moods)).to_json(orient='split'),
    'index.json':pd.DataFrame(dict(text=texts, mood=moods)).to_json(orient='index'),
    'ids.json':json.dumps({f'q{i}':dict(text=t, mood=m) for i,(t,m) in enumerate(zip(texts, moods))}),
    'spaced.csv':'text, mood\n'+''.join(f'"{t}", "{m}"\n' for t,m in zip(texts, moods)),
    'mixed.csv':table(text=texts, mood=moods).replace('\n', '\r\n', 9).replace('0\n', '0\r').replace('1\n', '1\r').replace('loud\n', 'loud\r'),
    'filled.csv':table(text=texts, mood=moods, notes=['']*36),
    'blank.tsv':table('\t', id=[*range(36)], text=texts, label=moods).replace('\n5\t', '\n\n5\t'),
}

@pytest.mark.parametrize('name', reads)
def test_rows(name, tmp_path):
    "The same file gives the same texts as labelled rows, as a corpus and as texts to score."
    path = write(tmp_path/name, reads[name])
    task = own_data(path)
    assert (task.task.kind,task.task.text,task.task.labels,n_rows(task))==('classify',('text',),('calm','loud'),36)
    found = {t for rows in task.splits.values() for t in rows.text_a}
    assert found=={*get_corpus(path)}=={*read_texts(path)}

def test_separator(tmp_path):
    "A name of a column with another separator in it divides nothing."
    path = write(tmp_path/'named.csv', 'text (raw, long);mood|tone\n'+''.join(f'{t}{", or so"*(i%2)};{m}\n' for i,(t,m) in enumerate(zip(texts, moods))))
    assert own_data(path).task.text==('text (raw, long)',)
    with pytest.raises(ValueError, match='divide its lines alike'): own_data(write(tmp_path/'both.csv', 'text,n;mood\n'+'a b,1;calm\n'*9))

word_tables = {
    'names.tsv':('name\tgender\n',1), 'names.txt':('name\tgender\n',3), 'two.tab':('name\torigin\n',2),
}

@pytest.mark.parametrize('name', word_tables)
def test_list_of_names(name, tmp_path, capsys):
    "A list of names with an empty line in it is no sentence; without names of its columns it is refused."
    first,n = word_tables[name]
    rows = [f'Olga{i}\t{"fmx"[i%3]}\n' for i in range(48)]
    for k in range(n): rows[9*k+5] += '\n'
    assert own_data(write(tmp_path/name, first+''.join(rows))).task.labels==('f','m','x')
    assert 'is read as a table; words with tags have a name that ends in .conll' in heard(capsys)
    with pytest.raises(ValueError, match='no line of names'): own_data(write(tmp_path/name, ''.join(rows)))
    tagged = '\n'.join(f'the\tDET\nboat\tNOUN\nsank{i}\tVERB\n.\tPUNCT\n' for i in range(20))
    assert own_data(write(tmp_path/name, tagged)).task.kind=='tag'

phrases = {'boats':('fish boat','boat'), 'hashes':('#a #b','#a'), 'signs':('C++','C'), 'plus':('1+','1'), 'lines':('S-Bahn','U-Bahn')}

@pytest.mark.parametrize('name', phrases)
def test_phrases(name, tmp_path):
    "A label of as many words as its text, or with a sign of tags or of lists in it, is one label."
    long,short = phrases[name]
    path = write(tmp_path/'phrases.csv', table(name=[f'Ann{i} Berg' if i%2 and ' ' in long else f'Bob{i}' for i in range(36)], label=[short,long]*18))
    for options in ({},dict(text='name', label='label')): assert {*own_data(path, **options).task.labels}=={long,short}

not_words = {'fasttext.txt':('fastText','columns text and label'), 'slash.txt':('joined','a word and its tag a line'), 'semicolon.txt':('without names','.csv'), 'object.txt':('JSON','.jsonl'), 'csv.txt':('a table','.csv'), 'html.txt':('markup','text out')}

@pytest.mark.parametrize('name', not_words)
def test_no_words(name, tmp_path):
    "What a text file holds is named where words with tags were looked for."
    with pytest.raises(ValueError, match='.*'.join(not_words[name])): own_data(write(tmp_path/name, no_prose[name][0]*9))

tags = {'bare':('B','I','O'), 'lower':('b-per','i-per','o'), 'zero':('B-PER','I-PER','0'), 'other':('B-PER','I-PER','OTHER'), 'dash':('B—PER','I—PER','O'),
    'suffix':('PER_B','PER_I','O'), 'underscore':('B_PER','I_PER','O'), 'mixed':('B-PER','I-Per','O')}

@pytest.mark.parametrize('name', tags)
def test_near_spans(name, tmp_path, capsys):
    "Tags that are nearly those of spans are spans, for the dev file too, and it is said."
    b,i,o = tags[name]
    lines = '\n\n'.join(f'Olga {b}\nBerg {i}\nrows{k} {o}\nPiet {b}' for k in range(30))
    path = write(tmp_path/'people.conll', lines)
    task = own_data(path, dev=path)
    assert task.task.metrics[0]=='conlleval_f1' and {t[0] for t in task.task.labels}=={'B','I','O'} and len(task.task.labels)==3
    assert 'read as spans' in heard(capsys)
    assert own_rows(path, task.task).tags==task.splits['train'].tags

def test_types_alone(tmp_path, capsys):
    for name,(a,b,c) in {'types.conll':('PER','PER','O'), 'brackets.conll':('(PER*','*)','*')}.items():
        own_data(write(tmp_path/name, '\n\n'.join(f'Olga {a}\nBerg {b}\nrows{k} {c}' for k in range(30))))
        assert 'spans are written as B-PER' in heard(capsys)

def long_rows(key): return [(key(i, j),w,t) for i,(ws,ts) in enumerate(sentences) for j,(w,t) in enumerate(zip(ws, ts))]

def spans_of(words, tags):
    "First and last+1 characters of the names, as annotation programs write them."
    starts = [len(' '.join([*words[:i],''])) for i in range(len(words))]
    return [[starts[a],starts[b]+len(words[b]),t] for a,b,t in tag_spans(tags)]

def objects_of(words, tags): return [dict(start=a, end=b, text='-', labels=[t]) for a,b,t in spans_of(words, tags)] # as Label Studio has them

tagged = {
    'ids.csv':table(**dict(zip(('sid','wort','typ'), zip(*long_rows(lambda i,j: i))))),
    'kaggle.csv':table(**dict(zip(('Sentence #','Word','Tag'), zip(*long_rows(lambda i,j: '' if j else f'Sentence: {i}'))))),
    'pos.tsv':table('\t', **dict(zip(('sent','token','upos'), zip(*[(k,w,'NAME' if t[0]!='O' else 'REST') for k,w,t in long_rows(lambda i,j: i)])))),
    'blanks.csv':table(text=[' '.join(ws) for ws,_ in sentences], tags=[' '.join(ts) for _,ts in sentences]),
    'spelled.csv':table(words=[str(ws) for ws,_ in sentences], ner=[str(ts) for _,ts in sentences]),
    'numpy.csv':table(words=[str(np.array(ws)) for ws,_ in sentences], ner=[str(np.array(ts)) for _,ts in sentences]),
    'half.jsonl':'\n'.join(json.dumps(dict(text=' '.join(ws), ner_tags=ts)) for ws,ts in sentences),
    'doccano.jsonl':'\n'.join(json.dumps(dict(id=i, text=' '.join(ws), label=spans_of(ws, ts))) for i,(ws,ts) in enumerate(sentences)),
    'spacy.jsonl':'\n'.join(json.dumps(dict(text=' '.join(ws), entities=[dict(start_offset=a, end_offset=b, label=t) for a,b,t in spans_of(ws, ts)])) for ws,ts in sentences),
    'spans.csv':table(text=[' '.join(ws) for ws,_ in sentences], spans=[str(spans_of(ws, ts)) for ws,ts in sentences]),
    'studio.csv':table(id=range(24), text=[' '.join(ws) for ws,_ in sentences], label=[json.dumps(objects_of(ws, ts)) for ws,ts in sentences], annotator=[1]*24),
    'studio.json':json.dumps([dict(id=i, text=' '.join(ws), label=objects_of(ws, ts), lead_time=1.5) for i,(ws,ts) in enumerate(sentences)]),
    'prodigy.jsonl':'\n'.join(json.dumps(dict(text=' '.join(ws), tokens=[dict(text=w, id=k) for k,w in enumerate(ws)], spans=[dict(start=a, end=b, label=t) for a,b,t in spans_of(ws, ts)])) for ws,ts in sentences),
    'relations.jsonl':'\n'.join(json.dumps(dict(text=' '.join(ws), entities=spans_of(ws, ts), relations=[], Comments=['so'])) for ws,ts in sentences),
    'parsed.csv':table(**{'Sentence #':[f'Sentence: {i}' for i in range(24)], 'Sentence':[' '.join(ws) for ws,_ in sentences], 'POS':[str(['NN']*len(ws)) for ws,_ in sentences], 'Tag':[str(ts) for _,ts in sentences]}),
    'classes.csv':table(text=[' '.join(ws) for ws,_ in sentences], pos=[' '.join('NAME' if t[0]!='O' else 'REST' for t in ts) for _,ts in sentences]),
}

@pytest.mark.parametrize('name', tagged)
def test_tagged(name, tmp_path):
    "Tags in a table, in three forms, are sentences; a saved model is scored on the same file."
    path = write(tmp_path/name, tagged[name])
    task = own_data(path)
    if name!='numpy.csv' and task.task.scheme: assert {t for rows in task.splits.values() for ts in rows.tags for t in ts}=={'B-PER','I-PER','B-LOC','O'}
    assert (task.task.kind,n_rows(task))==('tag',24)
    assert {' '.join(ws) for rows in task.splits.values() for ws in rows.words}=={' '.join(ws) for ws,_ in sentences}
    assert len(own_rows(path, task.task))==24

beside = {
    'hashtags':dict(hashtags=[['#sea']]*36, links=[['a'],['b']]*18), 'authors':dict(authors=[['Ann']]*36, keywords=[['sea'],['sea','tar']]*18),
    'ids':dict(input_ids=[[5,7],[9]]*18, attention_mask=[[1,1],[1]]*18),
}

@pytest.mark.parametrize('name', beside)
def test_lists_beside_texts(name, tmp_path, capsys):
    "Lists that lie beside texts are no words with tags, and are named; text= and label= settle what is meant."
    path = write(tmp_path/'rows.jsonl', pd.DataFrame(dict(text=texts, **beside[name], label=moods)).to_json(orient='records', lines=True))
    task = own_data(path)
    assert (task.task.kind,task.task.text,n_rows(task))==('classify',('text',),36) and f"not used: {', '.join(beside[name])};" in heard(capsys)
    path = write(tmp_path/'named.jsonl', pd.DataFrame(dict(text=texts, tokens=[t.split() for t in texts], tags=[['x' if w.isalpha() else 'y' for w in t.split()] for t in texts], label=moods)).to_json(orient='records', lines=True))
    assert own_data(path).task.kind=='tag' and own_data(path, text='text', label='label').task.kind=='classify'

def test_joined_tables(tmp_path):
    "Where tables were joined, the line of names comes again; it is no row."
    for name,sep in (('a.csv',','),('a.tsv','\t')):
        path = write(tmp_path/name, table(sep, text=texts, mood=moods)*2)
        for read in (get_corpus,own_data,read_texts):
            with pytest.raises(ValueError, match=f'{name}:38: the first line comes again'): list(read(path))

def test_tags_beside_spans(tmp_path):
    "A column of tags that was named is found again where spans lie beside it."
    rows = [dict(text=' '.join(ws), tokens=ws, pos=['x' if w.isalpha() else 'y' for w in ws], spans=spans_of(ws, ts)) for ws,ts in sentences]
    path = write(tmp_path/'rows.jsonl', '\n'.join(map(json.dumps, rows)))
    task = own_data(path, text='tokens', label='pos').task
    assert task.labels==('x','y') and len(own_rows(path, task))==24 and rows_to_predict(path, task)==[ws for ws,_ in sentences]

def test_lines_of_clients(tmp_path):
    "A line of dashes under the names is no row, and row names without a name are named."
    for name,sep in (('a.csv',','),('a.tsv','\t')):
        path = write(tmp_path/name, f'text{sep}mood\n-----{sep}----\n'+''.join(f'{t}{sep}{m}\n' for t,m in both))
        bare = write(tmp_path/f'r_{name}', f'text{sep}mood\n'+''.join(f'{i}{sep}{t}{sep}{m}\n' for i,(t,m) in enumerate(both)))
        for read in (get_corpus,own_data,read_texts):
            with pytest.raises(ValueError, match=f"{name}:2: '-----' is no row"): list(read(path))
            with pytest.raises(ValueError, match='its first or its last column no name'): list(read(bare))

def test_lines_of_surveys(tmp_path):
    "The two lines that Qualtrics adds under the names are no rows."
    path = write(tmp_path/'survey.csv', 'text,mood\nWhat was said?,How was it?\n"{""ImportId"":""Q1""}","{""ImportId"":""Q2""}"\n'+''.join(f'{t},{m}\n' for t,m in both))
    for read in (get_corpus,own_data,read_texts):
        with pytest.raises(ValueError, match='survey.csv:3: .*ImportId.* is no row: delete what stands between'): list(read(path))

bare_rows = {'yelp.csv':''.join(f'"{i%2+1}","{t}"\n' for i,t in enumerate(texts)), 'lines.csv':'\n'.join(texts), 'twice.csv':''.join(f'r{i}|{t}|{t}\n' for i,t in enumerate(texts))}

@pytest.mark.parametrize('name', bare_rows)
def test_rows_without_names(name, tmp_path):
    "A table without a line of names is named where texts are looked for, too."
    path = write(tmp_path/name, bare_rows[name])
    for read in (get_corpus,read_texts):
        with pytest.raises(ValueError, match='or put names above the first line if it is a row'): list(read(path))

deep = {
    'studio.json':[dict(id=i, annotations=[dict(result=[dict(value=dict(choices=[m]))])], data=dict(text=t)) for i,(t,m) in enumerate(zip(texts, moods))],
    'drop.json':{f'd{i}':dict(passage=c, qa_pairs=[dict(question=q, answer=dict(spans=['Brink']))]) for i,(c,q) in enumerate(zip(places, questions))},
    'coqa.json':dict(data=[dict(id=i, story=c, questions=[dict(input_text=q)], answers=[dict(input_text='Brink')]) for i,(c,q) in enumerate(zip(places, questions))]),
    'server.json':dict(features=[dict(name='text')], rows=[dict(row=dict(text=t, label=m)) for t,m in zip(texts, moods)], n=36),
    'map.json':dict(type='FeatureCollection', features=[dict(properties=dict(text=t, label=m)) for t,m in zip(texts, moods)]),
}

@pytest.mark.parametrize('name', deep)
def test_objects_in_rows(name, tmp_path):
    "Objects in the rows are named; they are no labels, and no spans."
    path = write(tmp_path/name, json.dumps(deep[name]))
    with pytest.raises(ValueError, match='which columns hold.*What is in the objects of .* belongs into columns of its own'): own_data(path)
    column = 'data' if 'studio' in name else 'qa_pairs' if 'drop' in name else None
    if column:
        with pytest.raises(ValueError, match='found (dict|list).*or write what is in it to columns of their own'): list(get_corpus(path, text_column=column))

other_json = {'lists.json':([[t,m] for t,m in zip(texts, moods)],'write an object a row'), 'strings.json':(texts,'write an object a row'), 'by_label.json':(dict(calm=texts[:20], loud=texts[20:]),'lists of different lengths .calm, loud.')}

@pytest.mark.parametrize('name', other_json)
def test_other_json(name, tmp_path):
    "JSON that is no table is answered with how it is written."
    content,says = other_json[name]
    for read in (get_corpus,own_data,read_texts):
        with pytest.raises(ValueError, match=says): list(read(write(tmp_path/name, json.dumps(content))))
        with pytest.raises(ValueError, match='as json.dumps does'): list(read(write(tmp_path/'broken.jsonl', str(dict(text='a'))+'\n')))

def test_empty_column(tmp_path):
    "A column without anything in it is no label."
    with pytest.raises(ValueError, match='Pass text= and label='): own_data(write(tmp_path/'alpaca.csv', table(instruction=questions, input=['']*24, output=places)))

def test_rejected(tmp_path):
    "Rows that an annotator rejected are no labels."
    rows = [dict(text=t, label=m, answer=['accept','reject'][i%5==4]) for i,(t,m) in enumerate(zip(texts, moods))]
    path = write(tmp_path/'prodigy.jsonl', '\n'.join(map(json.dumps, rows)))
    with pytest.raises(ValueError, match="keep those that say 'accept'"): own_data(path)
    assert own_data(path, text='text', label='answer').task.labels==('accept','reject')
    assert n_rows(own_data(write(path, '\n'.join(json.dumps({**r, 'answer':'accept'}) for r in rows))))==36

@pytest.mark.parametrize('name,words', dict(split=('train','dev','test'), Set=('Training','Testing'), fold=('train','val')).items())
def test_split_column(name, words, tmp_path):
    "Rows of all splits in one table are not trained on; the same words as labels, and one word alone, are no splits."
    path = tmp_path/'all.csv'
    rows = dict(text=texts, label=moods)
    divided = [words[i%len(words)] for i in range(36)]
    with pytest.raises(ValueError, match=f"column '{name}' names splits: .* pass data=, dev= and test="): own_data(write(path, table(**rows, **{name:divided})))
    assert n_rows(own_data(write(path, table(text=texts, **{name:divided})), text='text', label=name))==36
    assert n_rows(own_data(write(path, table(**rows, **{name:[words[0]]*36}))))==36

@pytest.mark.parametrize('labels,said', [(('sport, food','food','sport, law'),True), (('a|b','b','a|c'),True), (('sport, indoor','sport, outdoor','law'),False)])
def test_label_in_label(labels, said, tmp_path, capsys):
    "A class that contains another may be several labels."
    own_data(write(tmp_path/'topics.csv', table(text=texts, topic=[*labels]*12)))
    assert said==('if it stands for several labels' in heard(capsys))

left_by_programs = {'html':'{} &amp; more<br /><br />', 'written':r'{}\n\n\u00e9', 'decoded':'{} cafÃ©, itâ€™s', 'model':'<s> {} </s>', 'wikitext':'{} at one @-@ third', 'terminal':'\x1b[31m{}\x1b[0m'}

@pytest.mark.parametrize('name', left_by_programs)
def test_remains(name, tmp_path, capsys):
    "Signs that other programs left are said of a corpus and of labelled texts; few of them are not."
    marked = [left_by_programs[name].format(t) for t in texts]
    with pytest.warns(UserWarning, match='signs of other programs are read as words'): get_tokenizer(None, marked, VocabConfig(100))
    own_data(write(tmp_path/'marked.csv', table(text=marked, mood=moods)))
    assert 'is read as words (36 such row(s))' in heard(capsys)
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter('always')
        get_tokenizer(None, texts*200+marked[:1], VocabConfig(100))
    assert not [m for m in w if 'signs of other programs' in str(m.message)]

def test_numbers_in_documents(tmp_path):
    "Sentences are numbered anew in each document."
    rows = [(f'd{i//2}',i%2,w,t) for i,(ws,ts) in enumerate(sentences) for w,t in zip(ws, ts)]
    path = write(tmp_path/'documents.csv', table(**dict(zip(('doc_id','sent_id','word','tag'), zip(*rows)))))
    assert n_rows(own_data(path))==24
    alone = [(0,w,t) for ws,ts in sentences for w,t in [*zip(ws, ts)][:1]]
    columns = dict(zip(('sent_id','word','tag'), zip(*[(i%8,w,t) for i,(_,w,t) in enumerate(alone)])))
    with pytest.raises(ValueError, match='not in adjacent rows'): own_data(write(tmp_path/'mixed.csv', table(**columns)))

def test_names_of_columns(tmp_path, capsys):
    "A line that names the columns of a file with a word a line is no word."
    for sep,first in (('\t','Word\tTag'),(' ','token upos')):
        path = write(tmp_path/'named.conll', f'{first}\n'+'\n\n'.join(f'Olga{sep}NOUN\nruns{i}{sep}VERB' for i in range(24)))
        assert own_data(path).task.labels==('NOUN','VERB')
        assert 'is taken for names of the columns' in heard(capsys)

comments = {'multiconer':('# id {}\tdomain=en','{} _ _ {}'), 'ud':('# sent_id = {}','{} _ _ {}'), 'tabs':('# id {}\tdomain=en','{}\t{}'), 'short':('# doc{}','{} {}')}

@pytest.mark.parametrize('name', comments)
def test_comments(name, tmp_path, capsys):
    "A comment with as many cells as the words is no word, and is said; a word # is one."
    comment,word = comments[name]
    path = write(tmp_path/'people.conll', '\n\n'.join('\n'.join((comment.format(i), *(word.format(w, t) for w,t in zip(*s)))) for i,s in enumerate(sentences)))
    assert {' '.join(ws) for rows in own_data(path).splits.values() for ws in rows.words}=={' '.join(ws) for ws,_ in sentences}
    assert 'is taken for a comment (24 such line(s))' in heard(capsys)
    hashes = write(tmp_path/'hashes.conll', '\n\n'.join('\n'.join(word.format(w, t) for w,t in (('#','#'),(f'no{i}','CD'),('#sea','HT'))) for i in range(24)))
    assert {len(ws) for rows in own_data(hashes).splits.values() for ws in rows.words}=={3}

pairs = dict(Frage='Antwort', query='passage', sent1='sent2', claim_a='claim_b', text='text_pair', Headline='articleBody')

@pytest.mark.parametrize('first', pairs)
def test_pairs(first, tmp_path, capsys):
    "Two columns of running text are a pair, whatever their names are; what is left over is named."
    path = write(tmp_path/'pairs.csv', table(nr=range(36), **{first:[f'why did {t}' for t in texts], pairs[first]:texts}, label=moods))
    task = own_data(path)
    assert task.task.text==(first,pairs[first]) and n_rows(task)==36
    said = heard(capsys)
    assert 'guessed from the columns' in said and 'why did Olga sold' in said and 'not used: nr' in said

dates = ('Mon Apr 06 22:19:{:02} PDT 2009','Monday 6 April 2009, 10:{:02} PM','06 / 04 / 20{:02} at noon','{:02}. April 2009','2009-04-06 22:19:{:02} +0200')

@pytest.mark.parametrize('form', dates)
def test_dates(form, capsys):
    "A date of many words is no text of a pair."
    when = [form.format(i) for i in range(36)]
    for data in (dict(when=when, review=texts, label=moods),dict(review=texts, label=moods, when=when)):
        assert own_data(data).task.text==('review',) and 'not used: when' in heard(capsys)

def test_names_shown(tmp_path, capsys):
    "A column without a name, and one name that looks like two, are seen; a rare separator is asked for."
    own_data(write(tmp_path/'a.csv', pd.DataFrame(dict(text=texts, mood=moods)).to_csv()))
    assert "not used: '';" in heard(capsys)
    path = write(tmp_path/'b.tsv', table(text=[t.replace(',', '') for t in texts], mood=moods))
    for read in (own_data,get_corpus,read_texts):
        with pytest.raises(ValueError, match="columns there: 'text,mood'"): list(read(path))
        with pytest.raises(ValueError, match='as in sep=^'.replace('^', r'\^')): list(read(write(tmp_path/'c.csv', table('^', text=docs_of(texts), mood=moods))))
    assert n_rows(own_data(write(tmp_path/'c.csv', 'sep=^\n'+table('^', text=docs_of(texts), mood=moods))))==36
    with pytest.raises(ValueError, match='> converted.csv'): own_data(write(tmp_path/'d.csv', table(text=texts, mood=moods).encode('utf-16')))

def test_three_texts(tmp_path):
    "Among three columns of text the user chooses."
    path = write(tmp_path/'three.csv', table(a=texts, b=texts, c=texts, label=moods))
    with pytest.raises(ValueError, match='Pass text= and label='): own_data(path)
    assert own_data(path, text='a,c').task.text==('a','c')

def test_yes_or_no(tmp_path):
    "Questions about passages: the answers are the labels, however often a passage comes again."
    for name in ('passage','document'):
        path = write(tmp_path/f'{name}.csv', table(question=[f'is it so that {t}?' for t in texts], **{name:[texts[i//4*4] for i in range(36)]}, answer=['yes','no']*18))
        found = own_data(path).task
        assert (found.text,found.label,found.labels)==(('question',name),'answer',('no','yes'))

def test_ids(capsys):
    "Names of the rows are neither texts nor labels, and are said; a column whose values come again is one."
    for name,ids in dict(nr=range(36), id=[f'r{i}' for i in range(36)], review_id=[f'r {i}' for i in range(36)], index=np.arange(36.)).items():
        for source in ({name:ids, 'review':texts, 'program':moods},{'review':texts, 'program':moods, name:ids}):
            task = own_data(pd.DataFrame(source)).task
            assert (task.text,task.label)==(('review',),'program') and f'not used: {name};' in heard(capsys)
    with pytest.raises(ValueError, match='Pass text= and label='): own_data(dict(id=[*range(18)]*2, review=texts, program=moods))
    with pytest.raises(ValueError, match='Pass text= and label='): own_data(dict(id=range(36), label=moods))

def test_numbers_with_signs():
    for score in ('7.5%','$7.50','7\u202f500.5'):
        with pytest.raises(ValueError, match='is no number: write numbers as 2.5'): own_data(dict(text=texts, score=[score]*36), regression=True)

def test_whole_numbers(capsys):
    "That stars are classes is said, unless the user has said it."
    data = dict(review=texts, stars=[1,2,3,4,5,5]*6)
    assert own_data(data).task.labels==tuple('12345') and 'the 5 whole numbers' in heard(capsys)
    for rows,options in ((data,dict(regression=False)),(dict(review=texts, stars=[0,1,2]*12),{})):
        assert own_data(rows, **options).task.labels and 'whole numbers' not in heard(capsys)

def test_thousands(tmp_path, capsys):
    "A point that may stand between thousands is named; one that cannot is not."
    for scores,says in (([f'{1+i%9}.{i:03}' for i in range(36)],True), ([f'0.{i:03}' for i in range(36)],False), ([f'{i}.5' for i in range(36)],False)):
        assert own_data(write(tmp_path/'a.csv', table(text=texts, score=scores))).task.scale and ("'1.000' is read as 1; if the point" in heard(capsys))==says

def test_all_that_lacks(tmp_path):
    "Empty cells of all columns are counted in one message."
    frame = pd.DataFrame(dict(review=texts, shop=texts, program=moods))
    for i,column,cell in ((3,'program',''),(8,'review',''),(11,'review','  '),(5,'shop','')): frame.loc[i,column] = cell
    says = r"a.csv:10: no text in column 'review' \(2 such row\(s\) of 36\); a.csv:5: no label in column 'program' \(1 such.*fill or delete"
    with pytest.raises(ValueError, match=says): own_data(write(tmp_path/'a.csv', frame.drop(columns='shop').to_csv(index=False)))
    with pytest.raises(ValueError, match="a.csv:7: no group in column 'shop'.*no text.*no label"): own_data(write(tmp_path/'a.csv', frame.to_csv(index=False)), group='shop')
    good = pd.DataFrame(dict(review=texts, program=moods))
    with pytest.raises(ValueError, match='no text.*no label'): own_data(good, dev=frame)

refused = {
    'annotators.csv':(table(text=[texts[i%12] for i in range(36)], label1=moods, label2=moods[::-1]),{},'Pass text= and label='),
    'asked.csv':(table(question=texts, passage=docs_of(texts), answer=docs_of(moods)),{},'Pass text= and label='),
    'unknown_name.csv':(table(question=texts, snippet=[f'{t} for more' for t in texts], answer=moods),{},'Pass text= and label='),
    'two_labels.csv':(table(review=texts, rating=['1','2']*18, sentiment=moods),{},'which column holds the labels, sentiment or rating'),
    'above.csv':('made by me\n'+table(text=texts, mood=moods),{},'delete a title above the names'), 'sheet.xlsx':('PK\3\4',{},'save it as one of these'),
    'comma.tsv':(table(text=texts, mood=moods),{},'Of one column'),
    'title.csv':(table(**{'Ours':texts, '':moods}),{},'Pass text= and label='),
    'choices.csv':(table(text=texts, mood=['{"choices": ["calm", "big"]}','calm']*18),{},'several labels'),
    'scored.csv':(table(text=texts, mood=['[{"calm": 1}, {"big": 2}]','calm']*18),{},'several labels'),
    'set.csv':(table(text=texts, mood=["{'calm', 'big'}"]*36),{},'several labels'),
    'torn.csv':(table(text=[' '.join(ws) for ws,_ in sentences], ner=[' '.join(ts[i==5:]) for i,(_,ts) in enumerate(sentences)]),{},"column 'ner' has 4 tags of spans, column 'text' 5 words"),
    'turned.conll':('\n\n'.join('\n'.join(f'{t} {w}' for w,t in zip(*s)) for s in sentences),{},'was taken for the words, holds tags of spans'),
    'two_tags.csv':(table(sent=[i for i,(ws,_) in enumerate(sentences) for _ in ws], word=[w for ws,_ in sentences for w in ws],
        **dict.fromkeys(('outer','inner'), [t for _,ts in sentences for t in ts])),{},'which column holds the tags, outer or inner'),
    'spam.tsv':(''.join(f'{m}\t{t}\n' for t,m in zip(texts, moods)),{},'first line is a row, no line of names'),
    'messages.txt':(''.join(f'{m}\t{t}\n' for t,m in zip(texts, moods)),{},'first line is a row, no line of names'),
    'codes.csv':(table(text=texts, code=['1.10','1.1','2.25','10.5']*9),{},'regression=True'),
    'many.csv':(table(text=texts*4, code=[f'{250+k%24}.{k%3+1}' for k in range(144)]),{},'regression=False'),
    'floats.tsv':(''.join(f'{t}\t{i/7:.2f}\n' for i,t in enumerate(texts)),{},'no line of names'),
    'alone.csv':(table(token=[w for ws,_ in sentences for w in ws], label=[t for _,ts in sentences for t in ts]),{},'group the words into sentences'),
    'doccano.jsonl':('\n'.join(json.dumps(dict(text=t, label=[[0,4,'PER']])) for t in texts),{},"doccano.jsonl:4: the span [0, 4, 'PER'] is 'a sa'"),
    'nan.csv':(table(text=texts, mood=['nan','calm']*18),{},"the word 'nan' counts as none"),
    'nothing.csv':('',{},'is empty'),
    'nul.csv':(table(text=texts, mood=moods)+'\0\0\n',{},'NUL byte'),
    'odd.conll':('\n\n'.join(['Olga B-PER\nsings PERS\nloud O\nnow O']*30),{},"'PERS' is no tag of a span"),
    'lost.jsonl':('\n'.join(json.dumps(dict(question=q, context=c, answers=dict(text=['of'], answer_start=[0]))) for q,c in zip(questions, [p+' of' for p in places])),{},
        'stands in its context once'),
}

@pytest.mark.parametrize('name', refused)
def test_refused(name, tmp_path):
    content,options,says = refused[name]
    with pytest.raises(ValueError) as e: own_data(write(tmp_path/name, content), **options)
    assert says in str(e.value)

def test_columns_that_may_be_named(tmp_path):
    "Columns that may be named are those of the file: '-1', for the last of a numbered table, is not among them."
    with pytest.raises(ValueError, match='names of two of the columns 1, 2$'): own_data(write(tmp_path/'turned.conll', refused['turned.conll'][0]))

def test_codes(tmp_path):
    "Codes are classes or scores as the user says; many different numbers are scores."
    path = write(tmp_path/'codes.csv', table(text=texts, code=['1.5','2.5','3.5']*12))
    assert own_data(path, regression=False).task.labels==('1.5','2.5','3.5')
    assert own_data(path, regression=True).task.labels==()
    assert own_data(write(tmp_path/'scores.csv', table(text=texts, score=[i/7 for i in range(36)]))).task.labels==()
    assert len(own_data(write(tmp_path/'years.csv', table(text=texts, year=[1990+i%3 for i in range(36)]))).task.labels)==3

utf16 = [f'{i} 🐟🐟🐟 und 🐟 von Brink, an Klaas Visser' for i in range(24)]
asked = {
    'zero.json':squad([[dict(text='Klaas Visser', answer_start=0)]]*24),
    'far.json':squad([[dict(text='Brink', answer_start=400)]]*24),
    'dict.csv':table(question=questions, context=places, answers=[str(c) for c in squad_cells]),
    'arrays.csv':table(question=questions, context=places, answers=["{'text': array(['Klaas Visser'], dtype=object), 'answer_start': array([%d])}" % c['answer_start'][0] for c in squad_cells]),
    'objects.csv':table(question=questions, context=places, answers=[json.dumps([dict(text='Brink', answer_start=p.index('Brink'))]) for p in places]),
    'flat.csv':table(query=questions, passage=places, answer_text=['Klaas Visser']*24, answer_start=[p.index('Klaas') for p in places]),
    'texts.jsonl':'\n'.join(json.dumps(dict(question=q, document=c, answers=['K. Visser','Klaas Visser'])) for q,c in zip(questions, places)),
    'utf16.jsonl':'\n'.join(json.dumps(dict(question=q, context=c, answers=[dict(text='an', answer_start=c.index('an')+4)])) for q,c in zip(questions, [c+' an' for c in utf16])),
    'articles.jsonl':'\n'.join(map(json.dumps, articles())),
    'articles.json':json.dumps(articles()),
    'whole.jsonl':json.dumps(dict(data=articles())),
    'bytes.jsonl':'\n'.join(json.dumps(dict(question=q, context=c, answers=[dict(text='an', answer_start=len(c[:c.index('an')].encode()))])) for q,c in zip(questions, [c+' an' for c in utf16])),
}

@pytest.mark.parametrize('name', asked)
def test_questions(name, tmp_path): assert placed(own_data(write(tmp_path/name, asked[name])))

wrong = {
    'one.csv':(['zz']*24,24), 'all.csv':([f'zz{i}' for i in range(24)],24), 'some.csv':(['Piet','Brink','Olga']*8,16),
    'gaps.csv':(['zz','']*12,12), 'few.csv':(['Piet','Olga','','Brink']*6,12),
}

@pytest.mark.parametrize('name', wrong)
def test_wrong_answers(name, tmp_path):
    "Answers that are not in their contexts are counted; they are no labels."
    answers,n = wrong[name]
    for column in ('answer','answers','Answer'):
        path = write(tmp_path/name, table(question=questions, context=places, **{column:answers}))
        with pytest.raises(ValueError, match=f":2: the answer '{answers[0]}' is not in its context .{n} such questions of 24.*pass text='question,context' and label='{column}'"): own_data(path)

def test_labels_of_passages(tmp_path):
    "Under the names of questions, answers that are words of labels are labels."
    for labels in (('yes','no'),('True','False'),('supported','refuted')):
        path = write(tmp_path/'a.csv', table(question=texts, context=docs_of(texts), answer=[*labels]*18))
        assert {*own_data(path).task.labels}=={*labels}
    path = write(tmp_path/'b.csv', table(question=texts, context=docs_of(texts), answer=['Olga','rope']*18))
    assert own_data(path, text='question,context', label='answer').task.labels==('Olga','rope')

def test_searched(tmp_path, capsys):
    own_data(write(tmp_path/'zero.json', asked['zero.json']))
    assert '24 of 24 answers were not at their places and were searched' in heard(capsys)

def test_no_answers(tmp_path, capsys):
    "Placeholders say that there is no answer; equal ids are numbered."
    unknown = write(tmp_path/'test.jsonl', '\n'.join(json.dumps(dict(question=q, context=c, answers=dict(text='', answer_start=0))) for q,c in zip(questions, places)))
    with pytest.raises(ValueError, match='no answer in it'): own_data(unknown)
    half = [[dict(text='', answer_start=-1)] if i%2 else [dict(text='Brink', answer_start=p.index('Brink'))] for i,p in enumerate(places)]
    task = own_data(write(tmp_path/'none.json', squad(half)))
    assert sum(not a for s in task.splits.values() for a in s.answers)==12
    ids = own_data(write(tmp_path/'ids.csv', table(id=['x']*24, question=questions, context=places, answer=['Klaas Visser']*24)))
    assert len({i for s in ids.splits.values() for i in s.ids})==24 and 'have the id of another one' in heard(capsys)

said = {
    'capitals':(['Calm','calm','loud']*12,'differ only in capitals'),
    'width':(['ｃalm','calm','loud']*12,'differ only in capitals'),
    'heart':(['❤','❤\ufe0f','x']*12,'invisible signs'), 'zeros':(['01','1','02']*12,'leading zeros'), 'minus':(['-1','1','2']*12,"the word '-1' is read as a class"),
    'joiner':(['cal\u200dm','calm','loud']*12,'differ only in capitals'),
    'None':(['None','calm']*18,"the word 'None' is read as a class"),
    'dash':(['-','calm']*18,"the word '-' is read as a class"),
    'database':(['\\N','calm']*18,"the word '\\\\N' is read as a class"),
    'excel':(['#NAME?','calm']*18,"the word '#NAME?' is read as a class"),
    'rare':(['calm','loud']*17+['odd','calm'],"label 'odd' has one row, so none is held out"),
}

@pytest.mark.parametrize('name', said)
def test_said(name, tmp_path, capsys):
    labels,says = said[name]
    assert n_rows(own_data(write(tmp_path/'labels.csv', table(text=texts, label=labels))))==36
    assert says in heard(capsys)

def test_one_class(capsys):
    "With one class in the dev rows Matthews' correlation is undefined, not 0."
    task = own_data(dict(text=texts, label=moods), dev=dict(text=['a','b'], label=['calm','calm']), metric='mcc')
    assert 'hold one class' in heard(capsys)
    assert np.isnan(kind_of(task.task).score(task.splits['dev'], np.array([0,1]))['mcc'])

def test_no_span(capsys):
    "Without a span in the dev rows entity F1 is undefined, not 0."
    words,tags = map(list, zip(*sentences))
    task = own_data(dict(words=words, tags=tags), dev=dict(words=[['a','b']], tags=[['O','O']]))
    kind = kind_of(task.task)
    assert 'hold no span' in heard(capsys) and np.isnan(kind.score(task.splits['dev'], [np.array([2,2])])['entity_f1'])
    assert kind.majority_baseline(task.splits['train'], task.splits['dev'])==0

def test_frames():
    "Numbers as names of columns; cells that are arrays; rows as dictionaries."
    frame = pd.DataFrame({0:texts, 1:moods, 2:['x']*36})
    assert own_data(frame, text=0, label=1, group=None).task.text==('0',)
    for rows in ([dict(text=t, label=m) for t,m in zip(texts, moods)],pd.DataFrame(dict(text=texts, label=moods), index=map(str, range(36))).to_dict()): assert {*own_data(rows).splits['train'].text_a}<={*texts}
    for cell in (np.array([0,1]),np.array(['a','b']),[1,0],{'a':1}):
        with pytest.raises(ValueError, match='label'): own_data(pd.DataFrame(dict(text=texts, label=[cell]*36)))
    with pytest.raises(ValueError, match='no label'): own_data(pd.DataFrame(dict(text=texts, label=[pd.NA,'a']*18)))

docs = [f'{t}.' for t in texts]
corpora = {
    'return.txt':'\r\r'.join(docs), 'unseen.txt':'\n\u2060\n'.join(docs), 'wide.txt':'\n\u3000\u200b\n'.join(docs),
    'rows.jl':'\n'.join(json.dumps(dict(text=d)) for d in docs), 'rows.jsonlines':'\n'.join(json.dumps(dict(text=d)) for d in docs),
    'rows.json':json.dumps([dict(text=d) for d in docs]), 'rows.tab':table('\t', n=range(36), text=docs),
    'mixed.txt':'\n\n'.join(docs[:18])+'\n\n'+'\r\r'.join(docs[18:]), 'late.txt':'\r\r'.join(docs[:18])+'\r\r'+'\n\n'.join(docs[18:]),
    'marks.txt':'\ufeff\ufeff'+'\n\n\ufeff'.join(docs), 'marks.json':json.dumps([{'\ufefftext':d} for d in docs]), 'marks.csv':'\ufeff\ufeff'+table(text=docs),
}

@pytest.mark.parametrize('name', corpora)
def test_corpus(name, tmp_path): assert list(get_corpus(write(tmp_path/name, corpora[name])))==docs

def told(path, mark=''): yield from (d+mark for d in docs)

def test_generator_functions():
    "A generator function with its arguments is a corpus, read now or streamed; without them it is refused in words."
    corpus = get_corpus(partial(told, 'a.db', mark='!'))
    assert corpus.name=='told' and list(corpus)==[f'{d}!' for d in docs]
    (name,(a,),_),(_,(b,),_) = (parts_of(partial(told, path)) for path in ('a.db','b.db'))
    assert name=='told' and list(a)==docs and a.fingerprint!=b.fingerprint
    for find in (get_corpus,parts_of):
        with pytest.raises(ValueError, match="'told' is called without arguments .*'path'.: pass functools.partial"): find(told)

def test_odd_sources(tmp_path, monkeypatch, capsys):
    "Labelled rows, columns under one heading, and a folder with the name of a known text are not guessed at in silence."
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match='a list of strings alone, several names one string with commas'): get_corpus([(d*20,1) for d in docs])
    with pytest.raises(ValueError, match="'text' heads 2 columns: pass one of them"): get_corpus(pd.DataFrame([docs[:2]], columns=pd.MultiIndex.from_product([['text'],['a','b']])))
    Path('builtin').mkdir()
    monkeypatch.setattr('electra_nb.text.corpus.builtin_docs', lambda: docs)
    assert list(get_corpus('builtin'))==docs and "'./builtin'" in heard(capsys)

def test_recipe_of_a_start(tmp_path, monkeypatch, capsys):
    "That a recipe of a run with weights begins with random ones is said, and ~ in its path is understood."
    monkeypatch.setenv('HOME', str(tmp_path))
    info = dict(size='tiny', recipe=make_recipe('tiny').flat(), start=dict(name='bert', weights='x'))
    write(tmp_path/'recipe.json', json.dumps(info))
    assert read_recipe('~/recipe.json', {})[0]=='tiny' and "began with start='bert'; without start=" in heard(capsys)

def test_leftovers(tmp_path, capsys):
    "What other programs leave beside a text is passed over, and counted."
    write(tmp_path/'a.txt', '\n\n'.join(docs))
    for name in ('._a.txt','~$a.txt','.~a.txt'): write(tmp_path/name, b'\0\5\x16\7\0')
    assert list(get_corpus(tmp_path))==docs
    assert '3 of 4 files are left out' in heard(capsys)
    (tmp_path/'[1999] old').mkdir()
    write(tmp_path/'[1999] old'/'b.txt', '\n\n'.join(docs))
    assert list(get_corpus(f'{tmp_path}/[1999] old/*.txt'))==docs

conll = '\n\n'.join('\n'.join(f'{w} {t}' for w,t in zip(*s)) for s in sentences)
no_prose = {
    'object.txt':('{"text": "a"}\n','holds JSON'), 'pretty.txt':('[\n  {\n    "text": "a"\n  },\n','holds JSON'), 'columns.txt':('{\n "text": ["a"]}','holds JSON'),
    'list.txt':('["a", "b"]\n','holds JSON'), 'strings.txt':('"a"\n"b \\"c\\""\n','strings in quotes'), 'html.txt':('<!DOCTYPE html>\n<p>','is markup'),
    'wiki.txt':('<mediawiki>\n<page>','is markup'), 'div.txt':('<div>\n<p>a</p>','is markup'), 'tei.txt':('<TEI xmlns="http://x">\n<text>','is markup'),
    'comment.txt':('<!-- made by x -->\n<html>','is markup'), 'table.txt':(table('\t', text=texts, mood=moods),'holds a table'), 'csv.txt':(table(text=texts, mood=moods),'holds a table'),
    'people.conll':(conll,'holds words with tags'), 'people.txt':(conll,'holds words with tags'), 'ud.txt':('# a\n1\tAnn'+'\t_'*8+'\n','holds words with tags'),
    'film.txt':('1\n00:00:01,000 --> 00:00:02,000\nHello\n','holds subtitles'), 'rich.txt':('{\\rtf1 a}','RTF'), 'base.txt':('SQLite format 3\0','SQLite'), 'nul.txt':('a\nb\0c\n','nul.txt:2: a NUL byte'),
    'report.txt':(b'PK\3\4'+bytes(26)+b'[Content_Types].xml','an Office file'), 'russian.txt':('Дом у моря'.encode('cp1251'),'unknown.*cp1251.*iconv -f cp1251'),
    'greek.txt':('Το σπίτι στη θάλασσα'.encode('cp1253'),'unknown.*cp1253'), 'japanese.txt':('海のそばの家'.encode('shift_jis'),'unknown.*shift_jis'), 'cut.tar.gz':('','archive'), 'page.html':('','is no text'),
}

def tab_lines(*pairs): return '\n'.join('\t'.join(p) for p in pairs)+'\n'
def word_lines(b, i, o): return f'Olga {b}\nBerg {i}\nsings {o}\nPiet {b}\n\n'
both = [*zip(texts, moods)]
no_prose |= {
    'fasttext.txt':(''.join(f'__label__{m} {t}\n' for t,m in both),'as fastText has them'), 'end.train':(''.join(f'{t} __label__{m}\n' for t,m in both),'as fastText has them'),
    'many.txt':(''.join(f'__label__{m}, __label__b {t}\n' for t,m in both),'as fastText has them'),
    'slash.txt':(''.join(' '.join(map('/'.join, zip(*s)))+'\n' for s in sentences),'joined to their tags'), 'under.pos':('The_DT boat_NN sinks_VBZ ._.\n'*3,'joined to their tags'),
    'suffix.txt':(word_lines('PER_B','PER_I','O'),'holds words with tags'), 'minus.txt':(word_lines('LOC-B','LOC-I','o'),'holds words with tags'), 'out.txt':(word_lines('B-PER','I-PER','OUT'),'holds words with tags'),
    'classes.txt':(word_lines('NNP','NNP','VBZ'),'holds words with tags'), 'three.txt':(word_lines('x NNP','y NNP','z VBZ'),'holds words with tags'),
    'last.txt':(tab_lines(*both),'without names .*title above'), 'first.txt':(tab_lines(*((m,t) for t,m in both)),'without names'), 'sorted.txt':(tab_lines(*((t,'calm') for t in texts)),'without names'),
    'digit.txt':(tab_lines(*((t,str(i%2)) for i,t in enumerate(texts))),'without names'), 'cola.txt':(tab_lines(*(('gj',str(i%2),'',t) for i,t in enumerate(texts))),'without names'),
    'windows.txt':(tab_lines(*both).replace('\n','\r\n'),'without names'), 'semicolon.txt':(tab_lines(*both).replace('\t', ';'),'without names.*csv'), 'bar.txt':(tab_lines(*both).replace('\t', '|'),'without names'),
    'numbers.txt':(''.join(f'{i}\t{t}.\n' for i,t in enumerate(texts*40, 7)),'without names'), 'bars.txt':(tab_lines(*both).replace('\t', ' ||| '),'without names'), 'brown.txt':('The/at boat/nn sank/vbd ./.\n'*3,'joined'),
    'names.txt':(tab_lines(*((f'Olga{i}','fmx'[i%3]) for i in range(30))),'holds a table'),
    'psql.txt':(' text | mood \n------+------\n'+''.join(f' {t} | {m} \n' for t,m in both),'drawn table'), 'mysql.txt':('+---+---+\n| text | mood |\n+---+---+\n'+''.join(f'| {t} | {m} |\n' for t,m in both),'drawn table'),
    'pipes.txt':('| text | mood |\n|:---|---|\n'+''.join(f'| {t} | {m} |\n' for t,m in both),'drawn table'), 'r.txt':('"text" "n"\n'+''.join(f'"{i}" "{t}" {i}\n' for i,t in enumerate(texts)),'write.csv'),
    'glove.txt':(''.join(f'{w} {i/7:.4f} -0.5 {i}e-3 .25\n' for i,w in enumerate(['the',',','of','12'])),'holds numbers'),
    'sensor.txt':('10 20.5 30 4\n'*3,'holds numbers'), 'moods.arff.txt':('% made by x\n@RELATION moods\n@ATTRIBUTE text string\n','Weka'), 'video.txt':('0:01\nwe go out\n0:05\nto sea\n','subtitles'),
    'long_video.txt':('1:00:01\nwe go out\n1:00:05\nto sea\n','subtitles'),
    'video.sbv.txt':('0:00:01.000,0:00:02.000\nHello\n\n','subtitles'), 'pages.wet.txt':('WARC/1.0\r\nWARC-Type: conversion\r\n\r\nA boat.\r\n','headers'),
    'box.mbox':('From a@b.org Mon Jan  1 00:00:00 2001\nFrom: Ann <a@b.org>\nMessage-ID: <7>\n\nHello\n','mailbox'), 'paper.txt':('% made by x\n\\documentclass{article}\n\\begin{document}\n','LaTeX'),
    'dump.txt':('-- a dump\nSET a = 0;\nCREATE TABLE `x` (`id` int);\n','a database'), 'refs.bib':('@article{a,\n title={A boat},\n}\n','references'), 'refs.txt':('TY  - JOUR\nTI  - A boat\nER  - \n','references'),
    'rows.yaml.txt':('- text: A boat.\n  mood: calm\n','YAML'), 'bank.mrg':('( (S \n  (NP-SBJ (NNP Ann) )\n  (VP (VBD left) )))\n','trees'), 'sst.txt':('(3 (2 The) (4 (3 boat) (2 is)))\n','trees'), 'doc.ann':('T1\tPER 0 4\tOlga\n','brat'),
    'speeches.txt':('<CHAPTER ID=1>\nResumption of the session\n','is markup'), 'names.xml.txt':('Then <PERSON>Olga</PERSON> left.\n','is markup'),
    'svm.txt':('+1 1:0.5 7:0.25 9:1\n'*3,'holds numbers'), 'skeleton.txt':(''.join(f'd/0 0 {i} {w} NNP (TOP* - - - x * -\n' for i,w in enumerate(texts[0].split())),'holds words with tags'),
    'film.ass.txt':('[Script Info]\nTitle: x\n\n[Events]\n','subtitles'), 'frames.txt':('{0}{25}Hello|you\n','subtitles'), 'song.txt':('[00:12.50]We sing\n','subtitles'), 'bare.txt':('00:00:01,000 --> 00:00:02,000\nHello\n','subtitles'),
}

@pytest.mark.parametrize('name', no_prose)
def test_no_prose(name, tmp_path):
    "What is no running text is refused in a corpus, where texts are scored, and from a pipe of lines."
    content,says = no_prose[name]
    path = write(tmp_path/name, content*30)
    for read in (get_corpus,read_texts):
        with pytest.raises(ValueError, match=says): list(read(path))

prose = {
    'code.txt':'Use <b>bold</b> where\na < b.\n\n{curly} words\n[1] a note', 'irc.txt':'<ann> hello\n<ben> hi there', 'poem.txt':'Oh, red\nand, blue\nbut, no', 'one.txt':'text\nA boat.\nA fish.',
    'words.txt':'boat\nfish\nrope', 'unk.txt':'<unk> is a word\n<unk> too', 'contents.txt':'Preface\t1\nThe river\t7', 'pairs.txt':'Go.\tVa !\nRun.\tCours !', 'quoted.txt':'"Go," he said.\n"No."',
    'title.txt':'A list of moods\n'+tab_lines(*both), 'some.txt':'\n'.join(texts)+'\nA\tb\nC\td', 'verses.txt':tab_lines(*((f'{i}.',t) for i,t in enumerate(texts))),
    'said.txt':''.join(f'{t}, he said.\n' for t in texts), 'refrain.txt':'\n'.join(f'{t}, and so\n{t} of May' for t in texts), 'either.txt':'and/or his/her\nkm/h m/s', 'ends.txt':'you and I\nwe go out\nB-12', 'one_label.txt':'It is __label__a there.',
    'names.txt':'get_name set_name\nput_name cut_name\nold_value new_value', 'people_.txt':'Ann BERG\nOle BERG\nEva DAHL\nKim DAHL\nPia DAHL\nBob BERG', 'bullets.txt':'\n'.join(f'*\t{t}' for t in texts),
    'acts.txt':'ACT I\nSCENE I\nThey sing.\n'*5, 'shout.txt':'GO ON\nSTOP IT\nHEAR ME\nGO UP\nSIT BY\nEAT IT NOW', 'chapters.txt':'\n'.join(f'Chapter {i}\t{i*7}' for i in range(1, 30)),
    'access.txt':'\n'.join(f'1.2.3.{i} - - [12/Mar/2021:10:00:00 +0000] "GET /a HTTP/1.1" 200 {i}' for i in range(30)), 'sail.txt':'\n'.join(f'[10:{i}:07] <ann> {t}' for i,t in enumerate(texts, 10)),
    'capitals.txt':'\n'.join(f'84-{i:03} GO DO YOU HEAR THAT {"A"*(i%3+1)}' for i in range(30)), 'streets.txt':'\n'.join(f'{i} Quay Street, Turku, FI' for i in range(30)),
    'scene.txt':'(Ann (quietly) goes.)\nFrom: the sea\nTo: the land', 'memo.txt':'From: Ann\nTo: Bob\nSubject: fish\n\nIt came.', 'points.txt':'- Fish: two\n- Rope: one',
    'ruled.md':'| a | b |\n|---|---|\n| x | y |', 'said_so.txt':'"Go" he said\n"No" she said\n"Yes" he said', 'heading.txt':'=====\nBoats\n=====\nOne sank.',
    'badge.md':'<div align="center">\n<img src="a.png"/>\n</div>\n\n# A title', 'dash.txt':'- one I\n- two I am', 'sentence.txt':'<s>One.</s>\n<s>Two.</s>',
}

@pytest.mark.parametrize('name', prose)
def test_prose(name, tmp_path):
    "Odd prose is text."
    path = write(tmp_path/name, prose[name])
    assert '\n'.join(get_corpus(path)).replace('\n', '')==prose[name].replace('\n', '')==''.join(read_texts(path))

def test_folder_of_json(tmp_path, capsys):
    "Why a .json file is read alone, but not in a folder, is said."
    for name in ('rows.json','a.txt'): write(tmp_path/name, '[{"text": "a"}]' if 'json' in name else 'a')
    list(get_corpus(tmp_path))
    assert 'a .json file is read where it is named' in heard(capsys)
    (tmp_path/'a.txt').unlink()
    with pytest.raises(ValueError, match='a .json file is read where it is named'): get_corpus(tmp_path)

rows_of = [dict(text=t, mood=m) for t,m in zip(texts, moods)]
splits = {'data':dict(data=rows_of, test=rows_of), 'train':dict(train=rows_of, test=rows_of[:9]), 'version':dict(version=2, train=rows_of, dev=[]), 'strings':dict(train=texts, test=texts),
    'columns':{s:dict(text=texts, mood=moods) for s in ('train','test')}}

@pytest.mark.parametrize('name', splits)
def test_two_lists(name, tmp_path):
    "Several splits in one file, or in one dictionary, are named; a single one is read."
    for ending,indent in (('json',None),('json',1),('jsonl',None)):
        path = write(tmp_path/f'splits.{ending}', json.dumps(splits[name], indent=indent))
        for read in (get_corpus,own_data,read_texts):
            with pytest.raises(ValueError, match=r'several lists of rows \((data|train), (test|dev)\): write each to a file'): list(read(path))
    if name=='train': assert len(list(get_corpus(write(tmp_path/'one.json', json.dumps(dict(train=rows_of, version=2))))))==36
    if name in ('data','version'): return
    for read,says in ((get_corpus,'texts are a list'),(own_data,'pass the splits one by one'),(read_texts,'is a dict')):
        with pytest.raises(ValueError, match=says): list(read(splits[name]))

twice = '{"text": "a boat", "mood": "calm", "mood": "loud"}'

@pytest.mark.parametrize('name,content', {'a.jsonl':'{"text": "a"}\n'+twice, 'b.jsonl':f'{twice}\n'*9, 'c.json':f'[{twice}]', 'd.json':f'{{"data": [{{"x": {twice}}}]}}'}.items())
def test_key_twice(name, content, tmp_path):
    "A key that comes twice would lose a value in silence."
    for read in (get_corpus,own_data,read_texts):
        with pytest.raises(ValueError, match=f"{name}:{1+('a.'in name)}: .*the key 'mood' comes twice in"): list(read(write(tmp_path/name, content)))

def test_two_columns_of_one_name(tmp_path):
    import pyarrow as pa, pyarrow.parquet as pq
    frame = pd.DataFrame([['a','b']], columns=['text','text'])
    pq.write_table(pa.Table.from_arrays([pa.array(['a']),pa.array(['b'])], names=['text','text']), tmp_path/'a.parquet')
    for source in (frame,tmp_path/'a.parquet'):
        for read in (get_corpus,read_texts):
            with pytest.raises(ValueError, match="two columns are named 'text'"): list(read(source))

def test_gaps(tmp_path):
    "Rows without a text keep their place where texts are scored."
    for name in ('a.csv','a.tsv'): assert list(read_texts(write(tmp_path/name, table(',' if 'csv' in name else '\t', n=range(3), text=['a','','c']))))==['a','','c']

empty_rows = {'one.csv':'text\nA boat.\n""\nC boat.\n', 'two.csv':'id,text\n1,A boat.\n,\n3,C boat.\n', 'wide.csv':'id,text\n1,A boat.\n,,,\n3,C boat.\n', 'sep.csv':'sep=;\nid;text\n1;A boat.\n;\n3;C boat.\n',
    'tabs.tsv':'id\ttext\n1\tA boat.\n\t\n3\tC boat.\n', 'one.tsv':'text\nA boat.\n""\nC boat.\n', 'two.tsv':'id\ttext\n1\t"A boat."\n\t""\n3\tC boat.\n', 'lines.txt':'A boat.\n\nC boat.'}

@pytest.mark.parametrize('name', empty_rows)
def test_empty_rows(name, tmp_path):
    "A row of empty cells keeps its place where rows are answered, and is no document; a blank line of a table is no row."
    task = own_data(dict(text=texts, mood=moods)).task
    for content in (empty_rows[name], *([] if 'txt' in name else [empty_rows[name].replace('\n3', '\n\n3')+'\n\n'])):
        path = write(tmp_path/name, content)
        assert rows_to_predict(path, task)==[*read_texts(path)]==['A boat.','','C boat.']
        assert ' '.join(get_corpus(path))=='A boat. C boat.'

def test_empty_rows_left_out(tmp_path, capsys):
    "Labelled rows without anything in them are left out, and it is said; between sentences of words, too."
    frame = pd.DataFrame(dict(text=texts, mood=moods))
    frame.loc[[4,9]] = None
    for source in (frame,write(tmp_path/'a.csv', frame.to_csv(index=False)),write(tmp_path/'a.tsv', frame.to_csv(index=False, sep='\t'))):
        assert n_rows(own_data(source))==34
        assert '2 of 36 rows are empty and left out; the first is' in heard(capsys)
    path = write(tmp_path/'words.csv', 'sent_id,word,tag\n'+''.join(f'{i},Olga{i},B-PER\n,rests,O\n,,\n' for i in range(12)))
    task = own_data(path)
    assert n_rows(task)==12 and '12 of 36 rows are empty' in heard(capsys)
    assert rows_to_predict(path, task.task)==[[f'Olga{i}','rests'] for i in range(12)] and '12 of 36 rows are empty' in heard(capsys)

def test_text_in_another_place(tmp_path, monkeypatch):
    "A text given as a size, or as the name of a corpus, is answered with where it goes."
    monkeypatch.chdir(tmp_path)
    (tmp_path/'texts').mkdir()
    for size in ('texts','my_texts/','a.txt','A boat sank.',Path('gone'),['A boat.'],pd.DataFrame()):
        with pytest.raises(ValueError, match='choose .*; text is passed as corpus='+(f"'{size}'" if isinstance(size, (str,Path)) else '')): make_recipe(size)
    for name,content in {'rows.json':'[{"text": "a"}]', 'lines.json':'{"text": "a"}\n{"text": "b"}'}.items():
        with pytest.raises(ValueError, match=f"text is passed as corpus='{name}'"): recipe_from_file(write(Path(name), content), {})
    with pytest.raises(ValueError) as e: make_recipe('smal')
    assert 'corpus' not in str(e.value)
    for text in ('A boat sank.','Did it sink?','It sank, they say.','A boat sank. '*99,'A boat\nsank.'):
        with pytest.raises((ValueError,FileNotFoundError), match=' a list'): get_corpus(text)
    for name in ('minutes','max_minutes'):
        with pytest.raises(ValueError, match=f"unknown option '{name}': hours="): make_recipe(**{name:30})

def a_function(): yield from docs

def test_forms(tmp_path):
    "Whatever a corpus is made of, it has every member of the contract, and the same documents each time."
    from datasets import Dataset
    path = write(tmp_path/'a.txt', '\n\n'.join(docs))
    rows = Dataset.from_dict(dict(text=docs))
    forms = ([dict(text=d) for d in docs],dict(text=docs),path,str(path),docs,iter(docs),a_function,pd.DataFrame(dict(text=docs)),rows,rows.to_iterable_dataset(),[path],{str(path):1},[(docs,1)])
    for corpus in map(get_corpus, forms):
        assert isinstance(corpus, Corpus) and list(corpus)==list(corpus)==docs
        assert corpus.name and len(corpus.fingerprint)==32 and corpus.n_bytes==sum(map(len, docs))+(2*35 if corpus.name=='a' else 0)
    assert list(get_corpus(f'{path}, {path}'))==docs*2
    for odd in (str(path),'wikipedia'):
        with pytest.raises(ValueError, match='a list of strings is texts'): get_corpus([*docs, odd])

def said_of(source, cfg, texts):
    "What is said of a vocabulary and a text."
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter('always')
        get_tokenizer(source, texts, cfg)
    return ' '.join(str(w.message) for w in said if w.category is UserWarning)

plain = VocabConfig(strip_accents=False)
fits = {
    'persian':(None,plain,['می\u200cروم به خانه و برمی\u200cگردم']*20,'invisible joiner'), 'hindi':(None,plain,['क्\u200dष में है']*20,'invisible joiner'),
    'family':(None,VocabConfig(),['a 👩\u200d👩\u200d👧 by the sea ❤️ 1️⃣']*20,''), 'french':(None,VocabConfig(),['le père déjà là']*20,'strip_accents=False'),
    'cased':('vocab.txt',VocabConfig(),['Fish and fish']*20,'lower=False'), 'uncased':('vocab.txt',VocabConfig(lower=False),['Fish and fish']*20,''),
    'folder':(bert_tokenizer({t:i for i,t in enumerate((*special_tokens,'Fish','Boat','fish','and'))}),VocabConfig(),['fish and']*20,'lower=False'),
}

@pytest.mark.parametrize('name', fits)
def test_fit(name, tmp_path):
    "Signs and capitals that are lost are said; an emoji has no accent."
    source,cfg,texts,says = fits[name]
    if source=='vocab.txt': source = write(tmp_path/source, '\n'.join((*special_tokens,'Fish','And','fish','and')))
    found = said_of(source, cfg, texts)
    assert says in found and bool(says)==bool(found), found

def test_settings_beside(tmp_path):
    "A vocab.txt is read as asked, and a tokenizer_config.json beside it that says otherwise is not passed over."
    path = write(tmp_path/'vocab.txt', '\n'.join((*special_tokens,'fish','and')))
    write(tmp_path/'tokenizer_config.json', '{"do_lower_case": false}')
    assert 'do_lower_case=False' in said_of(path, VocabConfig(), ['fish and']*20)
    assert said_of(path, VocabConfig(lower=False), ['fish and']*20)==''
    for settings,says in {'{"do_lower_case": true, "strip_accents": false}':'strip_accents=False', '{"tokenize_chinese_chars": false}':'tokenize_chinese_chars=False',
            '{"added_tokens_decoder": {"7": {"content": "[NAME]"}, "0": {"content": "[PAD]"}}}':"1 added token, such as '[NAME]'", '[1]':'', '{"strip_accents": null}':''}.items():
        write(tmp_path/'tokenizer_config.json', settings)
        found = said_of(path, VocabConfig(), ['fish and']*20)
        assert says in found and bool(says)==bool(found), (settings,found)
    write(tmp_path/'added_tokens.json', '{"[DATE]": 7, "[NAME]": 8}')
    assert "2 added tokens, such as '[DATE]'; pass the folder" in said_of(path, VocabConfig(), ['fish and']*20)

def test_one_token_for_two():
    "A tokenizer whose [MASK] is another of the five tokens is refused."
    tok = bert_tokenizer({t:i for i,t in enumerate((*special_tokens,'fish'))})
    tok.mask_token = tok.unk_token
    with pytest.raises(ValueError, match="is the .MASK. and the .UNK. of this tokenizer"): get_tokenizer(tok, ['fish']*20)

cases = Path(__file__).parent.parent.parent/'shared'/'data'/'cases'
per_kind = {'classify':48, 'tag':24, 'answer':24}
own_cases = {**dict.fromkeys(('ner-long.csv','ner-long.jsonl','ner-tags-in-a-cell.csv','ner-b-i-o.conll','ner-lower.conll','ner-zero.conll','ner-out.conll','ner-en-dash.conll'),'tag'),
    **dict.fromkeys('pair-query-passage.csv pair-text-pair.csv pair-headline-body.csv pair-sentence-a-b.tsv class-null.csv label-capitals.csv label-invisible.csv rare-class.csv '
        'rows-array.json rows-lines.json rows-in-data.json cr-only.csv'.split(),'classify'),
    **dict.fromkeys('squad-start-zero.json squad-utf16.json qa-pandas.csv qa-objects.jsonl qa-paragraph.jsonl squad-placeholder.json'.split(),'answer')}

@pytest.mark.skipif(not cases.is_dir(), reason='../shared/data/cases is missing')
def test_shared_cases():
    "The files that were made after public bug reports."
    for name,kind in own_cases.items():
        task = own_data(cases/name)
        assert (task.task.kind,n_rows(task))==(kind,per_kind[kind]+12*('placeholder' in name)), name
        assert not name.startswith('pair') or len(task.task.text)==2
        assert kind!='tag' or task.task.metrics[0]=='conlleval_f1'
    for name,says in {'spam.tsv':'no line of names', 'stars.csv':'no line of names', 'codes-icd.csv':'regression=', 'codes-sections.csv':'regression='}.items():
        with pytest.raises(ValueError, match=says): own_data(cases/name)
    for name in 'cr-only.txt blank-zwsp.txt mac-leftovers office-leftovers records.ndjson records.jsonlines table.tab corpus-quotes.tsv corpus-sep.csv'.split():
        assert len(list(get_corpus(cases/name)))==24, name
    for name,says in {'empty-file':'b.csv is empty', 'records-in.txt':'.jsonl'}.items():
        with pytest.raises(ValueError, match=says): list(get_corpus(cases/name))
    assert next(iter(get_corpus(cases/'corpus-quotes.tsv')))=='He said "go" 0.'
    assert len(list(read_texts(cases/'score-gaps.csv')))==5

earlier_names = {'electra_nb.tasks.own':'electra_nb.lab.own_data.data', 'electra_nb.tasks.encoders':'electra_nb.glue.encoders'}

@pytest.mark.skipif(not cases.is_dir(), reason='../shared/data/cases is missing')
@pytest.mark.parametrize('name', ['array_cells','int_columns','special_tokens','leftover_projection','lone_generator','no_locks'])
def test_shared_scripts(name, tmp_path, monkeypatch):
    "Short programs that were made after public bug reports."
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fcntl, 'flock', fcntl.flock) # one of them replaces it
    script = (cases/f'{name}.py').read_text()
    for old,new in earlier_names.items(): script = script.replace(old, new)
    exec(script, {})

@pytest.mark.skipif(not cases.is_dir(), reason='../shared/data/cases is missing')
def test_shared_vocabularies():
    "Texts and vocabularies that do not fit each other."
    persian,emoji,cased = (list(get_corpus(cases/f)) for f in ('persian.txt','emoji.txt','cased/cased.txt'))
    assert 'invisible joiner' in said_of(None, plain, persian)
    assert said_of(None, VocabConfig(), emoji)==''
    assert 'lower=False' in said_of(next((cases/'cased').glob('*vocab.txt')), VocabConfig(), cased)
