"A vocabulary that grows: other text stays as it was, runs resume, what was asked for is part of the run, real weights where they are given."
import json, unicodedata, pytest, torch
from pathlib import Path
from electra_nb import plan, pretrain
from electra_nb.core.tiny import tiny_text
from electra_nb.lab.register import cli
from electra_nb.lab.reports.card import model_card
from electra_nb.lab.start.new_words import GrownStart, best_words, candidates, check_words, grow_tokenizer
from electra_nb.model.hf import quiet_hf
from electra_nb.objectives.table import objectives
from electra_nb.recipe import make_recipe
from electra_nb.text.corpus import get_corpus
from electra_nb.text.docstrings import library_docs
from electra_nb.text.tokenizer import bert_tokenizer, line_encoder, load_tokenizer, tiny_tokenizer, wordpiece
from hypothesis import given, settings, strategies as st
from test_start import StopAt, bert, equal, minilm, weights_of # `bert` is a fixture
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertModel

domain = ['Weather at the lighthouse: a storm comes from the north.','The lighthouse is dark, and the weather is clear.']*6
docs = [f'{part} {i}' for i in range(20) for part in [*tiny_text.split('\n\n'), '\n'.join(domain)]]
usual = dict(corpus=docs, steps=12, eval_every=6, log_every=3, save_every=4, device='cpu', probe=False, general=False)

def grown_towers(folder, add_words=2, corpus=docs, **options):
    start = GrownStart(folder, add_words=add_words)
    recipe = make_recipe('tiny', **start.options('tiny', options, options))
    tok = start.own_tokenizer(corpus=get_corpus(corpus))
    towers = recipe.objective.build(recipe.model, len(tok), tok.pad_token_id)
    start.fill(towers, tok)
    return start,tok,towers

# other text

bert_words = 'lighthouse storm wetter straße naive don x1 2nd token data database été'.split()

def kinds():
    "Tokenizers of either case, and their new words."
    for lower in (True,False):
        tok = wordpiece([tiny_text,'aàbcdeéèfghijklmnopqrstuvwxyzßüöABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-\'½']*2, 300, lower=lower, min_frequency=1)
        words = check_words(tok, [w for w in bert_words if len(tok.tokenize(w))!=1])
        assert len(words)>8
        yield tok,words

grown_kinds = [(tok,grow_tokenizer(tok, words),words,line_encoder(tok)(words)) for tok,words in kinds()]

def old_ids(ids, pieces, n_old):
    "Each new token replaced by the pieces that the word had."
    return [j for i in ids for j in (pieces[i-n_old] if i>=n_old else [i])]

def same(texts, tok, grown, pieces):
    "The same as before, once each new token is replaced by its pieces."
    new,old = (line_encoder(t)(texts) for t in (grown,tok))
    return all(old_ids(n, pieces, len(tok))==o for n,o in zip(new, old))

def test_every_id_keeps_its_piece():
    for tok,grown,words,_ in grown_kinds:
        assert {t:i for t,i in grown.get_vocab().items() if i<len(tok)}==tok.get_vocab()
        assert grown.convert_tokens_to_ids(words)==[*range(len(tok), len(grown))]
        assert [getattr(grown, f'{k}_token_id') for k in ('pad','unk','cls','sep','mask')]==[getattr(tok, f'{k}_token_id') for k in ('pad','unk','cls','sep','mask')]

@pytest.mark.parametrize('text', ['storms STORM\'s storm’s a-storm storm_map _storm storm2 2storm','Été ÉTÉ été e\u0301te\u0301 étés','x1 x12 ax1 x1.5 2nd 22nd',
    '漢storm漢字token','databases database data base datab','token\u200dtoken storm\u00adx','don\'t DON’T don','STRASSE Straße straße','storm\ttoken\u3000data\nstorm'])
def test_borders(text):
    "At apostrophes, hyphens, underscores, digits, accents, Chinese signs: a new word stands only for itself, and all beside it is as before."
    for tok,grown,words,pieces in grown_kinds:
        assert same([text], tok, grown, pieces)
        enc,old = (t.backend_tokenizer.encode(text) for t in (grown,tok))
        covered = lambda e: {i for (a,b) in e.offsets for i in range(a, b)}
        assert covered(enc)>=covered(old) # offsets lead to the same letters, and to their combining accents
        normal = tok.backend_tokenizer.normalizer.normalize_str
        for t,(a,b) in zip(enc.tokens, enc.offsets):
            if t in words: assert normal(text[a:b])==t

def test_no_word_is_missed():
    "A word alone, with capitals and accents where these don't matter, becomes one token."
    for tok,grown,words,_ in grown_kinds:
        lower = tok.backend_tokenizer.normalizer.normalize_str('A')=='a'
        for w in words:
            for form in [w, f'({w})', f'{w}-{w}', f'{w}.', *([w.upper()] if lower and 'ß' not in w else [])]:
                assert w in grown.tokenize(form), form
    tok,grown,*_ = grown_kinds[0]
    assert grown.tokenize('éte\u0301 ETÉ')==['ete','ete']

odd = ('So','Sm','Sc','Sk','No','Co','Cn','Cc','Cf') # signs, unassigned and control characters: letters to BERT, no letters to an added token
letters = st.sampled_from([*'storm lighthouse data x1 2nd don Ä é ß _ - \' ’ . ½ 漢 \u0301 \u200d \n'.split(' '),' ',' '])

@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(st.one_of(st.text(), st.lists(letters).map(''.join), st.lists(st.one_of(letters, st.characters())).map(''.join)))
def test_any_text(text):
    "Without a new word nothing changes; with one, all beside it is as before, unless a sign stands at it that only BERT takes for a letter."
    for tok,grown,words,pieces in grown_kinds:
        new,old = (line_encoder(t)([text])[0] for t in (grown,tok))
        if not any(i>=len(tok) for i in new): assert new==old
        elif not any(unicodedata.category(c) in odd and not c.isascii() for c in text): assert old_ids(new, pieces, len(tok))==old

def test_general_text():
    "The built-in text and German: nothing changes but new words, and [UNK] is not more frequent; the check fails for a piece of the vocabulary."
    general = [d for _,d in library_docs(('json','argparse','email'))][:300]
    tok = wordpiece(general, 1000)
    german = ['Der Leuchtturmwärter schreibt das Wetter auf; Straße, Größe und Übermut.']*3
    words = best_words(tok, general, 100)
    grown,pieces = grow_tokenizer(tok, words),line_encoder(tok)(words)
    lines = [l for t in general+german for l in t.split('\n')]
    new,old = (line_encoder(t)(lines) for t in (grown,tok))
    assert [old_ids(n, pieces, len(tok)) for n in new]==old and sum(map(len, new))<sum(map(len, old))
    unk = tok.unk_token_id
    assert sum(n.count(unk) for n in new)<=sum(o.count(unk) for o in old)
    plain = [(n,o) for n,o in zip(new, old) if not any(i>=len(tok) for i in n)]
    assert len(plain)>50 and all(n==o for n,o in plain)
    vocab = {**tok.get_vocab(), **{w:len(tok)+i for i,w in enumerate(words)}}
    greedy = line_encoder(bert_tokenizer(vocab))(lines)
    assert [old_ids(n, pieces, len(tok)) for n in greedy]!=old

def test_unknown_words():
    "A word that was unknown becomes known, and its row is that of [UNK]."
    tok = tiny_tokenizer()
    assert tok.tokenize('x1')==['[UNK]'] and candidates(tok, ['x1 x1'])[0][:1]==('x1',)
    grown = grow_tokenizer(tok, check_words(tok, ['x1']))
    assert grown.tokenize('X1 x12')==['x1','[UNK]']

@pytest.mark.parametrize('sign', '²°½€™①☃🙂')
def test_no_sign_becomes_unknown(sign, tmp_path, capsys):
    "A word that would leave a sign beside it unknown gets no token, and is named; others do."
    tok = bert_tokenizer({w:i for i,w in enumerate(['[PAD]','[UNK]','[CLS]','[SEP]','[MASK]','the','k','##m','##h',f'##{sign}'])})
    with quiet_hf(): BertForMaskedLM(BertConfig(vocab_size=len(tok), hidden_size=32, num_hidden_layers=1, num_attention_heads=2)).save_pretrained(tmp_path)
    tok.save_pretrained(tmp_path)
    texts = [f'the km{sign} kmh, km (kmh)']*3
    for add_words in (['km','kmh'],1):
        grown = GrownStart(tmp_path, add_words=add_words).own_tokenizer(corpus=get_corpus(texts))
        assert grown.tokenize(texts[0])==['the','k','##m',f'##{sign}','kmh','[UNK]','k','##m','[UNK]','kmh','[UNK]']
        assert 'add_words: 1 left out, since a sign beside them would become [UNK]: km\n' in capsys.readouterr().out
    with pytest.raises(ValueError, match='no word is left'): GrownStart(tmp_path, add_words=['km']).own_tokenizer(corpus=get_corpus(texts))
    assert len(GrownStart(tmp_path, add_words=['km']).own_tokenizer(corpus=get_corpus(['the km, km']*3)))==len(tok)+1
    for add_words in (['km','kmh'],1): # nor in the general text
        grown = GrownStart(tmp_path, add_words=add_words).own_tokenizer(corpus=get_corpus(['the km kmh, km, kmh']*3), general=texts)
        assert grown.tokenize(texts[0])[:5]==['the','k','##m',f'##{sign}','kmh'] and len(grown)==len(tok)+1

@pytest.mark.parametrize('word,says', [('中',"'中' is or has a sign"),('km²',"'km²' is or has a sign"),('🙂🙂',"'🙂🙂' is or has a sign"),('a-b',"'a-b' is cut into 'a - b'"),('\0',"is or has a sign")])
def test_signs_are_no_words(word, says):
    with pytest.raises(ValueError, match=says): check_words(tiny_tokenizer(), [word])

def test_empty_file_of_words(bert, tmp_path):
    (tmp_path/'words.txt').write_text('\n \n')
    with pytest.raises(ValueError, match='words.txt.*the file has no word'): GrownStart(bert, add_words=tmp_path/'words.txt')

def test_saved_tokenizer(bert, tmp_path):
    "Plain transformers gives equal ids, with 2,000 words too."
    tok = tiny_tokenizer()
    words = [f'{a}{b}{c}q' for a in 'abcdefghijklm' for b in 'nopqrstuvwxyz' for c in 'abcdefghijkl'][:2000]
    grown = grow_tokenizer(tok, check_words(tok, words))
    grown.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    text = ' '.join([*words[::7],*(w+'x' for w in words[::11]),tiny_text])
    assert again(text).input_ids==grown(text).input_ids and len(again)==len(tok)+2000
    assert same([text], tok, again, line_encoder(tok)(words))

# weights

@pytest.mark.parametrize('name', objectives)
def test_objectives(bert, name):
    "With every objective: hidden states of other text equal those of BERT, new rows are means, and what is tied stays tied."
    start,tok,towers = grown_towers(bert, objective=name)
    *_,encoder = towers.values()
    enc,old = (t(tiny_text[:200], return_tensors='pt', truncation=True, max_length=60) for t in (tok,tiny_tokenizer()))
    assert torch.equal(enc['input_ids'], old['input_ids'])
    model = BertForMaskedLM.from_pretrained(bert).eval()
    assert torch.equal(encoder.base_model.eval()(**enc)[0], model.bert(**enc)[0])
    table = model.get_input_embeddings().weight
    assert torch.equal(encoder.get_input_embeddings().weight, torch.cat([table,torch.stack([table[i].mean(0) for i in start.added])]))
    for tower in towers.values():
        assert tower.get_input_embeddings().weight.shape[0]==tower.config.vocab_size==len(tok)
        head = tower.get_output_embeddings()
        if head is not None and hasattr(head, 'weight'): assert head.weight is tower.get_input_embeddings().weight and len(head.bias)==len(tok)

def test_frozen_generator(bert):
    "The whole masked language model, with the same logits for old tokens and mean ones for new ones."
    start,tok,towers = grown_towers(bert, objective='fast_electra')
    model,n = BertForMaskedLM.from_pretrained(bert).eval(),len(tiny_tokenizer())
    enc = tok('The fisher sells [MASK] at the market.', return_tensors='pt')
    with torch.no_grad(): new,old = (m(**enc).logits for m in (towers['generator'].eval(),model))
    assert torch.allclose(new[...,:n], old, atol=1e-5)
    means = torch.stack([old[...,i].mean(-1) for i in start.added], -1)
    assert torch.allclose(new[...,n:], means, atol=1e-5)

def test_own_run(bert, tmp_path):
    "A start with rows that no token has, and a run that has grown before."
    start,tok,towers = grown_towers(bert)
    for name,tower in towers.items():
        tower.resize_token_embeddings(len(tok)+5)
        with quiet_hf(): tower.save_pretrained(tmp_path/f'mine-{name}')
        tok.save_pretrained(tmp_path/f'mine-{name}')
    again,more,now = grown_towers(tmp_path/'mine-discriminator', ['north'])
    assert len(more)==len(tok)+1 and more.tokenize('weather lighthouse north')==['weather','lighthouse','north']
    old = towers['discriminator'].get_input_embeddings().weight
    rows = now['discriminator'].get_input_embeddings().weight
    assert torch.equal(rows[:len(tok)], old[:len(tok)]) and torch.equal(rows[len(tok):], torch.stack([old[ids].mean(0) for ids in again.added]))

# runs

def test_runs(bert, tmp_path, monkeypatch, capsys):
    "A stopped run goes on without start and file of words, and ends with the same weights; other words are refused by name; card, plan and log say how many."
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    mine = tmp_path/'mine'
    mine.symlink_to(bert)
    (tmp_path/'words.txt').write_text('Lighthouse\nweather\n')
    asked = dict(usual, start=mine, add_words=tmp_path/'words.txt')
    pretrain(**asked, out=tmp_path/'whole')
    said = capsys.readouterr().out
    assert 'add_words: 2 words, ' in said and ' tokens a word; lighthouse, weather' in said
    pretrain(**asked, out=tmp_path/'broken', cbs=[StopAt(5)])
    for add_words,was in ((3,'3'),(None,'None'),(['storm'],"'1 words")):
        with pytest.raises(ValueError, match=f'add_words: this run was started with .2 words .*, you passed {was}'):
            pretrain(**dict(asked, add_words=add_words), out=tmp_path/'broken')
    (tmp_path/'words.txt').unlink()
    mine.unlink()
    for what in (['Lighthouse','weather'],tmp_path/'words.txt'):
        assert pretrain(**dict(asked, add_words=what), out=tmp_path/'broken').steps.done==12
    with pytest.raises(ValueError, match='add_words: this run'): pretrain(**dict(asked, add_words=['storm']), out=tmp_path/'broken')
    assert equal(weights_of(tmp_path/'whole'), weights_of(tmp_path/'broken'))
    tok,n = AutoTokenizer.from_pretrained(tmp_path/'whole'/'discriminator'),len(tiny_tokenizer())
    assert tok.tokenize('Lighthouse weathers')[0]=='lighthouse' and len(tok)==n+2
    for tower in weights_of(tmp_path/'whole').values(): assert tower['electra.embeddings.word_embeddings.weight'].shape[0]==n+2
    card,info = model_card(tmp_path/'whole'),json.loads((tmp_path/'whole'/'recipe.json').read_text())
    assert info['vocabulary']==n+2 and info['start']['words'].startswith('2 words, ') and info['start']['words'] in card

def test_same_folder(bert, tmp_path, monkeypatch):
    "Without out=, the same words find the same folder, and others another one."
    monkeypatch.chdir(tmp_path)
    for _ in range(2): pretrain(**usual, start=str(bert), add_words=2)
    assert len([*Path('runs').iterdir()])==1
    pretrain(**usual, start=str(bert), add_words=3)
    assert len([*Path('runs').iterdir()])==2

def test_said_before(bert, tmp_path, monkeypatch, capsys):
    "Plan and dry run say how many words; a number and True come through the command line; without a start they are refused."
    monkeypatch.chdir(tmp_path)
    (tmp_path/'docs.txt').write_text('\n\n'.join(docs))
    run = dict(corpus='docs.txt', start=str(bert), steps=12, device='cpu')
    assert ' → ' in plan(**run, add_words=2).table['new words'] and 'new words' not in plan(**run).table
    pretrain(**run, add_words=True, dry_run=True)
    assert 'add_words: ' in capsys.readouterr().out and not Path('runs').exists()
    argv = [w for k,v in dict(run, out='run', eval_every=12).items() for w in (f'--{k}',str(v))]
    cli([*argv,'--add_words','3'])
    assert json.loads(Path('run/recipe.json').read_text())['start']['add_words']==3
    cli([*argv,'--out','best','--add_words','true'])
    assert json.loads(Path('best/recipe.json').read_text())['start']['add_words'] is True
    for wrong in (dict(add_words=True),dict(add_words=0)):
        with pytest.raises(ValueError, match='needs start='): pretrain(**dict(run, start=None), **wrong)
    with pytest.raises(ValueError, match='needs start='): plan(add_words=3)
    with pytest.raises(ValueError, match='no effect'): pretrain(**run, add_words=2, vocab_size=500)
    for wrong,says in ((0,'a number above 0'),('nowhere.txt','no such file'),(10**6,'the corpus has .* words that occur 2 times'),(['fish'],"'fish' is one token already")):
        with pytest.raises((ValueError,FileNotFoundError), match=says): pretrain(**run, add_words=wrong, out='bad')
    assert not Path('bad').exists()

# real weights

def test_minilm(minilm):
    "500 words of docstrings in MiniLM: text without them is as it was, its states are equal, and other sentences keep most of theirs."
    tok = load_tokenizer(minilm)
    texts = [d for _,d in library_docs(('torch','scipy','sklearn'))][:1500]
    words = best_words(tok, texts[::2], 500)
    start,grown,towers = grown_towers(minilm, words, texts[:100])
    lines = [l for t in texts[1::2] for l in t.split('\n') if 40<len(l)<300 and l.isascii()]
    new,old = (line_encoder(t)(lines) for t in (grown,tok))
    assert [old_ids(n, start.added, len(tok)) for n in new]==old
    assert sum(map(len, new))<.975*sum(map(len, old))
    changed = [l for l,n,o in zip(lines, new, old) if n!=o][:64]
    plain = [l for l,n,o in zip(lines, new, old) if n==o][:64]
    model,disc = BertModel.from_pretrained(minilm).eval(),towers['discriminator'].eval().electra
    def states(t, m, texts):
        enc = t(texts, padding=True, truncation=True, max_length=128, return_tensors='pt')
        with torch.no_grad(): return m(**enc)[0],enc['attention_mask'][...,None]
    assert torch.equal(states(tok, model, plain)[0], states(grown, disc, plain)[0])
    def mean(pair): return (pair[0]*pair[1]).sum(1)/pair[1].sum(1)
    was = mean(states(tok, model, changed))
    def likeness(): return torch.cosine_similarity(was, mean(states(grown, disc, changed))).mean().item()
    assert likeness()>.89
    torch.manual_seed(0)
    disc.embeddings.word_embeddings.weight.data[len(tok):] = .02*torch.randn(500, 384)
    assert likeness()<.85
    for n,most,least in ((100,.98,.96),(1000,.95,.92)):
        share = sum(map(len, line_encoder(grow_tokenizer(tok, best_words(tok, texts[::2], n)))(lines)))/sum(map(len, old))
        assert least<share<most, (n, share)
