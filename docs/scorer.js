// What Sphinx's search puts first: a page for readers whose title has all words of the query, then other such pages.
var Scorer = {
  score: ([docname, title, anchor, descr, score]) => {
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const named = words.every(word => title.toLowerCase().includes(word));
    const guide = /^(howto|tutorials|explain)\//.test(docname) && !anchor;
    return score + (guide ? 3 : 0) + (guide && named ? 100 : 0);
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2
};
