"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, values) => Object.assign(document.createElement(tag), values);

  // Light and dark: what the reader chose here, else what the system says. A file may have no storage.
  const root = document.documentElement;
  const remember = value => { try { return value ? localStorage.setItem("theme", value) : localStorage.getItem("theme"); } catch { return null; } };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const theme = document.getElementById("theme");
  const label = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  if (["light", "dark"].includes(remember())) root.dataset.theme = remember();
  theme.hidden = false;
  theme.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; remember(root.dataset.theme); label(); });
  system.addEventListener("change", label);
  label();

  // Tables: a click on a head sorts, numbers with the largest first.
  // Versions: 1.10.0rc1, 1.10.0, 1.10.0-12-g0a1b2c3.
  const inOrder = text => text.replace(/\b(\d+(?:\.\d+)+)(?=-\d+-g|\s|$)-?/g, "$1zz");
  for (const table of all("table.sort")) {
    const body = table.tBodies[0];
    const heads = all("th", table.tHead).filter(head => head.textContent.trim());
    for (const head of heads) {
      const button = make("button", { type: "button", textContent: head.textContent });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const first = head.classList.contains("num") ? "descending" : "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        const order = head.getAttribute("aria-sort") === first ? other : first;
        heads.forEach(one => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const rows = [...body.rows].map((row, place) => {
          const cell = row.cells[head.cellIndex];
          return { row, place, key: cell.dataset.value ?? cell.textContent.trim() };
        });
        const compare = (a, b) => head.classList.contains("num") ? a - b : inOrder(a).localeCompare(inOrder(b), "en", { numeric: true });
        rows.sort((a, b) => sign * compare(a.key, b.key) || a.place - b.place);
        body.append(...rows.map(one => one.row));
      });
    }
  }

  // Search: every word has to be there; pressed buttons say which kinds are shown, none pressed means all.
  for (const tools of all(".tools")) {
    const target = document.getElementById(tools.dataset.for);
    const items = all(tools.dataset.items, target).map(node => ({ node, text: (node.title + " " + node.textContent).toLowerCase() }));
    const groups = all("[data-group]", target);
    const input = tools.querySelector("input");
    const buttons = all("button", tools);
    const shown = tools.querySelector(".shown");
    const show = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const kinds = buttons.filter(one => one.getAttribute("aria-pressed") === "true").map(one => one.dataset.kind);
      let number = 0;
      for (const { node, text } of items) {
        node.hidden = !(words.every(word => text.includes(word)) && (!kinds.length || kinds.some(kind => node.classList.contains(kind))));
        number += !node.hidden;
      }
      for (const group of groups) group.hidden = !group.querySelector(`${tools.dataset.items}:not([hidden])`);
      shown.textContent = number === items.length ? "" : `${number} of ${items.length}`;
    };
    tools.hidden = false;
    input.addEventListener("input", show);
    for (const one of buttons) {
      one.addEventListener("click", () => { one.setAttribute("aria-pressed", String(one.getAttribute("aria-pressed") !== "true")); show(); });
    }
    // A browser may bring back what was typed before the page was loaded again.
    show();
    tools.reset = () => { input.value = ""; buttons.forEach(one => one.setAttribute("aria-pressed", "false")); show(); };
  }

  // A link leads to its target even where that is folded or filtered away.
  const reveal = () => {
    const target = document.querySelector(":target");
    if (!target) return;
    const hidden = target.closest("[hidden]");
    if (hidden) all(".tools").filter(tools => document.getElementById(tools.dataset.for).contains(hidden)).forEach(tools => tools.reset());
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    if (target.matches("h2, section") === false) target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", reveal);
  reveal();

  for (const code of all(".again:not(.cut) > code")) {
    const button = make("button", { type: "button", className: "copy", textContent: "copy" });
    code.after(button);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "copied";
        setTimeout(() => { button.textContent = "copy"; }, 1500);
      } catch { getSelection().selectAllChildren(code); }
    });
  }
})();
