"""The report as one self-contained HTML page."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from numbers import Integral
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from fathom.system.words import counted

_MOST_ROWS, _MOST_COLUMNS = 60, 16  # of a table that is open, and printed
_LEAST_P = 1e-4  # p values below it are not distinguished
_NOTHING = 1e-12  # rounding errors of zero
_HERE = Path(__file__).parent
_STYLE, _SCRIPT = ((_HERE / name).read_text() for name in ("page.css", "page.js"))


def page(title: str, parts: Iterable[str]) -> str:
    """Returns a whole document; the parts are HTML, the title is plain text."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<main>\n<h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</main>\n"
        f"<script>\n{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def contents(sections: Mapping[str, Iterable[tuple[str, str]]]) -> str:
    """Returns links to headings: by the title of a section, pairs of anchor and text."""
    lists = []
    for title, anchors in sections.items():
        links = (f'<a href="#{escape(anchor)}">{escape(text)}</a>' for anchor, text in anchors)
        lists.append(f"<li>{escape(title)} {' '.join(links)}</li>")
    return f'<nav aria-label="Contents"><ul>{"".join(lists)}</ul></nav>'


def heading(anchor: str, text: str, level: int = 3) -> str:
    """Returns a heading that a link can point to."""
    return f'<h{level} id="{escape(anchor)}">{escape(text)}</h{level}>'


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
    kinds = [_kind(content[name]) for name in content]
    head = "".join(
        f'<th scope="col"{kind}><button>{escape(str(name))}</button></th>'
        for name, kind in zip(content, kinds, strict=True)
    )
    rows = "\n".join(_row(map(shown, row), kinds) for row in content.itertuples(index=False))
    is_small = len(content) <= _MOST_ROWS and len(content.columns) <= _MOST_COLUMNS
    folding = " open" if is_small else ""
    return (
        f"<details{folding}><summary>{escape(caption)} ({counted(len(content), 'row')})</summary>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f'<caption class="hidden">{escape(caption)}</caption><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def _kind(column: pd.Series) -> str:
    """Returns the class of a column's cells: numbers, or sentences, which need some width."""
    if is_number(column):
        return ' class="number"'
    return ' class="words"' if column.astype(str).str.contains(r"\s\S+\s").any() else ""


def _row(cells: Iterable[str], kinds: Sequence[str]) -> str:
    """Returns a row, whose first cell is its heading."""
    first, *others = (f"{kind}>{escape(cell)}" for kind, cell in zip(kinds, cells, strict=True))
    return f'<tr><th scope="row"{first}</th>{"".join(f"<td{each}</td>" for each in others)}</tr>'


def readable(content: pd.DataFrame) -> pd.DataFrame:
    """Returns a table whose p values are text, as none is 0."""
    texts = {
        name: content[name].map(lambda p: "<0.0001" if p < _LEAST_P else shown(p))
        for name in content.columns.intersection(["p", "p value"])
    }
    return content.assign(**texts)


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
        return f"{value:,.0f}" if 999.5 <= abs(value) < 1e6 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, Integral) else str(value)
