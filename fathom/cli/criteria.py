"""``fathom list --criteria``: what the Fathom paper chooses workloads by, in its two tables."""

from rich.console import Console
from rich.table import Table

from fathom import workloads
from fathom.cli.terminal import import_tensorflow, new_table
from fathom.errors import FathomError, cause
from fathom.model.descriptor import DOMAINS, STYLES, TASKS, Criteria


def show(screen: Console) -> None:
    """Prints the paper's Table II and its Table I, with a column for each workload.

    A workload without criteria is named.
    """
    known, missing = find()
    screen.print(_works(known))
    screen.print()
    screen.print(_features(known))
    for name, reason in missing.items():
        screen.print(f"{name}: {reason}")


def find() -> tuple[dict[str, Criteria], dict[str, str]]:
    """Returns the criteria by workload, and the reason for each workload without."""
    known, missing = {}, {**workloads.refused()}
    for name in workloads.names():
        try:
            known[name] = _criteria_of(name)
        except Exception as error:  # whatever a package may raise
            missing[name] = cause(error)
    return known, missing


def _criteria_of(name: str) -> Criteria:
    """Returns the criteria of a workload's descriptor, or else of its class."""
    try:
        found = workloads.descriptor(name).criteria
    except FathomError:
        import_tensorflow()
        found = workloads.load(name).criteria
    if found is None:
        raise FathomError("it has no criteria")
    return found


def _works(known: dict[str, Criteria]) -> Table:
    """Returns Table II: a row for each workload."""
    titles = ("workload", "year", "style", "layers", "learning task", "data set", "legacy")
    table = new_table(titles, ("year", "layers"), "Workloads (Table II)")
    for name, each in known.items():
        style, year, layers = ", ".join(each.styles), str(each.year), str(each.layers)
        table.add_row(name, year, style, layers, each.task, each.dataset, each.legacy)
    return table


def _features(known: dict[str, Criteria]) -> Table:
    """Returns Table I: a row for each feature, a cross for each workload that has it."""
    table = new_table(["feature"], title="Features (Table I)")
    for name in known:
        table.add_column(name, justify="center")
    for style in STYLES:
        table.add_row(style, *("x" if style in each.styles else "" for each in known.values()))
    table.add_row("layers", *(str(each.layers) for each in known.values()))
    for task in TASKS:
        table.add_row(task, *("x" if task == each.task else "" for each in known.values()))
    for domain in DOMAINS:
        table.add_row(domain, *("x" if domain == each.domain else "" for each in known.values()))
    return table
