"use strict";
(function () {
  const contents = document.querySelector("details.contents");
  if (contents && window.matchMedia("(max-width: 700px)").matches) contents.open = false;

  function selectAndCopy(code) {
    const range = document.createRange();
    range.selectNodeContents(code);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  }
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", function () {
      const done = selectAndCopy(document.getElementById(button.dataset.copy));
      button.textContent = done ? "Copied" : "Selected: press Ctrl+C";
    });
  }

  function compare(x, y, numeric) {
    if (!numeric) return x.localeCompare(y);
    const [p, q] = [x, y].map((text) => parseFloat(text.replace(/,/g, "")));
    return isNaN(p) || isNaN(q) ? isNaN(q) - isNaN(p) : p - q; // what is missing comes last
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = Array.from(table.tHead.rows[0].cells);
    const body = table.tBodies[0];
    heads.forEach(function (head, column) {
      const numeric = head.classList.contains("n");
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", function () {
        const before = head.getAttribute("aria-sort") || (numeric ? "ascending" : "descending");
        const falling = before === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const text = (row) => row.cells[column].textContent.trim();
        const rows = Array.from(body.rows);
        rows.sort((a, b) => (falling ? -1 : 1) * compare(text(a), text(b), numeric));
        body.append(...rows);
      });
    });
  }
})();
