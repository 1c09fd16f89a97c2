"""Times the steps of workloads, each setting in a fresh process, and compares with other libraries.

    python benchmarks/step_time.py --workload alexnet autoenc --mode train infer --threads 1

README.md in this folder explains what is measured.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peers import INSTRUCTIONS, CannotRunError, Peer, child, options, peers
from rich.console import Console
from rich.progress import Progress, Task, TextColumn, TimeElapsedColumn
from step_table import best_peer, markdown, table
from timing import FEWEST_STEPS, record_of

from fathom import workloads
from fathom.cli.parser import Parser
from fathom.cli.terminal import console, import_tensorflow, run_command
from fathom.errors import FathomError
from fathom.options import MODES, PRECISIONS
from fathom.results.records import RunResult
from fathom.system.files import atomic_write, read_file

PROFILED_STEPS = 3  # fewer where they take too long
INPUT_SECONDS = 3.0
TABLE_WIDTH = 130  # columns; narrower terminals wrap lines, but truncate no figure


@dataclass(frozen=True)
class Setting:
    """The setting of one row of the table, and how long it is measured.

    Attributes:
        batch_size: None is the workload's default.
        isa: None is all that the processor has.
        steps, warmup, seconds: of ``timing.record_of``.
    """

    workload: str
    mode: str
    batch_size: int | None
    threads: int
    precision: str
    hyperparameters: list[str]
    isa: str | None
    steps: int
    warmup: int
    seconds: float

    @property
    def row(self) -> list[object]:
        """What a row is known by: everything but how long it is measured."""
        return list(asdict(self).values())[:-3]

    def __str__(self) -> str:
        batch = f"batch {self.batch_size}" if self.batch_size else "own batch"
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        words = [self.workload, self.mode + ",", batch + ",", threads + ",", self.precision]
        return " ".join([*words, *self.hyperparameters, *([self.isa] if self.isa else [])])


def main() -> None:
    """Measures what the command line asks for."""
    if sys.argv[1:2] == ["--child"]:
        setting, output = Setting(**json.loads(sys.argv[2])), Path(sys.argv[3])
        run_command("step_time", lambda: output.write_text(json.dumps(measure(setting))))
    chosen = command_line()
    run_command("step_time", lambda: run(chosen))


def command_line() -> argparse.Namespace:
    """Reads the command line."""
    parser = Parser(description="Times the steps of Fathom's workloads, one process a setting.")
    add = parser.add_argument
    eight = list(workloads.EIGHT)
    add(
        "--workload", nargs="+", choices=workloads.names(), default=eight, help="default: the eight"
    )
    add("--mode", nargs="+", choices=MODES, default=MODES, help="default: both")
    add("--batch-size", nargs="+", type=int, metavar="B", help="default: the workload's own")
    add("--threads", nargs="+", type=int, metavar="N", default=[1], help="default: 1")
    add("--precision", nargs="+", choices=PRECISIONS, default=["float32"], help="default: float32")
    add("--set", nargs="+", metavar="NAME=VALUE", default=[], help="hyperparameters")
    add("--steps", type=int, metavar="N", default=20, help="timed in a process; default: 20")
    add("--warmup", type=int, metavar="N", default=3, help="steps before them; default: 3")
    add("--seconds", type=float, metavar="S", default=60.0, help="no step after them; default: 60")
    add("--rounds", type=int, metavar="N", default=1, help="processes a setting; default: 1")
    add("--isa", choices=INSTRUCTIONS, help="leave newer instructions of the processor unused")
    add("--pytorch", metavar="PYTHON", help="interpreter with PyTorch, eager and compiled")
    add("--jax", metavar="PYTHON", help="interpreter with JAX")
    add("--json", type=Path, metavar="FILE", help="all figures; what it has is not measured again")
    add("--markdown", type=Path, metavar="FILE", help="the table for documents, of all in --json")
    args = parser.parse_args()
    numbers = [*(args.batch_size or []), *args.threads, args.warmup, args.rounds]
    if min(numbers) < 1 or args.steps < FEWEST_STEPS:
        parser.error(f"give at least {FEWEST_STEPS} steps, and at least 1 of everything else")
    for path in filter(None, (args.json, args.markdown)):
        if not path.absolute().parent.is_dir():
            parser.error(f"{path}: there is no such folder")
    return args


# -------------------------------------------------------------------------- one measuring process


def measure(setting: Setting) -> dict[str, Any]:
    """Measures a setting in this process: the steps first, then all that could disturb them."""
    import_tensorflow()
    from fathom.measure.profile import xplane
    from fathom.system.rates import gemm_ceiling

    workload = workloads.load(setting.workload, forward_only=setting.mode == "infer")
    quick = workload.characterization.quick_setting  # the same steps, with less before them
    model = workload(
        init_options={
            "precision": setting.precision,
            "threads": setting.threads,
            **({"batch_size": setting.batch_size} if setting.batch_size else {}),
            **dict(
                pair.split("=", 1) for pair in ([quick] if quick else []) + setting.hyperparameters
            ),
        }
    )
    model.setup()
    step, batch, result = held_step(model)
    peaks = [gemm_ceiling(model.device, setting.precision).rate]
    times = record_of(step, setting.steps, setting.warmup, setting.seconds)
    peaks.append(gemm_ceiling(model.device, setting.precision).rate)
    cost = result.cost
    flops = {
        "train": cost.training_flops_per_example,
        "infer": cost.forward_flops_per_example,
    }
    outside = None
    if model.xla != "step":  # a compiled step is one op
        longest = setting.seconds / statistics.median(times["step_seconds"])
        trace = xplane.trace(step, min(PROFILED_STEPS, 1 + int(longest)))
        outside = sum(trace.outside_seconds()) / sum(end - start for start, end in trace.steps)
    return {
        "batch_size": result.hyperparameters.batch_size,
        "options": options(setting.workload, model, batch),
        **{
            name: [each / model.steps_per_call for each in column] for name, column in times.items()
        },
        "flops_per_example": flops[setting.mode] * model.work(*batch),
        "gemm_flops_per_second": max(peaks),
        "time_outside_ops": outside,
        "input_examples_per_second": input_rate(model),
        "data": result.data.to_plain(),
        "environment": result.environment.to_plain(),
    }


def held_step(model: Any) -> tuple[Callable[[], object], tuple, RunResult]:
    """Returns the model's step on one batch that it keeps, that batch, and the result.

    With the batch held no input pipeline runs beside the steps and takes their cores. The step is
    the last of the run's: those before it are an agent's acting.
    """
    met: list[tuple[Callable[..., object], tuple]] = []

    def keep(step: Callable[..., object], batch: tuple) -> object:
        met.append((step, batch))
        return step(*batch)

    result = model.run(runstep=keep, n_steps=model.steps_per_call, warmup=0)
    step, batch = met[-1]
    return lambda: (step(*batch), model.device.synchronize()), batch, result


def input_rate(model: Any) -> float:
    """Returns how many examples a second the input pipeline delivers while nothing else runs."""
    batches = model.inference_batches() if model.forward_only else model.training_batches(0)
    for _ in range(4):  # those read ahead while the pipeline started
        next(batches)
    delivered, start = [], time.perf_counter()
    while (elapsed := time.perf_counter() - start) < INPUT_SECONDS or len(delivered) < 4:
        delivered.append(model.examples(*next(batches)))
    return sum(delivered) * model.steps_per_call * model.hyperparameters.batch_size / elapsed


# -------------------------------------------------------------------------- all of them, in turn


def run(args: argparse.Namespace) -> None:
    """Measures all settings, prints the table and writes the files.

    Raises:
        FathomError: a setting, or a peer of it, could not be measured; the others were.
    """
    settings = [
        Setting(*values, args.set, args.isa, args.steps, args.warmup, args.seconds)
        for values in itertools.product(
            args.workload,
            args.mode,
            args.batch_size or [None],
            args.threads,
            args.precision,
        )
    ]
    screen, results = console(), Results(args.json, args.markdown)
    missing = [s for s in settings if not results.has(s, compared(s, args))]
    screen.print(f"{len(missing)} settings to measure, in {args.rounds} process(es) each")
    failures: list[str] = []
    try:
        with progress_bar(screen) as bar:
            task = bar.add_task("", total=len(missing), left="")
            for setting in missing:
                try:
                    results.add(measure_setting(setting, args, bar, failures))
                except FathomError as error:
                    failures.append(f"{setting}: {error}")
                    bar.console.print(f"failed: {failures[-1]}")
                bar.advance(task)
                bar.update(task, left=time_left(bar.tasks[0]))
    finally:
        rows = [setting.row for setting in settings]
        if records := [r for r in results.records if Setting(**r["setting"]).row in rows]:
            screen.width = max(screen.width, TABLE_WIDTH)
            screen.print(table(records))
    if failures:
        raise FathomError(f"{len(failures)} measurements failed, see above")


class Results:
    """The records, in files that are written whenever there is another.

    Args:
        file: of the records; those that it has are kept.
        document: of their table.

    Raises:
        FathomError: the file has something else.
    """

    def __init__(self, file: Path | None, document: Path | None) -> None:
        self.records: list[dict[str, Any]] = []
        self._file, self._document = file, document
        if file and file.exists():
            try:
                self.records = json.loads(read_file(file))
                self._write()
            except (ValueError, TypeError, KeyError) as error:
                raise FathomError(f"{file} has no records of step_time.py: remove it") from error

    def has(self, setting: Setting, wanted: list[Peer]) -> bool:
        """Returns whether a setting was measured, with all the peers that can run it."""
        names = {peer.name for peer in wanted}
        return any(
            self._row(record) == setting.row and names <= {*record["peers"], *record["left_out"]}
            for record in self.records
        )

    def add(self, record: dict[str, Any]) -> None:
        """Adds a record, in the place of one of the same setting."""
        others = [each for each in self.records if self._row(each) != self._row(record)]
        self.records = [*others, record]
        self._write()

    @staticmethod
    def _row(record: dict[str, Any]) -> list[object]:
        return Setting(**record["setting"]).row

    def _write(self) -> None:
        texts = {self._file: json.dumps(self.records, indent=1) + "\n"}
        texts[self._document] = markdown(self.records)
        for path, text in texts.items():
            if path:
                with atomic_write(path) as temporary:
                    temporary.write_text(text)


def progress_bar(screen: Console) -> Progress:
    """Returns a progress bar with the current setting and the remaining time."""
    return Progress(
        TextColumn("{task.completed}/{task.total}  {task.description}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=screen,
        transient=True,
    )


def time_left(task: Task) -> str:
    """Estimates how long the rest will take from what is done."""
    minutes = task.elapsed / task.completed * (task.total - task.completed) / 60
    return f"{minutes:.0f} min left" if minutes > 1 else "a minute left"


def compared(setting: Setting, args: argparse.Namespace) -> list[Peer]:
    """Returns the peers that have a program for a setting."""
    if setting.precision != "float32":
        return []
    return [p for p in peers(args.pytorch, args.jax) if setting.workload in p.programs]


def measure_setting(
    setting: Setting, args: argparse.Namespace, bar: Progress, failures: list[str]
) -> dict[str, Any]:
    """Measures Fathom and its peers in turn, round after round, and returns the record.

    A peer that fails is left out from then on; unless it cannot run the setting, that is among the
    failures.

    Raises:
        FathomError: Fathom's process failed.
    """
    wanted, left_out = compared(setting, args), {}
    ours: list[dict[str, Any]] = []
    theirs: dict[str, list[dict[str, Any]]] = {peer.name: [] for peer in wanted}
    for _ in range(args.rounds):
        bar.update(bar.tasks[0].id, description=f"{setting}: Fathom")
        command = [sys.executable, __file__, "--child", json.dumps(asdict(setting))]
        ours.append(child(command, setting.isa))
        for peer in [peer for peer in wanted if peer.name in theirs]:
            bar.update(bar.tasks[0].id, description=f"{setting}: {peer.name}")
            try:
                theirs[peer.name].append(child(peer_command(peer, setting, ours[-1]), setting.isa))
            except FathomError as error:
                del theirs[peer.name]
                bar.console.print(f"{setting}: without {peer.name}: {error}")
                if isinstance(error, CannotRunError):
                    left_out[peer.name] = str(error)
                else:
                    failures.append(f"{setting}: {peer.name}: {error}")
    record = summary(setting, ours, theirs) | {"left_out": left_out}
    ratio, best = "", best_peer(record)
    if best:
        ratio = f"; {best} {record['peers'][best]['over_fathom']:.2f} times as long"
    bar.console.print(f"{setting}: {1e3 * record['median_seconds']:,.2f} ms a step{ratio}")
    return record


def peer_command(peer: Peer, setting: Setting, ours: dict[str, Any]) -> list[str]:
    """Returns the command that measures the same setting, up to the output's name."""
    return [
        *peer.command(setting.workload),
        *("--mode", setting.mode, "--batch-size", str(ours["batch_size"]), *ours["options"]),
        *("--threads", str(setting.threads), "--steps", str(setting.steps)),
        *("--warmup", str(setting.warmup), "--seconds", str(setting.seconds), "--json"),
    ]


def summary(
    setting: Setting, ours: list[dict[str, Any]], theirs: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """Returns the figures of a setting, over the steps of all its rounds."""
    seconds, processor = pooled(ours, "step_seconds"), pooled(ours, "processor_seconds")
    median, quartiles = (
        statistics.median(seconds),
        statistics.quantiles(seconds, method="inclusive"),
    )
    last = ours[-1]
    achieved = last["flops_per_example"] * last["batch_size"] / median
    gemm = max(record["gemm_flops_per_second"] for record in ours)
    return {
        **last,
        "setting": asdict(setting),
        "step_seconds": seconds,
        "processor_seconds": processor,
        "median_seconds": median,
        "median_processor_seconds": statistics.median(processor),
        "iqr_seconds": quartiles[2] - quartiles[0],
        "flops_per_second": achieved,
        "gemm_flops_per_second": gemm,
        "fraction": achieved / gemm,
        "input_examples_per_second": max(r["input_examples_per_second"] for r in ours),
        "peers": {
            name: comparison(records, median, statistics.median(processor))
            for name, records in theirs.items()
        },
    }


def comparison(
    records: list[dict[str, Any]], seconds: float, processor_seconds: float
) -> dict[str, Any]:
    """Returns a peer's records, and its times over Fathom's, by the clock and of the processor."""
    times = statistics.median(pooled(records, "step_seconds"))
    processor_times = statistics.median(pooled(records, "processor_seconds"))
    return {
        "library": records[-1]["library"],
        "over_fathom": times / seconds,
        "over_fathom_of_processor": processor_times / processor_seconds,
        "records": records,
    }


def pooled(records: list[dict[str, Any]], name: str) -> list[float]:
    """Returns the times of the steps of all rounds."""
    return [time for record in records for time in record[name]]


if __name__ == "__main__":
    main()
