"Answers for the rows of a file: every kind of task, every form of rows, one row out for each row in."
import csv, io, json, numpy as np, pandas as pd, pickle, pytest, re, shutil
from datasets import Dataset
from electra_nb import finetune, predict, Study
from electra_nb.core.messages import say_once
from electra_nb.glue.encoders import load_encoder
from electra_nb.glue.features import Features
from electra_nb.glue.tasks import tasks, TextSplit
from electra_nb.lab.own_data.data import own_data
from electra_nb.lab.reports.elements import plain
from electra_nb.lab.study.folder import metric_name
from electra_nb.lab.study.statistics import compare
from electra_nb.model.hf import save_models
from electra_nb.model.towers import get_models, sizes
from electra_nb.predicting import cli
from electra_nb.text.tokenizer import tiny_tokenizer
from fastai.interpret import ClassificationInterpretation

context = 'The baker waits near the river.'

def labelled():
    "Labelled rows of each kind, as users have them."
    people,towns = ('Ann','Ben','Eva','Kim'),('Rome','Oslo')
    words = [[a,'sees',b] for a in people for b in towns]
    texts = [f'The {a} {b} fish.' for a in ('fisher','baker') for b in ('likes','sells','needs','buys')]
    asked = [dict(id=str(i), question=f'Who waits {i}?', context=f'{context} {i}', answers=dict(text=['baker'], answer_start=[4])) for i in range(8)]
    return dict(label=pd.DataFrame(dict(review=texts, who=[t.split()[1] for t in texts])),
        score=pd.DataFrame(dict(review=texts, stars=[i+.5 for i in range(8)])),
        pair=pd.DataFrame(dict(sentence1=texts, sentence2=texts[::-1], same=['yes','no']*4)),
        tag=pd.DataFrame(dict(words=words, tags=[['B-PER','O','B-LOC']]*8)), answer=pd.DataFrame(asked))

@pytest.fixture(scope='module')
def studies(tmp_path_factory):
    "A study of each kind, hardly trained."
    import torch
    home,tok = tmp_path_factory.mktemp('predicting'),tiny_tokenizer()
    torch.manual_seed(42)
    save_models(*get_models(sizes['tiny'], len(tok)), home/'model', tok)
    def tuned(kind, rows): return finetune(home/'model', data=rows, dev=rows, epochs=.2, device='cpu', out=home/kind)
    return {kind:tuned(kind, rows) for kind,rows in labelled().items()}

# kind -> rows without labels, what an answer has
new = dict(label=(dict(review=['The fisher likes fish.',None,'Tea, and "cakes".']),'label'), score=(dict(review=['Good.',None,'Bad.']),'score'),
    pair=(dict(sentence1=['a','b','c'], sentence2=['d',None,'f']),'label'), tag=(dict(words=['Ann sees Rome.',None,'Eva sees Oslo']),'tag'))

@pytest.mark.parametrize('kind', new)
@pytest.mark.parametrize('ending', ['csv','jsonl'])
def test_rows_keep_their_places(studies, tmp_path, kind, ending):
    "As many rows as came, in their order; one without a text has no answer."
    columns,answer = new[kind]
    frame = pd.DataFrame(dict(columns, id=[3,1,2]))
    given,out = tmp_path/f'new.{ending}',tmp_path/f'out.{ending}'
    frame.to_csv(given, index=False) if ending=='csv' else frame.to_json(given, orient='records', lines=True)
    cli([str(studies[kind].out), str(given), '--out', str(out), '--device', 'cpu'])
    got = pd.read_csv(out) if ending=='csv' else pd.read_json(out, lines=True)
    missing = [not v or v!=v for v in got[answer]]
    assert len(got)==3 and missing==[False,True,False]
    alone = studies[kind].predict(frame.iloc[[2]][list(columns)])
    if kind!='tag': assert str(got[answer][2])==str(alone[answer][0]) or abs(got[answer][2]-alone[answer][0])<1e-4

def test_gaps_among_pairs(studies):
    "An empty row among pairs, of whatever kind, keeps its place, and the others their answers."
    for gap in ('',None,('',),('a',None)):
        found = predict(studies['pair'].out, [('a','d'),gap,('c','f')], device='cpu')
        assert found.label.isna().tolist()==[False,True,False] and found.sentence1[2]=='c' and found.sentence2[2]=='f'

def test_gaps_among_questions(studies):
    "A question without a context keeps its place and its words, and places in contexts stay whole numbers."
    found = predict(studies['answer'].out, [('Who?',context),('Where?','')], device='cpu')
    assert found.question.tolist()==['Who?','Where?'] and found.answer.isna().tolist()==[False,True] and '.' not in str(found.start[0])

def test_rows_of_any_iterable(studies):
    "Texts and pairs that come one by one, as from zip, are read as a list of them is."
    pairs,texts = [('a','d'),('c','f')],['The fisher likes fish.','Tea.']
    for kind,rows in dict(pair=pairs, label=texts).items():
        assert predict(studies[kind].out, iter(rows), device='cpu').equals(predict(studies[kind].out, rows, device='cpu'))
    assert len(predict(studies['pair'].out, iter(pairs[0]), device='cpu'))==1

def test_empty_cells(studies, tmp_path, capsys):
    "A row whose cells are all empty is a row, and is said."
    for name,content in {'one.csv':'review\nSign the key.\n""\nÖlfaß\n', 'two.csv':'id,review\n1,Sign the key.\n,\n3,Ölfaß\n\n'}.items():
        (tmp_path/name).write_text(content, encoding='utf-8')
        cli([str(studies['label'].out), str(tmp_path/name), '--out', str(tmp_path/'out.csv'), '--device', 'cpu'])
        assert pd.read_csv(tmp_path/'out.csv').label.isna().tolist()==[False,True,False]
        assert '1 of 3 rows have no text and get no answer; the first is row 1' in capsys.readouterr().out

def test_questions(studies, tmp_path):
    "Questions come as a table, as SQuAD's file, with answers or without."
    ask = [dict(id=str(i), question=f'Who waits {i}?', answers=[]) for i in range(2)]
    (tmp_path/'new.json').write_text(json.dumps(dict(version='1', data=[dict(title='t', paragraphs=[dict(context=context, qas=ask)])])))
    table = dict(question=['Who waits 0?','Who waits 1?'], context=[context]*2)
    found = [predict(studies['answer'].out, o, device='cpu') for o in (tmp_path/'new.json',table,[*zip(*table.values())])]
    assert all(f.answer.tolist()==found[0].answer.tolist() and len(f)==2 for f in found)

@pytest.mark.parametrize('kind', ['label','pair','tag','answer'])
def test_every_form(studies, kind):
    "A data frame, a data set and columns give what a list gives."
    if kind=='answer': columns = dict(question=['Who?','Why?'], context=[context]*2)
    else: columns = {k:[v[0],v[2]] for k,v in new[kind][0].items()}
    as_list = list(next(iter(columns.values()))) if len(columns)==1 else [*zip(*columns.values())]
    forms = [columns,pd.DataFrame(columns),Dataset.from_dict(columns),as_list]
    if len(columns)==1: forms += [pd.Series(as_list)]
    want,*others = [studies[kind].predict(o).drop(columns=['probability']) for o in forms]
    assert all(o.equals(want) for o in others)

def test_all_probabilities(studies):
    "They sum to one, for each text and for each word."
    for kind,text in (('label','The fisher likes fish.'),('tag','Ann sees Rome.')):
        found = studies[kind].predict(text, probabilities=True)
        probs = found.filter(regex='^p_')
        assert probs.shape[1]>=2 and (abs(probs.sum(axis=1)-1)<1e-5).all() and (abs(probs.max(axis=1)-found.probability)<1e-6).all()
    with pytest.raises(ValueError, match='labels and tags'): studies['score'].predict('a', probabilities=True)

@pytest.mark.parametrize('kind', 'label score pair tag answer'.split())
def test_text_of_another_script(tmp_path, studies, kind, capsys):
    "Fine-tuning and answers say that the vocabulary does not have the words of a text; they learned from [UNK] alone without a word."
    greek = str.maketrans('abcdefghijklmnopqrstuvwxyz', 'αβψδεφγηιξκλμνοπθρστυβωχυζ')
    def foreign(v): return v.lower().translate(greek) if isinstance(v, str) else [*map(foreign, v)]
    texts = dict(label=['review'], score=['review'], pair=['sentence1','sentence2'], tag=['words'], answer=['question','context'])[kind]
    own = labelled()[kind]
    rows = own.assign(**{k:own[k].map(foreign) for k in texts})
    if kind=='answer': rows['answers'] = [dict(text=[foreign(a['text'][0])], answer_start=a['answer_start']) for a in own.answers]
    words,model = r'\[UNK\], alike to the model: its vocabulary is not for this text',studies['label'].out.parent/'model'
    finetune(model, data=rows, dev=rows, epochs=.2, device='cpu', out=tmp_path/'study')
    assert re.search(f'data, train texts: \\d+% of the tokens are {words}', capsys.readouterr().out)
    say_once.cache_clear()
    studies[kind].predict(rows[texts])
    assert re.search(words, capsys.readouterr().out)
    finetune(model, data=own, dev=own, epochs=.2, device='cpu', out=tmp_path/'own')
    studies[kind].predict(own[texts])
    assert '[UNK]' not in capsys.readouterr().out

def test_no_row_tells_them_apart(tmp_path, studies):
    "One run that is right where the rival is: its answers are there, so they are not called missing."
    study = finetune(studies['label'].out.parent/'model', data=labelled()['label'], dev=labelled()['label'], epochs=.2, device='cpu', rivals=True, out=tmp_path/'study')
    for name in ('results','rivals'):
        path = study.out/f'{name}.jsonl'
        path.write_text(path.read_text().replace('"failure": "constant"', '"failure": ""'))
    rival = study.out/'predictions'/'data-tf-idf-seed0-dev.tsv'
    for p in {*study.out.glob('predictions/data-*-dev.tsv')}-{rival}: shutil.copy(rival, p)
    assert study.compare().set_index('against').note['tf-idf']=='not tested: the difference is the same on every row'

def test_text_beside_answer(studies):
    assert studies['label'].predict(['The fisher likes fish.']).review.tolist()==['The fisher likes fish.']
    assert list(studies['pair'].predict([('a','b')]).columns)[:2]==['sentence1','sentence2']

@pytest.mark.filterwarnings('error::DeprecationWarning:electra_nb') # of a table in which nothing could be tested
def test_which_start(tmp_path, studies):
    "Report, last words and answers take the best pre-trained model; a random start does not step in for one that is gone."
    rows = labelled()['label']
    study = finetune(studies['label'].out.parent/'model', data=rows, dev=rows, epochs=.2, baseline=True, rivals=True, device='cpu', out=tmp_path/'both')
    assert 'data, tf-idf: not tested: 1 of 1 runs' in repr(study.compare())
    best = study.out/'models'/'data-pretrained-seed0'
    assert study.models()==[best] and str(best) in (study.out/'report.html').read_text() and 'models/data-random' not in (study.out/'report.html').read_text()
    assert '| f1 of' in (best/'README.md').read_text()
    shutil.rmtree(best)
    with pytest.raises(ValueError, match='no model of data from pretrained start is kept; there are: data-random-seed0'): study.predict(['Ann'])
    assert study.models(start='random') and Study(study.out).models(start='random')
    (study.out/'results.jsonl').unlink()
    with pytest.raises(ValueError, match='no runs to compare yet'): study.compare()

@pytest.mark.parametrize('kind,columns', [('label',['sentence']),('label',['probability']),('score',['sentence']),('pair',['sentence','probability']),('pair',['label','text'])])
def test_columns_named_as_answers(studies, tmp_path, kind, columns):
    "A column of texts may have the name of an answer, or of the numbers of sentences with tags: the answers are the same."
    folder = tmp_path/'model'
    shutil.copytree(studies[kind].models()[0], folder)
    about = json.loads((folder/'task.json').read_text())
    about['task']['text'] = columns
    (folder/'task.json').write_text(json.dumps(about))
    (folder/'manifest.json').unlink(missing_ok=True)
    texts = ['The fisher likes fish.','Tea.']
    frame,want = pd.DataFrame({c:texts for c in columns}),studies[kind].predict([(t,t) for t in texts] if kind=='pair' else texts)
    for out in ('out.csv','out.jsonl'): predict(folder, frame, out=tmp_path/out, device='cpu')
    got,answer = pd.read_csv(tmp_path/'out.csv'),'score' if kind=='score' else 'label'
    assert got[answer].astype(str).str[:5].tolist()==want[answer].astype(str).str[:5].tolist()
    assert pd.read_json(tmp_path/'out.jsonl', lines=True)[answer].notna().all()

def test_no_spans(studies):
    "Sentences without a span have a row too."
    found = predict(studies['tag'].out, ['rain','sun'], form='spans', device='cpu')
    assert len(found)==2 and list(found)==['start','end','type','text','probability']

@pytest.mark.parametrize('kind,form', [('label','spans'),('score','n_best'),('tag','words'),('answer','spans')])
def test_unknown_form_before_the_work(studies, monkeypatch, kind, form):
    "A form of answers that the task has not is refused before the model is opened, with those that it has."
    monkeypatch.setattr('electra_nb.lab.study.study.predict_rows', lambda *_: pytest.fail('the model was asked'))
    rows = [('Who waits?',context)] if kind=='answer' else ['The fisher likes fish.']
    has = dict(tag="have the forms 'spans' and None", answer="have the forms 'n_best' and None").get(kind, 'have one form, so leave it out')
    with pytest.raises(ValueError, match=f"form='{form}': the answers of this task {has}"): studies[kind].predict(rows, form=form)

def test_carriage_returns(studies, tmp_path):
    "What was written can be read: a carriage return inside a cell is not the end of a row."
    texts = ['one\rtwo','three\r\nfour','a "b", c','']
    predict(studies['label'].out, texts, out=tmp_path/'out.csv', device='cpu')
    with open(tmp_path/'out.csv', newline='', encoding='utf-8') as f: rows = [*csv.DictReader(f)]
    assert [r['review'] for r in rows]==texts and len(predict(studies['label'].out, tmp_path/'out.csv', device='cpu'))==4

def test_order_of_words(studies, tmp_path, monkeypatch, capsys):
    "The file is the second word without a name, wherever options stand; '-' is the pipe."
    (tmp_path/'new.txt').write_text('The fisher likes fish.\n')
    study,file,cpu,said = str(studies['label'].out),str(tmp_path/'new.txt'),['--device','cpu'],set()
    for argv in ([study,file,*cpu],[*cpu,study,file],[study,*cpu,file],[study,*cpu,'--texts',file],[study,'-',*cpu],[study,*cpu]):
        monkeypatch.setattr('sys.stdin', io.TextIOWrapper(io.BytesIO(b'The fisher likes fish.\n')))
        cli(argv)
        said.add(capsys.readouterr().out)
    assert len(said)==1 and 'review,label' in said.pop()

def test_wrong_columns(studies, tmp_path):
    "A table without the column of the training rows is refused; `text=` names another."
    frame = pd.DataFrame(dict(body=['The fisher likes fish.']))
    with pytest.raises(ValueError, match="no column 'review'; columns there: body"): studies['label'].predict(frame)
    assert len(studies['label'].predict(frame, text='body'))==1

def test_text_file_as_in_training(studies, tmp_path):
    "Columns in a .txt file are read as fine-tuning reads them, or refused; lines are texts."
    tagged = '\n\n'.join(f'{a} B-PER\nsees O\nRome B-LOC' for a in ('Ann','Ben'))
    for name,content in (('moods.txt','review\twho\nThe fisher likes fish.\tfisher\nTea.\tbaker\n'),('people.txt',tagged),('people.conll',tagged)): (tmp_path/name).write_text(content)
    assert predict(studies['label'].out, tmp_path/'moods.txt', device='cpu').review.tolist()==['The fisher likes fish.','Tea.']
    for name in ('people.txt','people.conll'):
        assert [' '.join(w) for w in predict(studies['tag'].out, tmp_path/name, device='cpu').word]==['Ann sees Rome','Ben sees Rome']
        with pytest.raises(ValueError, match="no column 'review'"): predict(studies['label'].out, tmp_path/name, device='cpu')

# file -> content, what is said when a model of labels is asked about it
unread = {'raw.txt':('fisher\tA fish.\nbaker\tTea.\n',"no column 'review'"), 'rows.txt':('{"review": "a"}\n','holds JSON'), 'table.txt':('review,who\na,b\nc,d\n','holds a table'),
    'page.txt':('<div>\n<p>a</p>','is markup'), 'a.tar.gz':('','archive'), 'wiki.txt':('<doc id="7" url="u" title="Oslo">\nOslo\n</doc>','write each text to a line')}

@pytest.mark.parametrize('name', unread)
def test_no_lines_of_text(studies, tmp_path, name):
    (tmp_path/name).write_text(unread[name][0])
    with pytest.raises(ValueError, match=unread[name][1]): predict(studies['label'].out, tmp_path/name, device='cpu')

def test_a_set_or_an_open_file(studies, tmp_path):
    (tmp_path/'a.txt').write_text('a')
    for source,says in (({'a','b'},'pass a list'),(open(tmp_path/'a.txt'),'pass its path')):
        with pytest.raises(ValueError, match=says): predict(studies['label'].out, source, device='cpu')

def test_cards_count_rows(studies):
    "A card counts rows as the user has them, not windows or both orders of a pair; F1 has the label that the model answers with."
    for kind,study in studies.items(): assert 'Rows: 8 train, 8 dev.' in (study.models()[0]/'README.md').read_text(), kind
    pairs = TextSplit(['a','b c'], ['d','e'], np.array([0,1]))
    feats = Features(pairs, tiny_tokenizer(), 5, both_orders=True)
    assert (len(feats),feats.n_cut)==(4,1)
    assert metric_name(tasks['mrpc'], 'f1')=="f1 of 'paraphrase'"

def test_signs_of_markdown():
    "Labels on cards are no links, and no emphasis."
    assert plain('loss at [MASK], R&D')=='loss at [MASK], R&D'
    assert plain('[a](b) _c_ d_e &amp; \\*')=='&#91;a](b) &#95;c&#95; d_e &#38;amp; &#92;&#42;'

def test_what_a_learner_says(studies, tmp_path):
    "fastai's confusion matrix is for one label a row; losses are counted from one; texts are for `predict`; a learner can be pickled."
    for kind,study in studies.items():
        learn = study.learner()
        assert pickle.loads(pickle.dumps(learn)).dls.valid.n==learn.dls.valid.n
        with pytest.raises(ValueError, match='learn.predict answers a text'): learn.dls.test_dl([])
        for n in (0,-1,1.5):
            with pytest.raises(ValueError, match='n='): study.top_losses(n)
        if kind in ('label','pair'): assert ClassificationInterpretation.from_learner(learn).confusion_matrix().sum()==8
        else:
            with pytest.raises(AttributeError, match='no single label'): ClassificationInterpretation.from_learner(learn)

def test_compare_with_a_folder(studies, tmp_path):
    "The other study may be named by its folder; what is none is refused."
    study = studies['score']
    assert study.compare(study.out).task.tolist()==study.compare(Study(study.out)).task.tolist()
    with pytest.raises(FileNotFoundError, match='is no study'): study.compare(tmp_path)
    with pytest.raises(ValueError, match='other=5'): study.compare(5)

@pytest.mark.parametrize('metric,most', [('accuracy',100),('spearman',200)])
def test_differences_end_where_scores_do(metric, most):
    "An interval of a difference goes no further than two scores can be apart."
    def lines(start, scores): return [dict(model='m', start=start, task='t', seed=i, metric=metric, score=s, failure='', guess=0) for i,s in enumerate(scores)]
    r = compare(lines('pretrained', [90.,-80.]), lines('random', [40.,-40.])).iloc[0]
    assert (r.low,r.high)==(-most,most)

def test_names_of_tasks(studies):
    "A name keeps what stands behind a point; one without a letter, or too long for a file, is refused before any run."
    rows = {k:list(v) for k,v in labelled()['label'].items()}
    assert own_data(rows, name='fish.v2').name=='fish_v2'
    for name in ('/','x'*300,'../'):
        with pytest.raises(ValueError, match='gives the task no name'): own_data(rows, name=name)

def test_labels_around_zero(capsys):
    "-1 is no missing label where 1 is one; a single score is a single label."
    def task(labels): return own_data(dict(text=[f'The boat number {i} comes' for i in range(60)], label=labels*(60//len(labels))))
    for labels,said in (([-1,0,1],False),([-1,1],False),([-1,0,1,2],True)):
        task(labels)
        assert ('not as a missing label' in capsys.readouterr().out)==said, labels
    with pytest.raises(ValueError, match='holds one label only'): task([1.5])

def test_marks_of_other_programs(capsys):
    "Written ends of lines in texts, and a sum below the rows, are said once."
    texts = [f'Boat {i} is late.<br />Good fish' for i in range(20)]+[f'No.\\n\\nBoat {i}' for i in range(20)]
    own_data(dict(text=[*texts,'Total'], label=[*'ab'*20,'a']))
    said = capsys.readouterr().out
    assert "data row 0: '<br />' in column 'text' is read as words (40 such row(s))" in said and "data row 40: 'Total' is read as a text" in said
    own_data(dict(text=[f'Boat {i} is in C:\\new folder.' for i in range(40)], label=[*'ab'*20]))
    assert 'is read as' not in capsys.readouterr().out

def test_pooling_of_another_program(studies, tmp_path):
    "A setting of that name from elsewhere takes no layer away; the layer with the mean that is saved here is taken away as before."
    folder = tmp_path/'model'
    shutil.copytree(studies['label'].out.parent/'model'/'discriminator', folder)
    (folder/'manifest.json').unlink(missing_ok=True)
    path = folder/'config.json'
    n = load_encoder(folder).config.num_hidden_layers
    path.write_text(json.dumps({**json.loads(path.read_text()), 'pooling':'mean'}))
    assert len(load_encoder(folder).encoder.layer)==load_encoder(folder).config.num_hidden_layers==n
    tuned = studies['label'].models()[0]
    assert json.loads((tuned/'config.json').read_text())['pooling']=='mean' and len(load_encoder(tuned).encoder.layer)==n
