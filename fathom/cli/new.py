"""``fathom new``: writes the package of a new workload, a small network to start from."""

import argparse
import keyword
import re
from pathlib import Path

from rich.console import Console

from fathom import workloads
from fathom.errors import FathomError
from fathom.system.files import atomic_directory
from fathom.system.folders import new_folder

_TEMPLATE = Path(__file__).with_name("template")
_NAME = "newcomer"  # of the workload in the template


def new_name(name: str) -> str:
    """Returns the name of a workload to be.

    Raises:
        FathomError: it is none, or taken.
    """
    reserved = keyword.iskeyword(name) or keyword.iskeyword(_class_name(name))
    if not workloads.is_name(name) or name.endswith("_") or reserved:  # pip takes no _ at the end
        raise FathomError(
            "a workload's name is of a-z, 0-9 and _, begins with a letter, does not end with _, "
            f"and is neither a word of Python nor a set of workloads, unlike {name!r}"
        )
    if name in workloads.names() or name in workloads.refused():
        raise FathomError(f"there is already a workload {name}: choose another name")
    code = "".join(path.read_text() for path in _TEMPLATE.rglob("*.py"))
    if name == "workloads" or re.search(rf"import .*\b{_class_name(name)}\b", code):
        raise FathomError(f"the package would hide what it needs itself: choose no {name}")
    return name


def run(args: argparse.Namespace, screen: Console) -> None:
    """Writes the package."""
    package = f"fathom-{args.name}"
    folder = new_folder(args.out or Path(package), "give a new folder with --out")
    with atomic_directory(folder) as temporary:
        for source in sorted(_TEMPLATE.rglob("*.*")):
            if source.is_file() and "__pycache__" not in source.parts:
                target = temporary / _renamed(str(source.relative_to(_TEMPLATE)), args.name)
                target.parent.mkdir(exist_ok=True)
                target.write_text(_renamed(source.read_text(), args.name))
    screen.print(
        f"the workload {args.name} is in {folder}; next:\n"
        f"  pip install -e '{folder}[test]'\n"
        f"  fathom run {args.name} --train --evaluate\n"
        f"  python -m fathom.testing {args.name}"
    )


def _renamed(text: str, name: str) -> str:
    """Replaces the template's name: in the workload's, and in that of its class."""
    return text.replace(_NAME, name).replace(_NAME.capitalize(), _class_name(name))


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
