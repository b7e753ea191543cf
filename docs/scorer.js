// What Sphinx's search puts first: pages whose head (title, summary, first paragraph; `heads` comes from the notebooks) has the words of the query.
const stem = word => word.length > 4 ? word.replace(/(?<=....)(ing|ed)$|(?<=...)s$/, "") : word;
const plain = text => " " + text.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean).map(stem).join(" ") + " ";
const ranks = [[/^tutorials\//, 60], [/^howto\//, 50], [/^explain\//, 20]]; // pages for readers come before modules
const parts = [[320, 200], [250, 150], [120, 50]]; // title, summary, paragraph: the query as a phrase, or each of its words
function inHead(docname, query) {
  const found = (heads[docname] || []).map((text, i) => {
    const here = plain(text);
    if (here.includes(query)) return parts[i][0] + (here.startsWith(query) ? 15 : 0);
    return query.trim().split(" ").every(word => here.includes(` ${word} `)) ? parts[i][1] : 0;
  });
  return Math.max(0, ...found);
}
var Scorer = {
  score: ([docname, title, anchor, descr, score]) => {
    const query = plain(new URLSearchParams(window.location.search).get("q") || "");
    const rank = ranks.find(([folder]) => folder.test(docname))?.[1] ?? 0;
    return score + (anchor || !query.trim() ? 0 : inHead(docname, query) + rank);
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2
};
