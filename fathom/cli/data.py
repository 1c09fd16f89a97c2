"""``python -m fathom data``: list, fetch, synthesize, verify and convert data sets."""

import argparse

from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from fathom import workloads
from fathom.data.dataset import DataSet, fetched_directory, find, locate
from fathom.data.fetch import fetch, verify
from fathom.errors import FathomError
from fathom.options import Execution, unknown_option
from fathom.system.files import atomic_directory


def datasets() -> dict[str, type[DataSet]]:
    """Returns the data sets of the workloads by name."""
    classes = (workloads.load(name) for name in workloads.CLASSES)
    return {model.dataset.name: model.dataset for model in classes}


def run(chosen: argparse.Namespace, screen: Console) -> None:
    """Carries out the action that was chosen on the command line.

    Raises:
        FathomError: no such data set, or the action failed.
    """
    known = datasets()
    if chosen.action == "list":
        _list(known, screen)
        return
    if chosen.dataset not in known:
        raise unknown_option("data set", chosen.dataset, known)
    actions = {
        "fetch": _fetch,
        "synthesize": _synthesize,
        "verify": _verify,
        "convert": _convert,
    }
    actions[chosen.action](known[chosen.dataset], chosen, screen)


def _list(known: dict[str, type[DataSet]], screen: Console) -> None:
    table = Table(box=None, header_style="bold")
    for title in ("data set", "what it is", "licence", "fetched by us", "data now"):
        table.add_column(title)
    for name, dataset in known.items():
        source = find(dataset, None, seed=0)
        fetchable = "yes" if dataset.files else "no: see its home page"
        table.add_row(name, dataset.title, dataset.licence, fetchable, source.kind)
    screen.print(table)
    for name, dataset in known.items():
        screen.print(f"{name}: {dataset.home_page}; layout: {dataset.layout}")


def _fetch(dataset: type[DataSet], chosen: argparse.Namespace, screen: Console) -> None:
    directory = chosen.data_dir or fetched_directory(dataset)
    with Progress(console=screen, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def report(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = progress.add_task(file)
            progress.update(tasks[file], completed=done, total=total)

        fetch(dataset, directory, report)
    screen.print(f"{dataset.title} is in {directory}, and its files are verified")


def _synthesize(dataset: type[DataSet], chosen: argparse.Namespace, screen: Console) -> None:
    if chosen.data_dir is None:
        raise FathomError("synthesize needs --data-dir, the new folder to write")
    if chosen.data_dir.exists():
        raise FathomError(f"{chosen.data_dir} is already there: give a new folder")
    seed = Execution(seed=chosen.seed).seed  # which a run's data could have
    with atomic_directory(chosen.data_dir) as temporary:
        dataset.synthesize(temporary, seed)
    screen.print(f"synthetic {dataset.title}, seed {seed}, is in {chosen.data_dir}")


def _verify(dataset: type[DataSet], chosen: argparse.Namespace, screen: Console) -> None:
    source = find(dataset, chosen.data_dir, seed=0)
    if source.kind == "synthetic":
        raise FathomError(f"there is no {dataset.name} to verify: {source.reason}")
    directory = source.directory
    problems = verify(dataset, directory)
    if problems:
        raise FathomError(f"{dataset.title} in {directory}: {'; '.join(problems)}")
    checked = "every file is as its makers released it" if dataset.files else "it can be read"
    screen.print(f"{dataset.title} in {directory}: {checked}")


def _convert(dataset: type[DataSet], chosen: argparse.Namespace, screen: Console) -> None:
    if dataset.name != "imagenet":
        raise FathomError(f"{dataset.name} has no other form: convert imagenet")
    from fathom.imagenet.convert import convert

    source = locate(dataset, chosen.data_dir, seed=0)
    with Progress(console=screen, transient=True) as progress:
        task = progress.add_task("images")
        convert(
            source.directory,
            chosen.out,
            chosen.shards,
            lambda done, total: progress.update(task, completed=done, total=total),
        )
    screen.print(f"{dataset.title} of {source.directory} is in {chosen.out}, as TFRecord shards")
