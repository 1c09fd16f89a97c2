"""``python -m fathom data``: list, fetch, synthesize, verify and convert data sets."""

import argparse
import contextlib

from rich.console import Console
from rich.progress import Progress

from fathom import options, workloads
from fathom.cli.terminal import import_tensorflow, new_table
from fathom.core.data.dataset import DataSet, fetched_directory, find, locate, state
from fathom.core.data.fetch import fetch
from fathom.errors import FathomError
from fathom.system.files import atomic_directory
from fathom.system.folders import new_folder


def datasets() -> tuple[dict[str, type[DataSet]], dict[str, str]]:
    """Returns the data sets of all workloads by name, and why a workload's are left out."""
    known: dict[str, type[DataSet]] = {}
    left_out = workloads.refused()
    for name in workloads.names():
        try:
            theirs = {dataset.name: dataset for dataset in workloads.load(name).datasets}
        except FathomError as error:
            left_out = left_out | {name: str(error)}
            continue
        for taken in [each for each in theirs if known.get(each, theirs[each]) != theirs[each]]:
            left_out = left_out | {name: f"its data set {taken} has the name of another"}
            del theirs[taken]
        known |= theirs
    return known, left_out


def find_dataset(name: str) -> type[DataSet]:
    """Returns the data set of this name; imports no workload after the first that has it.

    Raises:
        FathomError: there is none.
    """
    for workload in workloads.names():
        with contextlib.suppress(FathomError):  # of a package that cannot be used
            for dataset in workloads.load(workload).datasets:
                if dataset.name == name:
                    return dataset
    raise options.unknown_option("data set", name, datasets()[0])


def run(args: argparse.Namespace, screen: Console) -> None:
    """Runs the action that the command line names."""
    import_tensorflow()
    if args.action == "list":
        _list(*datasets(), screen)
        return
    dataset = find_dataset(args.dataset)
    actions = {"fetch": _fetch, "synthesize": _synthesize, "verify": _verify, "convert": _convert}
    actions[args.action](dataset, args, screen)


def _list(known: dict[str, type[DataSet]], left_out: dict[str, str], screen: Console) -> None:
    table = new_table(("data set", "what it is", "licence", "download", "data now"))
    for name, dataset in known.items():
        fetchable = f"fathom data fetch {name}" if dataset.files else "no, see below"
        table.add_row(name, dataset.title, dataset.licence, fetchable, state(dataset))
    screen.print(table)
    for name, dataset in known.items():
        screen.print(f"{name}: {dataset.home_page}; layout: {dataset.layout}")
    for name in workloads.names():
        with contextlib.suppress(FathomError):  # left out below
            if weights := workloads.descriptor(name).weights:
                screen.print(f"{name}, published weights: {weights}; --set weights=DIR")
    for name, reason in left_out.items():
        screen.print(f"the workload {name} is left out: {reason}")


def _progress(screen: Console) -> Progress:
    return Progress(console=screen, transient=True, disable=not screen.is_terminal)


class _Bar:
    """Shows the progress of pooch, which sets ``total``, in bytes; 0: not known."""

    def __init__(self, progress: Progress, title: str) -> None:
        self.total = 0
        self._progress, self._task = progress, progress.add_task(title, total=None)

    def update(self, n: int) -> None:
        """Adds ``n`` bytes."""
        self._progress.update(self._task, total=self.total or None, advance=n)

    def reset(self) -> None:
        """Restarts at 0."""
        self._progress.reset(self._task)

    def close(self) -> None:
        """Removes the bar."""
        self.reset()


def _fetch(dataset: type[DataSet], args: argparse.Namespace, screen: Console) -> None:
    directory = args.data_dir or fetched_directory(dataset)
    with _progress(screen) as progress:
        fetch(dataset, directory, _Bar(progress, dataset.name))
    screen.print(f"{dataset.title} is in {directory}, and its files are verified")


def _synthesize(dataset: type[DataSet], args: argparse.Namespace, screen: Console) -> None:
    if args.data_dir is None:
        raise FathomError("synthesize needs --data-dir, the new folder to write")
    new_folder(args.data_dir)
    seed = options.Execution(seed=args.seed).seed  # checked as for a run
    with atomic_directory(args.data_dir) as temporary:
        dataset.synthesize(temporary, seed)
    screen.print(f"synthetic {dataset.title}, seed {seed}, is in {args.data_dir}")


def _verify(dataset: type[DataSet], args: argparse.Namespace, screen: Console) -> None:
    source = find(dataset, args.data_dir, seed=0)
    if source.kind == "synthetic":
        raise FathomError(f"no {dataset.name} to verify: {source.reason}")
    assignments = (text.partition("=") for text in args.set)
    values = {name: value for name, _, value in assignments}
    with screen.status(f"reading {source.directory}"):
        result = dataset.verify(source.directory, options.build(dataset.Options, values), args.all)
    screen.print(f"{dataset.title} in {source.directory}: {result}")


def _convert(dataset: type[DataSet], args: argparse.Namespace, screen: Console) -> None:
    known = dataset.conversions()
    if args.to not in known:
        forms = f"known is {', '.join(known)}" if known else "it has no other form"
        raise FathomError(f"{dataset.name} cannot be converted to {args.to}: {forms}")
    new_folder(args.out)
    source = locate(dataset, args.data_dir, seed=0)
    with _progress(screen) as progress:
        task = progress.add_task(args.to)
        known[args.to](
            source.directory,
            args.out,
            args.shards,
            lambda done, total: progress.update(task, completed=done, total=total),
        )
    screen.print(f"{dataset.title} of {source.directory} is in {args.out}, as {args.to}")
