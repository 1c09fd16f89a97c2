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
// The text of a mark appears at once by pointer, and by the keys left and right, which go through the marks of a figure.
const tip = document.body.appendChild(document.createElement("output"));
tip.className = "tip";
const show = mark => {
  document.querySelector(".marked")?.classList.remove("marked");
  tip.textContent = mark?.dataset.text ?? "";
  if (!mark) return;
  mark.classList.add("marked");
  const box = mark.getBoundingClientRect(), wide = document.documentElement.clientWidth;
  tip.style.left = `${Math.max(0, Math.min(box.left + scrollX, wide - tip.offsetWidth))}px`;
  tip.style.top = `${box.bottom + scrollY + 6}px`;
};
for (const picture of document.querySelectorAll("svg")) {
  const marks = [...picture.querySelectorAll("title")].map(title => {
    const mark = title.parentNode;
    mark.dataset.text = title.textContent;
    title.remove();  // the browser's own text would cover ours
    mark.onpointerenter = () => show(mark);
    mark.onpointerleave = () => show();
    return mark;
  });
  if (!marks.length) continue;
  let at = -1;
  picture.tabIndex = 0;
  picture.onblur = () => show();
  picture.onkeydown = event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (event.key === "Escape") show();
    if (!step) return;
    event.preventDefault();
    at = (at + step + marks.length) % marks.length;
    show(marks[at]);
  };
}
