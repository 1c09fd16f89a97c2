"""``fathom list``: the workloads.

Their descriptors need neither TensorFlow nor a network; a workload without one is built.
"""

import contextlib
import os
import pkgutil
import tempfile
from collections.abc import Sequence

from rich.console import Console

from fathom import workloads
from fathom.cli.terminal import absent, import_tensorflow, new_table
from fathom.core.data.dataset import DataSet, choose, state
from fathom.errors import FathomError, cause


def show(screen: Console) -> None:
    """Prints the workloads, and the reason for each registered one that cannot be used."""
    titles = ("workload", "network", "parameters", "MACs/example", "data set", "data now")
    table = new_table(titles, numbers=("parameters", "MACs/example"))
    broken = workloads.refused()
    for name in workloads.names():
        try:
            table.add_row(*_row(name))
        except Exception as error:  # whatever a package may raise
            broken = broken | {name: cause(error)}
    screen.print(table)
    screen.print("parameters and MACs: by default, with synthetic data")
    for name, reason in broken.items():
        screen.print(f"{name}: {reason}")


def _row(name: str) -> tuple[str, ...]:
    try:
        found = workloads.descriptor(name)
    except FathomError:
        return _row_of_model(name)
    datasets = [_dataset(each, reference) for each, reference in found.datasets.items()]
    return _cells(name, found.title, found.parameters, found.macs, datasets)


def _dataset(name: str, reference: str) -> type[DataSet]:
    """Returns a data set, or a stand-in of its name if its reader needs TensorFlow.

    No such set is fetched or packaged, so that its name is enough to find it.
    """
    try:
        with absent(("tensorflow",)):
            return pkgutil.resolve_name(reference)
    except ImportError:
        return type(name, (DataSet,), {"name": name})


def _row_of_model(name: str) -> tuple[str, ...]:
    """Builds a workload without a descriptor, with data in a temporary cache, to count it."""
    import_tensorflow()
    from unittest import mock  # slow to import

    model = workloads.load(name)("cpu")
    with tempfile.TemporaryDirectory() as new, mock.patch.dict(os.environ, FATHOM_CACHE_DIR=new):
        model.build()
    cost = model.cost()
    return _cells(name, model.title, cost.parameters, cost.forward_macs, model.datasets)


def _cells(
    name: str, title: str, parameters: int, macs: int, datasets: Sequence[type[DataSet]]
) -> tuple[str, ...]:
    dataset = datasets[0]
    with contextlib.suppress(FathomError):  # a folder cannot be read: its state says so
        dataset = choose(datasets, None, None)
    return name, title, f"{parameters:,}", f"{macs:,}", dataset.name, state(dataset)
