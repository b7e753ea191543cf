// What Sphinx's search puts first: the page that a common word asks for, a page for readers whose title has all words of the query, then other such pages.
const askedFor = {
  "checkpoint": "howto/resume", "checkpoints": "howto/resume", "deterministic": "howto/resume", "reproducible": "howto/resume",
  "finetune": "tutorials/finetune_and_statistics", "fine-tune": "tutorials/finetune_and_statistics", "fine-tuning": "tutorials/finetune_and_statistics",
  "multi-gpu": "howto/several_processes", "ddp": "howto/several_processes", "distributed": "howto/several_processes", "torchrun": "howto/several_processes",
  "gpu": "howto/gpu", "cpu": "howto/cpu", "bf16": "howto/cpu", "cuda": "howto/gpu", "memory": "howto/gpu", "load model": "howto/export", "hub": "howto/export", "push to hub": "howto/export",
  "score": "howto/score", "zero-shot": "howto/score",
  "tags": "howto/tag_words", "ner": "howto/tag_words", "tensorboard": "lab/reports/tracking", "wandb": "lab/reports/tracking",
  "mask": "book/masking", "tokenizer": "tutorials/another_language", "learning rate": "book/recipe", "hyperparameters": "book/recipe"
};
var Scorer = {
  score: ([docname, title, anchor, descr, score]) => {
    const query = (new URLSearchParams(window.location.search).get("q") || "").toLowerCase().trim();
    const words = query.split(/\s+/).filter(Boolean);
    const named = words.every(word => title.toLowerCase().includes(word));
    const guide = /^(howto|tutorials|explain)\//.test(docname) && !anchor;
    const asked = askedFor[query] === docname && !anchor;
    return score + (guide ? 3 : 0) + (guide && named ? 100 : 0) + (asked ? 1000 : 0);
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2
};
