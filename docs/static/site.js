// Furo does not scroll its sidebar: bring the current page into view, at once.
const sidebar = document.querySelector(".sidebar-scroll");
const current = sidebar?.querySelector(".sidebar-tree .current-page");
if (current) {
  const above = current.getBoundingClientRect().top - sidebar.getBoundingClientRect().top;
  sidebar.scrollBy({top: above - sidebar.clientHeight/2, behavior: "instant"});
}
// Tables of pandas: the names of the rows move up into the line of the columns, and words stand at the left.
const isNumber = text => /^([-+−]?[\d.,]+(e[-+]?\d+)?( ?[%±].*)?|NaN|None|True|False|[–-]?)$/i.test(text.trim());
for (const table of document.querySelectorAll("table.dataframe")) {
  const heads = [...table.tHead?.rows ?? []];
  const [columns, names] = heads.map(row => [...row.cells]);
  const named = names?.filter(cell => cell.textContent.trim()).length;
  if (heads.length === 2 && columns.length === names.length && named
      && names.every((cell, i) => Boolean(cell.textContent.trim()) === i < named && (i >= named || !columns[i].textContent.trim()))) {
    for (let i = 0; i < named; i++) columns[i].textContent = names[i].textContent;
    heads[1].remove();
  }
  const rows = [...table.tBodies].flatMap(body => [...body.rows].map(row => [...row.cells].filter(cell => cell.tagName === "TD")));
  const width = Math.max(0, ...rows.map(row => row.length));
  for (let i = 0; i < width; i++) {
    const column = rows.map(row => row[i]).filter(Boolean);
    if (column.every(cell => isNumber(cell.textContent))) continue;
    if (table.tHead?.rows.length === 1) column.push(columns[columns.length - width + i]);
    column.forEach(cell => cell?.classList.add("words"));
  }
  if (table.tHead?.rows.length === 1) columns.slice(0, columns.length - width).forEach(cell => cell.classList.add("words"));
}
