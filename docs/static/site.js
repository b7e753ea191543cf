// Furo does not scroll its sidebar: bring the current page into view, at once.
const sidebar = document.querySelector(".sidebar-scroll");
const current = sidebar?.querySelector(".sidebar-tree .current-page");
if (current) {
  const above = current.getBoundingClientRect().top - sidebar.getBoundingClientRect().top;
  sidebar.scrollBy({top: above - sidebar.clientHeight/2, behavior: "instant"});
}
