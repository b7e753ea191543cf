// What Sphinx's search puts first: pages whose head (title, summary, first paragraphs; `heads` is made of the notebooks) has the words of the query.
const stem = word => word.length > 3 ? word.replace(/(?<=....)(ing|ed|es|e)$|(?<=...)s$/, "") : word;
const plain = text => " " + text.toLowerCase().replace(/\b(pre|fine)-(?=train|tun)/g, "$1").split(/[^\p{L}\p{N}]+/u).filter(word => word && !/^(an?|the|it)$/.test(word)).map(stem).join(" ") + " ";
const ranks = [[/^tutorials\//, 170], [/^howto\//, 150], [/^explain\//, 40], [/^(book|calls)\//, 15]]; // pages for readers come before modules, and the book before the lab
const parts = [[320, 200], [250, 150], [120, 50]]; // title, summary, paragraphs: the query as a phrase, or each of its words
function inHead(docname, query) {
  const rank = ranks.find(([folder]) => folder.test(docname))?.[1] ?? 0;
  const found = (heads[docname] || []).map((text, i) => {
    const here = plain(text), more = i < 2 ? rank : rank/2;
    if (here.includes(query)) return parts[i][0] + more + (i ? 0 : here === query ? 30 : here.startsWith(query) ? 15 : 0);
    return query.trim().split(" ").every(word => here.includes(` ${word} `)) ? parts[i][1] + more : 0;
  });
  return Math.max(0, ...found);
}
var Scorer = {
  score: ([docname, title, anchor, descr, score]) => {
    const query = plain(new URLSearchParams(window.location.search).get("q") || "");
    return score + (anchor || !query.trim() ? 0 : inHead(docname, query));
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2
};
