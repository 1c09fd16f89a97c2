"""The request of ``fathom characterize``, and its machine."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fathom import workloads
from fathom.errors import FathomError
from fathom.measure.runs import folder
from fathom.measure.runs.plan import Request, powers_of_two
from fathom.options import MODES, Characterization, Mode
from fathom.results.characterization import Machine, Probe
from fathom.results.records import Environment
from fathom.system.device import CPU, GPU
from fathom.system.processes import run_python
from fathom.system.words import counted

# Default repeats, warm-up runs (both as in the Minsky paper), profile repeats and batch sizes.
_WHOLE = (200, 10, 3, [2**i for i in range(9)])
_QUICK = (2, 0, 1, [4**i for i in range(4)])
_CEILINGS = {  # of a machine, with the shares of the processor that they had
    "gemm_flops_per_second": "gemm_cpu_share",
    "triad_bytes_per_second": "triad_cpu_share",
}
_SAME_RATE = 0.1  # largest difference of the matrix products before and after the runs


@dataclass(frozen=True)
class Wanted:
    """The measurements that a user wants, before the machine is known.

    Attributes: as of ``plan.Request``, where None stands for a default that may depend on the
        machine, and ``batches`` for no sweep; an empty list for a sweep over the default sizes.
        Devices are named ``cpu`` or ``gpu``.

    Raises:
        FathomError: workers without a batch size, or an option of runs that are left out.
    """

    precision: str
    quick: bool
    workloads: Sequence[str] | None = None
    modes: Sequence[Mode] | None = None
    devices: Sequence[str] | None = None
    threads: Sequence[int] | None = None
    steps: int | None = None
    repeats: int | None = None
    warmup_runs: int | None = None
    profile_repeats: int | None = None
    batch_size: int | None = None
    batches: Sequence[int] | None = None
    workers: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.workers and self.batch_size is None:
            raise FathomError("--workers needs --batch-size, which the workers share")
        of_others = ("threads", "warmup_runs", "profile_repeats")
        if self.workers:
            self._refuse("--workers", "modes", "devices", *of_others)
        elif self.batches is not None:
            self._refuse("--batches", *of_others)
        elif self.modes == ["infer"]:
            self._refuse("--modes infer", "threads", "repeats", "warmup_runs")
        elif self.devices == ["gpu"]:
            self._refuse("--devices gpu", "threads")

    def _refuse(self, choice: str, *options: str) -> None:
        """Raises FathomError if an option of runs was given that a choice leaves out."""
        for name in options:
            if getattr(self, name) is not None:
                raise FathomError(
                    f"--{name.replace('_', '-')} has no effect with {choice}, which makes no such "
                    "runs: omit it"
                )


def measure_machine(wanted: Wanted, out: Path, screen: Console) -> Request:
    """Measures the machine, writes ``machine.json``, and returns the request.

    Raises:
        FathomError: the folder is of another machine, or a device is not available.
    """
    screen.print("measuring the machine and preparing data")
    names = wanted.workloads or list(workloads.EIGHT)
    first = _machine(1, wanted.precision, names)
    devices = _devices(wanted.devices, first.gpus)
    cores = first.environment.cores_available
    threads = wanted.threads or powers_of_two(cores)
    if max(threads) > cores:
        screen.print(f"more threads than the {cores} cores of this machine: {max(threads)}")
    known = folder.read_machine(out)
    if known:
        _refuse_other_folder(known.environment, first.environment, out)
    machine = known or Machine(environment=first.environment, gemm_flops_per_second={})
    machine = _with_probe(machine, "1", first)
    known_rates = {int(n) for n in machine.gemm_flops_per_second if machine.disturbed(n) is None}
    for number in {*threads, cores} - known_rates - {1}:
        machine = _with_probe(machine, str(number), _machine(number, wanted.precision, []))
    machine.write(out / "machine.json")
    repeats, warmup_runs, profile_repeats, sizes = _QUICK if wanted.quick else _WHOLE
    if wanted.workers or wanted.batches is not None:
        repeats = 1
    return Request(
        workloads={name: first.characterizations.get(name, Characterization()) for name in names},
        modes=wanted.modes or MODES,
        devices=devices,
        cores=cores,
        threads=threads,
        steps=wanted.steps,
        repeats=repeats if wanted.repeats is None else wanted.repeats,
        warmup_runs=warmup_runs if wanted.warmup_runs is None else wanted.warmup_runs,
        profile_repeats=wanted.profile_repeats or profile_repeats,
        precision=wanted.precision,
        batch_size=wanted.batch_size,
        quick=wanted.quick,
        batches=() if wanted.batches is None else wanted.batches or sizes,
        workers=wanted.workers or (),
    )


def measure_again(out: Path, request: Request, screen: Console) -> None:
    """Probes the machine again, keeps the best rates and prints the matrix products' both."""
    screen.print("measuring the machine once more")
    known = folder.read_machine(out)
    if known is None:
        raise FathomError(
            f"{out / 'machine.json'} is missing: rerun the command to measure it again"
        )
    machine = known
    for number in known.gemm_flops_per_second:
        machine = _with_probe(machine, number, _machine(int(number), request.precision, []))
    machine.write(out / "machine.json")
    for number, before in known.gemm_flops_per_second.items():
        probes = known.gemm_probes.get(number, (before,))
        _print_probes(number, probes[-1], machine.gemm_probes[number][-1], screen)
        if share := machine.disturbed(number):
            screen.print(
                f"warning: other processes took the processor from all of these ({share:.0%} of it "
                "was left): the report marks its ceilings; rerun the command to measure them again"
            )


def _print_probes(threads: str, before: float, after: float, screen: Console) -> None:
    """Prints the rates of the matrix product before and after the runs, in FLOP/s."""
    screen.print(
        f"large matrix product on {counted(int(threads), 'thread')}: "
        f"{before / 1e9:.1f} GFLOP/s before the runs, {after / 1e9:.1f} after"
    )
    if max(before, after) > (1 + _SAME_RATE) * min(before, after):
        screen.print(
            f"warning: they differ by {max(before, after) / min(before, after) - 1:.0%}: other "
            "load or another clock frequency; do not compare times of different runs"
        )


def _refuse_other_folder(known: Environment, here: Environment, out: Path) -> None:
    """Raises FathomError if a folder's runs are not comparable to those to be made here."""
    folder.refuse_other_machine(known, here, "this machine")
    for name, unit in (("precision", ""), ("cores_available", " cores")):
        if getattr(here, name) != getattr(known, name):
            raise FathomError(
                f"{out} was measured with {getattr(known, name)}{unit}, not "
                f"{getattr(here, name)}{unit}: measure into another --out"
            )


def _with_probe(machine: Machine, threads: str, probe: Probe) -> Machine:
    """Returns the machine with the best rates, which other load affects least."""
    probes = dict(machine.gemm_probes)
    probes[threads] = (*probes.get(threads, ()), probe.gemm_flops_per_second)
    rates: dict[str, Mapping[str, object]] = {"gemm_probes": probes}
    for name, share in _CEILINGS.items():
        better = getattr(probe, name) > getattr(machine, name).get(threads, 0)
        for each in (name, share) if better else ():
            rates[each] = getattr(machine, each) | {threads: getattr(probe, each)}
    in_order = {
        name: dict(sorted(values.items(), key=lambda item: int(item[0])))
        for name, values in rates.items()
    }
    return machine.model_copy(update=in_order)


def _machine(threads: int, precision: str, prepare: Sequence[str]) -> Probe:
    """Runs ``fathom.cli.probe`` and returns its results."""
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "machine.json"
        command = ["-m", "fathom.cli.probe", f"--out={out}"]
        command += [f"--threads={threads}", f"--precision={precision}"]
        command += [f"--workloads={','.join(prepare)}"] if prepare else []
        failure = run_python(command, Path(temporary) / "log")
        if failure:
            raise FathomError(f"the machine cannot be measured: {failure}")
        return Probe.read(out)


def _devices(wanted: Sequence[str] | None, gpus: int) -> list[str]:
    """Returns the devices as TensorFlow names them; default: the CPU, and a GPU if any."""
    if wanted is None:
        return [CPU.name] + [GPU.name] * (gpus > 0)
    if "gpu" in wanted and not gpus:
        raise FathomError(
            "device gpu is not available: TensorFlow sees no GPU on this machine; use --devices cpu"
            " or install fathom-workloads[gpu]"
        )
    return [f"/{name}:0" for name in wanted]
