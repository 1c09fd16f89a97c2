"""The request of ``fathom characterize``, and its machine."""

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

from fathom import workloads
from fathom.characterize.measure import folder
from fathom.characterize.measure.plan import Request, powers_of_two
from fathom.errors import FathomError
from fathom.options import MODES, Characterization
from fathom.results.characterization import Machine, Probe
from fathom.results.records import Environment
from fathom.system.processes import run_python

_QUICK_REPEATS, _QUICK_WARMUP_RUNS = 2, 0
_REPEATS, _WARMUP_RUNS = 200, 10  # as in the Minsky paper
_QUICK_PROFILE_REPEATS, _PROFILE_REPEATS = 1, 3


def measure_machine(chosen: argparse.Namespace, out: Path, screen: Console) -> Request:
    """Measures the machine, writes ``machine.json``, and returns the request.

    Raises:
        FathomError: the folder is of another machine, or a device is not available.
    """
    screen.print("measuring the machine and preparing data")
    names = chosen.workloads or list(workloads.CLASSES)
    first = _machine(1, chosen.precision, names)
    devices = _devices(chosen.devices, first.gpus)
    cores = first.environment.cores_available
    threads = chosen.threads or powers_of_two(cores)
    if max(threads) > cores:
        screen.print(f"more threads than the {cores} cores of this machine: {max(threads)}")
    known = folder.read_machine(out)
    if known:
        _refuse_other_folder(known.environment, first.environment, out)
    rates = dict(known.gemm_flops_per_second) if known else {}
    rates["1"] = max(first.gemm_flops_per_second, rates.get("1", 0))
    for number in {*threads, cores} - set(map(int, rates)):
        rates[str(number)] = _machine(number, chosen.precision, []).gemm_flops_per_second
    _write_machine(out, known.environment if known else first.environment, rates)
    quick = (_QUICK_REPEATS, _QUICK_WARMUP_RUNS)
    repeats, warmup_runs = quick if chosen.quick else (_REPEATS, _WARMUP_RUNS)
    profile_repeats = _QUICK_PROFILE_REPEATS if chosen.quick else _PROFILE_REPEATS
    return Request(
        workloads={name: first.characterizations.get(name, Characterization()) for name in names},
        modes=chosen.modes or MODES,
        devices=devices,
        cores=cores,
        threads=threads,
        steps=chosen.steps,
        repeats=repeats if chosen.repeats is None else chosen.repeats,
        warmup_runs=warmup_runs if chosen.warmup_runs is None else chosen.warmup_runs,
        profile_repeats=chosen.profile_repeats or profile_repeats,
        precision=chosen.precision,
        batch_size=chosen.batch_size,
        quick=chosen.quick,
    )


def measure_again(out: Path, request: Request, screen: Console) -> None:
    """Times the matrix products again and keeps the maximum, which other load affects least."""
    screen.print("measuring the machine once more")
    known = folder.read_machine(out)
    if known is None:
        raise FathomError(
            f"{out / 'machine.json'} is missing: rerun the command to measure it again"
        )
    rates = {
        number: max(before, _machine(int(number), request.precision, []).gemm_flops_per_second)
        for number, before in known.gemm_flops_per_second.items()
    }
    _write_machine(out, known.environment, rates)


def _refuse_other_folder(known: Environment, here: Environment, out: Path) -> None:
    """Raises FathomError if a folder's runs are not comparable to those to be made here."""
    folder.refuse_other_machine(known, here, "this machine")
    for name, unit in (("precision", ""), ("cores_available", " cores")):
        if getattr(here, name) != getattr(known, name):
            raise FathomError(
                f"{out} was measured with {getattr(known, name)}{unit}, not "
                f"{getattr(here, name)}{unit}: measure into another --out"
            )


def _write_machine(out: Path, environment: Environment, rates: dict[str, float]) -> None:
    in_order = dict(sorted(rates.items(), key=lambda item: int(item[0])))
    machine = Machine(environment=environment, gemm_flops_per_second=in_order)
    machine.write(out / "machine.json")


def _machine(threads: int, precision: str, prepare: list[str]) -> Probe:
    """Runs ``fathom.characterize.measure.machine`` and returns its results."""
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "machine.json"
        command = ["-m", "fathom.characterize.measure.machine", f"--out={out}"]
        command += [f"--threads={threads}", f"--precision={precision}"]
        command += [f"--workloads={','.join(prepare)}"]
        failure = run_python(command, Path(temporary) / "log")
        if failure:
            raise FathomError(f"the machine cannot be measured: {failure}")
        return Probe.read(out)


def _devices(wanted: list[str] | None, gpus: int) -> list[str]:
    """Returns the devices as TensorFlow names them; default: the CPU, and a GPU if any."""
    if wanted is None:
        return ["/cpu:0"] + ["/gpu:0"] * (gpus > 0)
    if "gpu" in wanted and not gpus:
        raise FathomError(
            "device gpu is not available: TensorFlow sees no GPU on this machine; use --devices cpu"
            " or install fathom-workloads[gpu]"
        )
    return [f"/{name}:0" for name in wanted]
