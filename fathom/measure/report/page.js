// Sorts a table's rows by the column whose heading is clicked; missing numbers stay last.
for (const button of document.querySelectorAll("th button")) button.onclick = () => {
  const heading = button.parentElement, body = button.closest("table").tBodies[0];
  const sign = heading.ariaSort === "ascending" ? -1 : 1;
  for (const each of heading.parentElement.cells) each.ariaSort = null;
  heading.ariaSort = sign > 0 ? "ascending" : "descending";
  const text = row => row.cells[heading.cellIndex].textContent;
  const number = row => parseFloat(text(row).replaceAll(",", ""));
  body.append(...[...body.rows].sort((a, b) => {
    if (heading.className !== "number") return sign * text(a).localeCompare(text(b), "en");
    const [x, y] = [number(a), number(b)];
    return isNaN(x) - isNaN(y) || sign * (x - y);
  }));
};
