"""Generates documentation from the typed records: ``python -m fathom.results.document``.

Tables of fields are written into the pages of ``docs``, between ``<!-- fields of NAME -->`` and
``<!-- end -->``.
"""

import re
from pathlib import Path

from fathom.results import (
    atlas,
    characterization,
    description,
    distribution,
    formats,
    machine,
    nearest,
    profile,
    quality,
    records,
    serving,
    steps,
)
from fathom.results.base import Record

_PAGES = (
    *("results.md", "characterization.md", "profiling.md", "accelerators.md", "numbers.md"),
    *("distribution.md", "serving.md", "quality.md", "machine.md", "atlas.md", "coverage.md"),
)
_MODULES = (
    *(records, steps, profile, characterization, description),
    *(atlas, distribution, formats, machine, nearest, quality, serving),
)
_TABLE = re.compile(r"(?<=<!-- fields of )(\w+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)


def pages(docs: Path) -> dict[Path, str]:
    """Returns the contents of each page with tables of fields."""
    return {docs / name: _with_tables((docs / name).read_text()) for name in _PAGES}


def _with_tables(page: str) -> str:
    """Returns a page with its tables of fields regenerated."""
    return _TABLE.sub(lambda match: f"{match[1]}{match[2]}{_table(match[1])}", page)


def _table(name: str) -> str:
    kinds = {
        kind.__name__: kind
        for module in _MODULES
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Record)
    }
    rows = "".join(f"| `{field}` | {words} |\n" for field, words in _fields(kinds[name]).items())
    return f"\n| key | description |\n|---|---|\n{rows}\n"  # Markdown needs the empty lines


def _fields(kind: type[Record]) -> dict[str, str]:
    """Returns the descriptions of a record's fields and statistics by their names in the file."""
    fields = kind.model_fields | kind.model_computed_fields
    return {field.alias or name: field.description or "" for name, field in fields.items()}


def main() -> None:
    """Writes the pages in the checkout's ``docs``."""
    for path, text in pages(Path("docs")).items():
        path.write_text(text)


if __name__ == "__main__":
    main()
