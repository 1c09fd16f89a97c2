"""What ``fathom characterize`` is asked for, and on which machine."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from fathom import workloads
from fathom.characterize.measure import folder
from fathom.characterize.measure.plan import Request, powers_of_two
from fathom.errors import FathomError
from fathom.options import unknown_option
from fathom.system.files import atomic_write
from fathom.system.processes import end_with_parent

MODES = ("train", "infer")
_QUICK_REPEATS, _QUICK_WARMUP_RUNS = 2, 0
_REPEATS, _WARMUP_RUNS = 200, 10  # those of the Minsky paper


def check(chosen: argparse.Namespace) -> None:
    """Refuses what cannot be measured.

    Raises:
        FathomError: an unknown workload, mode or device, or a number out of range.
    """
    for kind, known in (("workload", workloads.CLASSES), ("mode", MODES)):
        for name in _names(getattr(chosen, f"{kind}s")):
            if name not in known:
                raise unknown_option(kind, name, known)
    for name, minimum in (("steps", 1), ("batch_size", 1), ("repeats", 0), ("warmup_runs", 0)):
        value = getattr(chosen, name)
        if value is not None and value < minimum:
            option = name.replace("_", "-")
            raise FathomError(f"--{option} must be at least {minimum}, not {value}")
    if chosen.budget is not None and not chosen.budget > 0:
        raise FathomError(f"--budget is in minutes and must be above 0, not {chosen.budget}")
    _threads(chosen.threads)


def measure_machine(chosen: argparse.Namespace, out: Path, screen: Console) -> Request:
    """Measures the machine, writes ``machine.json``, and returns what is to be measured on it.

    Raises:
        FathomError: the folder is another machine's, or a device is not there.
    """
    screen.print("measuring the machine and preparing data")
    names = _names(chosen.workloads) or list(workloads.CLASSES)
    first = _machine(1, chosen.precision, names)
    devices = _devices(chosen.devices, first["gpus"])
    cores = first["environment"]["cores_available"]
    threads = _threads(chosen.threads) or powers_of_two(cores)
    if max(threads) > cores:
        screen.print(f"more threads than the {cores} cores of this machine: {max(threads)}")
    known = folder.read_machine(out) or {"gemm_flops_per_second": {}}
    if "environment" in known:
        _refuse_other_folder(known["environment"], first["environment"], out)
    rates = dict(known["gemm_flops_per_second"])
    rates["1"] = max(first["gemm_flops_per_second"], rates.get("1", 0))
    for number in {*threads, cores} - set(map(int, rates)):
        rates[str(number)] = _machine(number, chosen.precision, [])["gemm_flops_per_second"]
    _write_machine(out, known.get("environment", first["environment"]), rates)
    quick = (_QUICK_REPEATS, _QUICK_WARMUP_RUNS)
    repeats, warmup_runs = quick if chosen.quick else (_REPEATS, _WARMUP_RUNS)
    return Request(
        workloads=names,
        modes=_names(chosen.modes) or MODES,
        devices=devices,
        cores=cores,
        threads=threads,
        steps=chosen.steps,
        repeats=repeats if chosen.repeats is None else chosen.repeats,
        warmup_runs=warmup_runs if chosen.warmup_runs is None else chosen.warmup_runs,
        precision=chosen.precision,
        batch_size=chosen.batch_size,
        quick=chosen.quick,
    )


def measure_again(out: Path, request: Request, screen: Console) -> None:
    """Times the matrix products once more: the best rate is the one that nothing disturbed."""
    screen.print("measuring the machine once more")
    known = folder.read_machine(out)
    rates = known["gemm_flops_per_second"]
    for number, before in rates.items():
        again = _machine(int(number), request.precision, [])["gemm_flops_per_second"]
        rates[number] = max(before, again)
    _write_machine(out, known["environment"], rates)


def _refuse_other_folder(known: dict[str, Any], here: dict[str, Any], out: Path) -> None:
    """Raises FathomError where a folder's runs would not be like those to be made here."""
    folder.refuse_other_machine({"environment": known}, here, "this machine")
    for name, unit in (("precision", ""), ("cores_available", " cores")):
        if here[name] != known[name]:
            raise FathomError(
                f"{out} was measured with {known[name]}{unit}, not {here[name]}{unit}: measure "
                "into another --out"
            )


def _write_machine(out: Path, environment: dict[str, Any], rates: dict[str, float]) -> None:
    machine = {
        "schema": folder.SCHEMA,
        "environment": environment,
        "gemm_flops_per_second": dict(sorted(rates.items(), key=lambda item: int(item[0]))),
    }
    with atomic_write(out / "machine.json") as temporary:
        temporary.write_text(json.dumps(machine, indent=1) + "\n")


def _machine(threads: int, precision: str, prepare: list[str]) -> dict[str, Any]:
    """Runs ``fathom.characterize.measure.machine`` and returns what it found."""
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "machine.json"
        command = [sys.executable, "-m", "fathom.characterize.measure.machine", f"--out={out}"]
        command += [f"--threads={threads}", f"--precision={precision}"]
        command += [f"--workloads={','.join(prepare)}"]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            preexec_fn=end_with_parent,
        )
        if done.returncode:
            words = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise FathomError(f"the machine cannot be measured: {words[-1]}")
        return json.loads(out.read_text())


def _devices(wanted: str | None, gpus: int) -> list[str]:
    """Returns the devices as TensorFlow names them; default: the CPU, and a GPU if there is one."""
    if wanted is None:
        return ["/cpu:0"] + ["/gpu:0"] * (gpus > 0)
    for name in _names(wanted):
        if name not in ("cpu", "gpu"):
            raise FathomError(f"unknown device {name!r}: use cpu, gpu or cpu,gpu")
        if name == "gpu" and not gpus:
            raise FathomError(
                "device gpu is not there: TensorFlow sees no GPU on this machine; use --devices cpu"
                " or install fathom-workloads[gpu]"
            )
    return [f"/{name}:0" for name in _names(wanted)]


def _threads(wanted: str | None) -> list[int]:
    numbers = []
    for text in _names(wanted):
        if not text.isdecimal() or int(text) < 1:
            raise FathomError(f"--threads takes whole numbers from 1, such as 1,2,4; not {wanted}")
        numbers.append(int(text))
    return sorted(set(numbers))


def _names(text: str | None) -> list[str]:
    return list(dict.fromkeys(text.split(","))) if text else []
