"""Imports run one way: no module imports one of a room above it, and none is in a circle.

Imports inside functions and under ``TYPE_CHECKING`` count: they only hide a circle.
"""

import ast
import graphlib
import importlib.util
from pathlib import Path

import pytest

import fathom
from fathom import workloads

ROOT = Path(fathom.__file__).parent
ROOMS = (  # from the lowest to the highest
    *("errors", "options", "system", "results", "core", "hardware", "numbers", "model", "nn"),
    *("imagenet", "shared", "<workload>", "workloads", "exports", "measure", "cli", "testing"),
    "<command>",
)


def name_of(path):
    """Returns the name of the module in a file."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {
    name_of(path): path.read_text(encoding="utf-8")
    for path in ROOT.rglob("*.py")
    if "template" not in path.parts  # a package of its own, which fathom new writes
}
PACKAGES = {name_of(path) for path in ROOT.rglob("__init__.py")}


def imported_by(name):
    """Returns the modules of ours that a module imports anywhere in its text."""
    package = name if name in PACKAGES else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(SOURCES[name])):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(relative, package)
            modules = {f"{base}.{alias.name}" for alias in node.names}
            found |= (modules & SOURCES.keys()) or {base}
    return (found & SOURCES.keys()) - {name}


IMPORTS = {name: imported_by(name) for name in SOURCES}


def room(name):
    """Returns the room of a module; one that is run as a command belongs to no other."""
    entry = (*name.split("."), "")[1]
    if not entry or name.endswith("__main__") or '__name__ == "__main__"' in SOURCES[name]:
        return "<command>"
    return "<workload>" if entry in {*workloads.EIGHT, "modern"} else entry


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_a_module_imports_none_of_a_room_above(name):
    above = ROOMS[ROOMS.index(room(name)) + 1 :]
    assert [other for other in IMPORTS[name] if room(other) in above] == []


def test_no_workload_imports_another():
    workload = {
        name: name.removeprefix("fathom.modern.").removeprefix("fathom.").split(".")[0]
        for name in SOURCES
        if room(name) == "<workload>" and name != "fathom.shared.attention"  # shared by two
    }
    assert [
        f"{name} imports {other}"
        for name in workload
        for other in IMPORTS[name] & workload.keys()
        if workload[name] != workload[other]
    ] == []


def test_no_module_is_in_a_circle():
    graphlib.TopologicalSorter(IMPORTS).prepare()  # raises CycleError, which names the circle


def test_no_package_is_in_a_circle():
    packages: dict[str, set[str]] = {}
    for name, others in IMPORTS.items():
        package = (*name.split("."), "")[1]
        others = {(*other.split("."), "")[1] for other in others}
        packages.setdefault(package, set()).update(others - {package})
    graphlib.TopologicalSorter(packages).prepare()  # commands too: see ``room``


def test_the_package_has_a_dozen_rooms_beside_those_that_scripts_import():
    found = {path.stem for path in ROOT.iterdir() if not path.name.startswith("_")}
    assert len(found - {*workloads.EIGHT, "imagenet", "nn", "py"}) <= 15
