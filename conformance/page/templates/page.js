"use strict";
(() => {
  const table = document.getElementById("matrix");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const search = document.getElementById("search");
  const toggles = [...document.querySelectorAll("[data-outcome-toggle]")];
  const count = document.getElementById("count");
  const empty = document.getElementById("empty");
  const texts = new Map(rows.map(row => [row, row.textContent.toLowerCase()]));

  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = new Set(toggles.filter(t => t.getAttribute("aria-pressed") === "true").map(t => t.dataset.outcomeToggle));
    let shown = 0;
    for (const row of rows) {
      row.hidden = !wanted.has(row.dataset.outcome) || !words.every(word => texts.get(row).includes(word));
      shown += !row.hidden;
    }
    count.textContent = shown;
    empty.hidden = shown > 0;
  }

  function everything() {
    search.value = "";
    toggles.forEach(t => t.setAttribute("aria-pressed", "true"));
    show();
  }

  search.addEventListener("input", show);
  for (const toggle of toggles) {
    toggle.addEventListener("click", () => {
      toggle.setAttribute("aria-pressed", String(toggle.getAttribute("aria-pressed") !== "true"));
      show();
    });
  }

  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = row => row.cells[column].dataset.key ?? row.cells[column].textContent.trim();
      const sorted = rows.map((row, place) => [row, place]).sort(([a, i], [b, j]) =>
        (up ? 1 : -1) * key(a).localeCompare(key(b), "en", { numeric: true }) || i - j);
      body.append(...sorted.map(([row]) => row));
    });
  });

  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.previousElementSibling.textContent);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(button.previousElementSibling);
      }
    });
  }

  // A chip of the grid leads to a row that may be hidden.
  addEventListener("hashchange", () => {
    const row = document.getElementById(location.hash.slice(1));
    if (row && row.hidden) { everything(); row.scrollIntoView(); }
  });
  const open = [];
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("details.fold:not([open])")) { fold.open = true; open.push(fold); }
  });
  addEventListener("afterprint", () => { open.splice(0).forEach(fold => { fold.open = false; }); });
  show();
})();
