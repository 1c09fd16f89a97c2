"""The report as one page of HTML that needs nothing else: pictures and style are in it."""

import base64
from collections.abc import Iterable
from html import escape

from fathom.characterize.report.analyses.table import Table, shown

_MOST_ROWS = 60  # of a table on the page; the CSV has them all
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
    """Returns links to files beside the page."""
    each = (f'<a href="{escape(name)}">{escape(name)}</a>' for name in files)
    return f"<p>Files: {', '.join(each)}</p>"


def picture(svg: bytes, description: str) -> str:
    """Returns a picture that is part of the page."""
    data = base64.b64encode(svg).decode()
    return f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(description)}">'


def table(content: Table, caption: str = "") -> str:
    """Returns a table; of a long one the first rows."""
    first = content.rows[0] if content.rows else content.columns
    head = "".join(
        f"<th{_kind(value)}>{escape(column)}</th>"
        for column, value in zip(content.columns, first, strict=True)
    )
    rows = "\n".join(
        f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in content.rows[:_MOST_ROWS]
    )
    more = len(content.rows) - _MOST_ROWS
    rest = paragraph(f"{more} more rows are in the file.") if more > 0 else ""
    title = f"<h3>{escape(caption)}</h3>" if caption else ""
    return f'{title}<div class="scroll"><table><tr>{head}</tr>\n{rows}</table></div>{rest}'


def _cell(value: object) -> str:
    return f"<td{_kind(value)}>{escape(shown(value))}</td>"


def _kind(value: object) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return ' class="number"' if number else ""
