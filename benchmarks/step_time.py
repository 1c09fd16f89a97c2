"""Times the steps of workloads, each setting in a fresh process, and compares with PyTorch.

    python benchmarks/step_time.py --workload alexnet autoenc --mode train infer --threads 1

README.md in this folder explains what is measured.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytorch_programs import PROGRAMS, options
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from timing import record_of

from fathom import workloads
from fathom.cli.parser import Parser
from fathom.cli.terminal import console, import_tensorflow, run_command
from fathom.errors import FathomError
from fathom.options import MODES, PRECISIONS
from fathom.results.records import RunResult
from fathom.system.files import atomic_write

PROFILED_STEPS = 3
INPUT_SECONDS = 3.0
TABLE_WIDTH = 130  # columns; narrower terminals wrap lines, but truncate no figure


@dataclass(frozen=True)
class Setting:
    """The setting of one row of the table; ``batch_size`` None is the workload's default."""

    workload: str
    mode: str
    batch_size: int | None
    threads: int
    precision: str
    steps: int
    warmup: int
    hyperparameters: list[str]

    def __str__(self) -> str:
        batch = f"batch {self.batch_size}" if self.batch_size else "own batch"
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        words = [self.workload, self.mode + ",", batch + ",", threads + ",", self.precision]
        return " ".join([*words, *self.hyperparameters])


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
    add("--rounds", type=int, metavar="N", default=1, help="processes a setting; default: 1")
    add("--pytorch", metavar="PYTHON", help="interpreter with PyTorch: run the yardstick in turn")
    add("--pytorch-compile", action="store_true", help="use torch.compile there")
    add("--json", type=Path, metavar="FILE", help="write all figures to this file")
    chosen = parser.parse_args()
    numbers = [*(chosen.batch_size or []), *chosen.threads, chosen.warmup, chosen.rounds]
    if min(numbers) < 1 or chosen.steps < 2:
        parser.error("give at least 2 steps, and at least 1 of everything else")
    if chosen.json and not chosen.json.absolute().parent.is_dir():
        parser.error(f"--json {chosen.json}: there is no such folder")
    return chosen


# -------------------------------------------------------------------------- one measuring process


def measure(setting: Setting) -> dict[str, Any]:
    """Measures a setting in this process: the steps first, then all that could disturb them."""
    import_tensorflow()
    from fathom.characterize.profile import xplane
    from fathom.system.device import gemm_rate

    model = workloads.load(setting.workload, forward_only=setting.mode == "infer")(
        init_options={
            "precision": setting.precision,
            "threads": setting.threads,
            **({"batch_size": setting.batch_size} if setting.batch_size else {}),
            **dict(pair.split("=", 1) for pair in setting.hyperparameters),
        }
    )
    model.setup()
    step, batch, result = held_step(model)
    peaks = [gemm_rate(model.device, setting.precision)]
    times = record_of(step, setting.steps, setting.warmup)
    peaks.append(gemm_rate(model.device, setting.precision))
    cost = result.cost
    flops = {
        "train": cost.training_flops_per_example,
        "infer": cost.forward_flops_per_example,
    }
    outside = None
    if model.xla != "step":  # a compiled step is one op
        outside = xplane.trace(step, PROFILED_STEPS).outside_share
    return {
        "batch_size": result.hyperparameters.batch_size,
        "pytorch_options": options(setting.workload, model, batch),
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

    With the batch held no input pipeline runs beside the steps and takes their cores.
    """
    met: list[tuple[Callable[..., object], tuple]] = []

    def keep(step: Callable[..., object], batch: tuple) -> object:
        met.append((step, batch))
        return step(*batch)

    result = model.run(runstep=keep, n_steps=model.steps_per_call, warmup=0)
    step, batch = met[0]
    return waiting(lambda: step(*batch)), batch, result


def waiting(function: Callable[[], object]) -> Callable[[], object]:
    """Returns a function that also waits until a GPU, where there is one, has finished."""
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        return function
    return lambda: (function(), tf.test.experimental.sync_devices())


def input_rate(model: Any) -> float:
    """Returns how many examples a second the input pipeline delivers while nothing else runs."""
    batches = model.inference_batches() if model.forward_only else model.training_batches(0)
    for _ in range(4):  # those read ahead while the pipeline started
        next(batches)
    delivered, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < INPUT_SECONDS or delivered < 4:
        next(batches)
        delivered += 1
    return delivered * model.steps_per_call * model.hyperparameters.batch_size / elapsed


# -------------------------------------------------------------------------- all of them, in turn


def run(chosen: argparse.Namespace) -> None:
    """Measures all settings, prints the table and writes the file.

    Raises:
        FathomError: a setting could not be measured; the others were.
    """
    settings = [
        Setting(*values, chosen.steps, chosen.warmup, chosen.set)
        for values in itertools.product(
            chosen.workload,
            chosen.mode,
            chosen.batch_size or [None],
            chosen.threads,
            chosen.precision,
        )
    ]
    screen = console()
    screen.print(f"{len(settings)} settings to measure, in {chosen.rounds} process(es) each")
    records: list[dict[str, Any]] = []
    failures: list[str] = []
    try:
        with progress_bar(screen) as bar:
            task = bar.add_task("", total=len(settings), left="")
            for setting in settings:
                try:
                    records.append(measure_setting(setting, chosen, bar, task))
                except FathomError as error:
                    failures.append(f"{setting}: {error}")
                    bar.console.print(f"failed: {failures[-1]}")
                bar.advance(task)
                bar.update(task, left=time_left(bar.tasks[0]))
    finally:
        if records:
            screen.width = max(screen.width, TABLE_WIDTH)
            screen.print(table(records))
        if chosen.json:
            with atomic_write(chosen.json) as temporary:
                temporary.write_text(json.dumps(records, indent=1) + "\n")
            screen.print(f"figures: {chosen.json}")
    if failures:
        raise FathomError(f"{len(failures)} of {len(settings)} settings failed, see above")


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


def measure_setting(
    setting: Setting, chosen: argparse.Namespace, bar: Progress, task: Any
) -> dict[str, Any]:
    """Measures Fathom and PyTorch in turn, round after round, and returns the record.

    Raises:
        FathomError: a process failed.
    """
    compared = chosen.pytorch and setting.workload in PROGRAMS and setting.precision == "float32"
    ours, theirs = [], []
    for _ in range(chosen.rounds):
        bar.update(task, description=f"{setting}: Fathom")
        ours.append(child([sys.executable, __file__, "--child", json.dumps(asdict(setting))]))
        if compared:
            bar.update(task, description=f"{setting}: PyTorch")
            theirs.append(child(pytorch_command(setting, ours[-1], chosen)))
    record = summary(setting, ours, theirs)
    bar.console.print(f"{setting}: {1e3 * record['median_seconds']:,.2f} ms a step")
    return record


def pytorch_command(
    setting: Setting, ours: dict[str, Any], chosen: argparse.Namespace
) -> list[str]:
    """Returns the command that measures the same setting with PyTorch, up to the output's name."""
    name = PROGRAMS[setting.workload]
    which = ["--workload", setting.workload] if name == "pytorch_networks.py" else []
    return [
        *(chosen.pytorch, str(Path(__file__).with_name(name)), *which, "--mode", setting.mode),
        *("--batch-size", str(ours["batch_size"]), *ours["pytorch_options"]),
        *("--threads", str(setting.threads), "--steps", str(setting.steps)),
        *("--warmup", str(setting.warmup), *["--compile"] * chosen.pytorch_compile, "--json"),
    ]


def child(command: list[str]) -> dict[str, Any]:
    """Runs a measuring process, whose last argument is the file it writes, and returns its record.

    Raises:
        FathomError: it failed, with its last words.
    """
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "record.json"
        try:
            done = subprocess.run([*command, str(output)], capture_output=True, text=True)
        except OSError as error:
            raise FathomError(f"cannot run {command[0]}: {error.strerror}") from error
        if done.returncode:
            words = done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"]
            raise FathomError(words[-1])
        return json.loads(output.read_text())


def summary(setting: Setting, ours: list[dict], theirs: list[dict]) -> dict[str, Any]:
    """Returns the figures of a setting, over the steps of all its rounds."""
    seconds, processor = pooled(ours, "step_seconds"), pooled(ours, "processor_seconds")
    median = statistics.median(seconds)
    quartiles = statistics.quantiles(seconds, n=4, method="inclusive")
    last = ours[-1]
    achieved = last["flops_per_example"] * last["batch_size"] / median
    gemm = max(record["gemm_flops_per_second"] for record in ours)
    record = {
        **asdict(setting),
        **last,
        "step_seconds": seconds,
        "processor_seconds": processor,
        "median_seconds": median,
        "median_processor_seconds": statistics.median(processor),
        "iqr_seconds": quartiles[2] - quartiles[0],
        "flops_per_second": achieved,
        "gemm_flops_per_second": gemm,
        "fraction": achieved / gemm,
        "input_examples_per_second": max(r["input_examples_per_second"] for r in ours),
        "pytorch": theirs,
        "pytorch_over_fathom": None,
        "pytorch_over_fathom_of_processor": None,
    }
    if theirs:
        yardstick = statistics.median(pooled(theirs, "step_seconds"))
        record["pytorch_over_fathom"] = yardstick / median
        yardstick = statistics.median(pooled(theirs, "processor_seconds"))
        record["pytorch_over_fathom_of_processor"] = yardstick / statistics.median(processor)
    return record


def pooled(records: list[dict[str, Any]], name: str) -> list[float]:
    """Returns the times of the steps of all rounds."""
    return [time for record in records for time in record[name]]


def table(records: list[dict[str, Any]]) -> Table:
    """Returns the table that a person reads."""
    view = Table(box=SIMPLE, padding=(0, 1, 0, 0), caption="README.md explains the columns")
    for name in ("workload", "mode"):
        view.add_column(name, no_wrap=True)
    numbers = ["batch", "threads", "precision", "step ms", "IQR", "processor\nms", "outside\nops"]
    numbers += ["GFLOP/s", "of GEMM\npeak", "input\nexamples/s"]
    if any(record["pytorch"] for record in records):
        numbers += ["PyTorch/\nFathom", "by\nprocessor"]
    for name in numbers:
        view.add_column(name, justify="right", no_wrap=True)
    for r in records:
        outside = r["time_outside_ops"]
        row = [
            *(r["workload"], r["mode"], str(r["batch_size"]), str(r["threads"]), r["precision"]),
            f"{1e3 * r['median_seconds']:,.2f}",
            f"{r['iqr_seconds'] / r['median_seconds']:.1%}",
            f"{1e3 * r['median_processor_seconds']:,.2f}",
            "XLA" if outside is None else f"{outside:.1%}",
            f"{r['flops_per_second'] / 1e9:,.1f}",
            f"{r['fraction']:.2f}",
            f"{r['input_examples_per_second']:,.0f}",
        ]
        if r["pytorch"]:
            ratios = r["pytorch_over_fathom"], r["pytorch_over_fathom_of_processor"]
            row += [f"{ratio:.2f}" for ratio in ratios]
        view.add_row(*row)
    return view


if __name__ == "__main__":
    main()
