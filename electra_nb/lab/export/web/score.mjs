// What electra_nb's `score` computes, in a browser or in Node: split a text into words and tokens, let the model read it in windows,
// and give each word the largest probability of its tokens. `ort` is onnxruntime-web, `Tokenizer` that of @huggingface/tokenizers.

const mark = String.raw`\p{P}$+<=>^\x60|~`, // what BERT's tokenizers split off
  han = String.raw`\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2ceaf}\u{2f800}-\u{2fa1f}`
const rules = [ // how texts are cut into parts that are tokenized alone
  new RegExp(`[${mark}]|[${han}]|[^\\s${mark}${han}]+`, 'gu'),
  new RegExp(`[${mark}]|[^\\s${mark}]+`, 'gu'),
  /\s?\S+/gu,
  /\S+/gu]
const samples = ['A well-known error, isn’t it?', 'Two  blanks, 3.5 % (of 1,000)\nand a line.', 'ÉCOLE naïve straße', '日本語の文章 and 中文', 'x'.repeat(30)]

export function windows(n, size) { // [start, stop, first, last]: start to stop is read, first to last is judged
  if (n<=size) return [[0,n,0,n]]
  const starts = [], step = Math.max(1, Math.floor(size/2))
  for (let s = 0; s<n-size; s += step) starts.push(s)
  starts.push(n-size)
  const edges = [0, ...starts.slice(1).map((b, i) => Math.floor((starts[i]+size+b)/2)), n]
  return starts.map((a, i) => [a, a+size, edges[i], edges[i+1]])
}

export async function openModel(ort, Tokenizer, files) { // files: {model: bytes, tokenizer, config: objects}
  const session = await ort.InferenceSession.create(files.model, {executionProviders:['wasm']}),
    tok = new Tokenizer(files.tokenizer, files.config),
    id = name => tok.token_to_id(files.config[name]?.content ?? files.config[name]),
    [cls,sep] = [id('cls_token'), id('sep_token')],
    size = Math.min(files.config.model_max_length ?? 512, 4096)-2,
    encode = text => tok.encode(text, {add_special_tokens:false}).ids,
    cut = (text, rule) => [...text.matchAll(rule)].map(m => m[0])
  if (cls===undefined || sep===undefined) throw new Error('the tokenizer names no cls_token and sep_token in tokenizer_config.json')
  const rule = rules.find(r => samples.every(s => String(cut(s, r).flatMap(encode))===String(encode(s))))
  if (!rule) throw new Error('the tokenizer of this model cuts words in a way that this page does not know')
  const pieces = new Map(), known = new Map()

  function remember(map, key, value, most) {
    if (map.size>=most) map.clear()
    map.set(key, value)
    return value
  }
  async function read(ids) { // probabilities of one window
    const key = ids.join()
    if (known.has(key)) return known.get(key)
    const row = [cls,...ids,sep], shape = [1,row.length], full = n => new ort.Tensor('int64', new BigInt64Array(row.length).fill(n), shape),
      given = {input_ids:new ort.Tensor('int64', BigInt64Array.from(row, BigInt), shape), attention_mask:full(1n), token_type_ids:full(0n)},
      found = await session.run(Object.fromEntries(session.inputNames.map(n => [n, given[n]])))
    return remember(known, key, Float64Array.from(found.logits.data.subarray(1, ids.length+1), x => 1/(1+Math.exp(-x))), 500)
  }
  return async function score(text, current = () => true) { // words {start, end, prob}; null if the text is no longer current
    const ids = [], words = []
    for (const m of text.matchAll(rule)) {
      const part = pieces.get(m[0]) ?? remember(pieces, m[0], encode(m[0]), 20000)
      if (!part.length) continue
      const start = m.index+m[0].length-m[0].trimStart().length
      words.push({start, end:m.index+m[0].length, first:ids.length})
      for (const i of part) ids.push(i)
    }
    const probs = new Float64Array(ids.length)
    for (const [start,stop,first,last] of windows(ids.length, size)) {
      if (!current()) return null
      const found = ids.length ? await read(ids.slice(start, stop)) : []
      for (let i = first; i<last; i++) probs[i] = found[i-start]
    }
    words.forEach((w, i) => { w.prob = Math.max(...probs.subarray(w.first, words[i+1]?.first ?? ids.length)) })
    return words
  }
}
