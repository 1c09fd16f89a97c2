"""``fathom calibrate`` and ``fathom predict``: the time of steps that were not run."""

import argparse
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from fathom.cli.command import build_model
from fathom.cli.describe import step_of
from fathom.cli.terminal import duration, import_tensorflow, new_table
from fathom.errors import FathomError
from fathom.hardware.accelerators import machine as machines
from fathom.hardware.accelerators import prediction
from fathom.hardware.accelerators.machine import Machine
from fathom.results.calibration import StepTime
from fathom.system.words import counted

if TYPE_CHECKING:
    from fathom.results.records import Environment, RunResult

_PRECISION = "float32"


def calibrate(args: argparse.Namespace, screen: Console) -> None:
    """Measures this machine and writes its file."""
    import_tensorflow()
    from fathom.measure.runs import calibration
    from fathom.results import records
    from fathom.system import environment, processor, rates, threads
    from fathom.system.device import CPU

    threads.set_inter_op_threads(1)
    used = threads.set_threads(args.threads)
    processor.keep_freed_memory()  # as a run does
    ours = records.Environment.model_validate(environment.describe(CPU, used, _PRECISION, "off"))
    results = _timings(args, ours, screen) if args.folder else []
    screen.print("measuring operations alone, which takes a minute or two")
    with CPU.placement():
        found = calibration.measure(args.threads, _PRECISION)
    gemm, triad = rates.gemm_ceiling(CPU, _PRECISION, args.threads), rates.triad_ceiling()
    if results:
        screen.print("describing the steps that were measured")
        steps = tuple(calibration.steps(results, prediction.Rates(found)))
        found = found.model_copy(update={"steps": steps})
    measured = f"measured by fathom calibrate, {args.threads} thread(s)"
    Machine(
        title=f"{ours.cpu_model}, {args.threads} thread(s), calibrated",
        flops={_PRECISION: gemm.rate},
        bandwidth=triad.rate,
        memory_bytes=float(ours.memory_bytes),
        calibration=found,
        sources={
            "flops": f"{measured}: product of 2048 x 2048 x 2048",
            "bandwidth": "measured by fathom calibrate, 1 thread: triad of STREAM",
            "memory_bytes": "the operating system",
            "calibration": measured,
        },
    ).write(args.out)
    screen.print(
        f"{gemm.rate / 1e9:,.1f} GFLOP/s, {triad.rate / 1e9:,.1f} GB/s, "
        f"{1e6 * found.dispatch_seconds:.2f} us to start an operation"
    )
    if found.steps:
        _show_check(found.steps, screen)
    screen.print(f"written: {args.out}")


def run(args: argparse.Namespace, screen: Console) -> None:
    """Prints the predicted time of a step."""
    machine = machines.load(args.machine)
    calibration = prediction.calibration(machine)
    args.threads, args.precision = calibration.threads, calibration.precision
    model = build_model(args, args.infer)
    description = model.describe(args.length)
    ideal = prediction.Rates(calibration).ideal(description, model.xla, model.steps_per_call)
    found = prediction.predict(ideal, model.xla, args.workload, machine)
    screen.print(f"{step_of(description)}, on {machine.title}")
    rate = description.batch_size / found.seconds
    screen.print(f"{duration(found.seconds)} a step, {rate:,.4g} examples/s")
    low, high = duration(found.low), duration(found.high)
    screen.print(f"{prediction.COVERED:.0%} interval: {low} to {high}")
    screen.print(
        f"each operation alone: convolutions and products {duration(ideal.product_seconds)}, "
        f"others {duration(ideal.transfer_seconds)}, starting them "
        f"{duration(ideal.dispatch_seconds)}, calling the graph {duration(ideal.call_seconds)}; "
        f"XLA compiles: {model.xla}"
    )
    screen.print(f"corrected by measured steps of {found.workloads} other workloads")


def _timings(
    args: argparse.Namespace, ours: "Environment", screen: Console
) -> Sequence["RunResult"]:
    """Returns the timings of the folder that count, and prints how many do."""
    from fathom.measure.runs import calibration
    from fathom.measure.runs.folder import Folder

    folder = Folder.read(args.folder)
    theirs = _processor(folder.machine.environment)
    if theirs != _processor(ours):
        raise FathomError(f"{args.folder} was measured on {theirs}, and this is {_processor(ours)}")
    results, counted = calibration.taken(folder, args.threads, _PRECISION)
    screen.print(counted)
    return results


def _processor(environment: "Environment") -> str:
    return f"{environment.cpu_model}, {environment.cpu_generation}"


def _show_check(steps: Sequence[StepTime], screen: Console) -> None:
    """Prints what is predicted for each step without its workload."""
    if len({step.workload for step in steps}) <= prediction.FEWEST_WORKLOADS:
        screen.print("too few workloads for predictions")
        return
    numbers = ["batch", "measured", "predicted", "from", "to", "error"]
    table = new_table(["workload", "mode", *numbers], numbers)
    checked = prediction.check(steps)
    errors, inside = [], 0
    for step, found in checked:
        errors.append(found.seconds / step.seconds - 1)
        inside += found.low <= step.seconds <= found.high
        times = map(duration, (step.seconds, found.seconds, found.low, found.high))
        table.add_row(step.workload, step.mode, f"{step.batch_size}", *times, f"{errors[-1]:+.0%}")
    screen.print(table)
    if len(checked) < len(steps):
        rest = counted(len(steps) - len(checked), "step")
        screen.print(f"{rest}: too few others that XLA compiles, or does not, as these")
    screen.print(
        f"each predicted without its workload: median error "
        f"{statistics.median(map(abs, errors)):.0%}, {inside} of {len(checked)} steps within the "
        f"{prediction.COVERED:.0%} intervals"
    )
