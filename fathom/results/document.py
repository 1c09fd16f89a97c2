"""Generates documentation from the typed records: ``python -m fathom.results.document``.

Tables of fields are written into the pages of ``docs``, between ``<!-- fields of NAME -->`` and
``<!-- end -->``.
"""

import inspect
import re
from pathlib import Path

from fathom.results import distribution, schemas, steps
from fathom.results.base import Record

_MODULES = (*filter(inspect.ismodule, vars(schemas).values()), distribution, steps)
_TABLE = re.compile(r"(?<=<!-- fields of )(\w+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)


def pages(docs: Path) -> dict[Path, str]:
    """Returns the contents of each page with tables of fields."""
    return {path: _TABLE.sub(_table, path.read_text()) for path in sorted(docs.glob("*.md"))}


def _table(found: re.Match[str]) -> str:
    """Returns a table of fields, between its marks, as its record has them."""
    kinds = {
        kind.__name__: kind
        for module in _MODULES
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Record)
    }
    fields = kinds[found[1]].model_fields | kinds[found[1]].model_computed_fields
    rows = "".join(
        f"| `{field.alias or name}` | {field.description or ''} |\n"
        for name, field in fields.items()
    )
    # Markdown needs the empty lines.
    return f"{found[1]}{found[2]}\n| key | description |\n|---|---|\n{rows}\n"


def main() -> None:
    """Writes the pages in the checkout's ``docs``."""
    for path, text in pages(Path("docs")).items():
        path.write_text(text)


if __name__ == "__main__":
    main()
