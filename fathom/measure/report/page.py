"""The report as one self-contained HTML page."""

import base64
from collections.abc import Iterable
from html import escape
from numbers import Integral
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

_MOST_ROWS, _MOST_COLUMNS = 60, 16  # of a table that is open, and printed
_LEAST_P = 1e-4  # p values below it are not told apart
_NOTHING = 1e-12  # rounding errors of zero
_HERE = Path(__file__).parent
_STYLE, _SCRIPT = ((_HERE / name).read_text() for name in ("page.css", "page.js"))


def page(title: str, parts: Iterable[str]) -> str:
    """Returns a whole document; the parts are HTML, the title is plain text."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(parts) + f"\n<script>\n{_SCRIPT}</script>\n"
        "</body>\n</html>\n"
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


def download(content: bytes, name: str, text: str) -> str:
    """Returns a link that saves a JSON file, which is embedded in the page."""
    data = base64.b64encode(content).decode()
    link = f'download="{escape(name)}" href="data:application/json;base64,{data}"'
    return f"<p><a {link}>{escape(text)}</a></p>"


def table(content: pd.DataFrame, caption: str) -> str:
    """Returns a table that can be sorted and folded; a large one is folded, and not printed."""
    content = readable(content)
    kinds = [' class="number"' if is_number(content[name]) else "" for name in content]
    names = zip(content, kinds, strict=True)
    head = "".join(f"<th{kind}><button>{escape(str(name))}</button></th>" for name, kind in names)
    rows = "\n".join(_row(map(shown, row), kinds) for row in content.itertuples(index=False))
    is_small = len(content) <= _MOST_ROWS and len(content.columns) <= _MOST_COLUMNS
    folding = " open" if is_small else ""
    return (
        f"<details{folding}><summary>{escape(caption)} ({len(content)} rows)</summary>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def readable(content: pd.DataFrame) -> pd.DataFrame:
    """Returns a table whose p values are text, as none is 0."""
    texts = {
        name: content[name].map(lambda p: "<0.0001" if p < _LEAST_P else shown(p))
        for name in content.columns.intersection(["p", "p value"])
    }
    return content.assign(**texts)


def _row(cells: Iterable[str], kinds: Iterable[str]) -> str:
    each = zip(cells, kinds, strict=True)
    return f"<tr>{''.join(f'<td{kind}>{escape(cell)}</td>' for cell, kind in each)}</tr>"


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
    return f"{value:,}" if isinstance(value, Integral) else str(value)
