from nbed import edit
edit('/work/text/nbs/5_pretraining/03_pretraining.ipynb',[
('from electra_nb.text.prepare import _check_idle, _prepare','from electra_nb.text.prepare import check_vocab_options, prepare'),
('    _check_idle(given, ','    check_vocab_options(given, '),
('    tok,*sets,card = _prepare(recipe, c, tokenizer, out, cache)\n','    n_rows_seen = None if recipe.hours else recipe.steps*recipe.bs\n    tok,*sets,card = prepare(c, tokenizer, recipe, recipe, recipe.max_positions, n_rows_seen, out/\'tokenizer\', cache)\n'),
('tok,*sets,_ = _prepare(small, head, c.tokenizer if tokenizer is None else tokenizer, None, tmp)','tok,*sets,_ = prepare(head, c.tokenizer if tokenizer is None else tokenizer, small, small, small.max_positions, small.steps*small.bs, cache=tmp)'),
])
