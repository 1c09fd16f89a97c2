"""The report as one self-contained HTML page."""

import base64
from collections.abc import Iterable
from html import escape
from typing import Any

import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

_MOST_ROWS = 60  # of a table on the page; the CSV has all rows
_NOTHING = 1e-12  # rounding errors of zero
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #111; max-width: 68rem; margin: 2rem auto;
       padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-top: 1px solid #bbb; padding-top: 1rem; }
nav a { margin-right: 1rem; white-space: nowrap; }
img { max-width: 100%; height: auto; display: block; margin: 1rem 0; }
p.finding { font-weight: 600; }
p.gap { border-left: 4px solid #D55E00; padding-left: .6rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; margin: .5rem 0; }
th, td { padding: .15rem .6rem; text-align: left; vertical-align: top; }
th { border-bottom: 1px solid #111; }
tr:nth-child(even) td { background: #f4f4f4; }
td { max-width: 20rem; overflow-wrap: break-word; }
.number { text-align: right; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
@media print {
  body { max-width: none; margin: 0; font-size: 11px; }
  nav { display: none; }
  img, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  table { font-size: 9px; }
  .scroll { overflow: visible; }
}
"""


def page(title: str, parts: Iterable[str]) -> str:
    """Returns a whole document.

    Args:
        title: plain text.
        parts: HTML, in order.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def contents(anchors: Iterable[tuple[str, str]]) -> str:
    """Returns links to headings: pairs of anchor and text."""
    links = (f'<a href="#{escape(anchor)}">{escape(text)}</a>' for anchor, text in anchors)
    return f"<nav>{' '.join(links)}</nav>"


def heading(anchor: str, text: str) -> str:
    """Returns a heading that a link can point to."""
    return f'<h2 id="{escape(anchor)}">{escape(text)}</h2>'


def paragraph(text: str, kind: str = "") -> str:
    """Returns a paragraph; the kind is ``finding``, ``gap`` or nothing."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def links(files: Iterable[str]) -> str:
    """Returns links to files next to the page."""
    each = (f'<a href="{escape(name)}">{escape(name)}</a>' for name in files)
    return f"<p>Files: {', '.join(each)}</p>"


def picture(svg: bytes, description: str) -> str:
    """Returns a picture embedded in the page."""
    data = base64.b64encode(svg).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(description)}">'


def table(content: pd.DataFrame, caption: str = "") -> str:
    """Returns a table, or the first rows of a long one."""
    kinds = [' class="number"' if is_number(content[name]) else "" for name in content]
    head = _row("th", content.columns, kinds)
    rows = "\n".join(
        _row("td", map(shown, row), kinds)
        for row in content.head(_MOST_ROWS).itertuples(index=False)
    )
    more = len(content) - _MOST_ROWS
    rest = paragraph(f"{more} more rows are in the file.") if more > 0 else ""
    title = f"<h3>{escape(caption)}</h3>" if caption else ""
    return f'{title}<div class="scroll"><table>{head}\n{rows}</table></div>{rest}'


def _row(tag: str, cells: Iterable[str], kinds: Iterable[str]) -> str:
    each = zip(cells, kinds, strict=True)
    return f"<tr>{''.join(f'<{tag}{kind}>{escape(cell)}</{tag}>' for cell, kind in each)}</tr>"


def is_number(column: pd.Series) -> bool:
    """Returns whether a column holds numbers, which are right-aligned."""
    return is_numeric_dtype(column) and not is_bool_dtype(column)


def shown(value: Any) -> str:
    """Returns a cell as human-readable text: at least three digits, a dash for missing values."""
    if pd.isna(value):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        value = value if abs(value) > _NOTHING else 0.0
        return f"{value:,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
