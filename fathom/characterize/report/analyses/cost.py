"""Work and traffic counted from the architecture, and the speed at which it is done: our own."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fathom.characterize.report.analyses.runs import device_kind
from fathom.characterize.report.analyses.table import Table
from fathom.options import PRECISIONS
from fathom.results.characterization import Machine, Run
from fathom.results.profile import Layer, Profile

_WEIGHT_BYTES = 4  # weights stay float32 in mixed precision


@dataclass(frozen=True)
class Work:
    """What one run computes, and how fast.

    Attributes:
        workload, mode, device: what ran.
        batch_size: examples a step.
        parameters: trainable values.
        macs: multiply-accumulates of an example's forward pass.
        flops: floating-point operations of an example in this mode, backward pass included.
        flops_per_second: achieved, at the median step.
        peak: rate of a large matrix product on as many threads; NaN where not measured.
    """

    workload: str
    mode: str
    device: str
    batch_size: int
    parameters: int
    macs: int
    flops: int
    flops_per_second: float
    peak: float

    @property
    def efficiency(self) -> float:
        """Achieved rate over the peak; NaN where the peak was not measured."""
        return self.flops_per_second / self.peak


@dataclass(frozen=True)
class Utilization:
    """The work of every workload, and the share of the machine's speed that it reaches."""

    works: tuple[Work, ...]

    def table(self) -> Table:
        """Returns one row a workload and mode: what the figure is drawn from."""
        return Table.of(
            {
                "workload": work.workload,
                "mode": work.mode,
                "device": work.device,
                "batch size": work.batch_size,
                "parameters": work.parameters,
                "forward MACs/example": work.macs,
                "FLOPs/example": work.flops,
                "achieved (FLOP/s)": work.flops_per_second,
                "peak (FLOP/s)": work.peak,
                "achieved/peak": work.efficiency,
            }
            for work in self.works
        )

    def summary(self) -> str:
        """Says in a sentence what this shows."""
        training = [
            f"{work.workload} {work.efficiency:.2f}"
            for work in self.works
            if work.mode == "train" and not np.isnan(work.efficiency)
        ]
        return (
            "Achieved FLOP/s of training over those of a large matrix product on the same threads: "
            f"{', '.join(training) or 'not measured'}."
        )


def efforts(runs: Iterable[Run], machine: Machine) -> Utilization:
    """Sets the work of each workload and mode in relation to its time.

    Args:
        runs: timing runs that are done; of equal ones the first counts.
        machine: of their folder. It has the rate of a large matrix product on the CPU, in one
            precision; runs in another or on a GPU have no peak.
    """
    works: dict[tuple[str, str, str], Work] = {}
    for run in runs:
        rate = run.result.throughput.flops_per_second
        if rate is not None:
            key = (run.workload, run.mode, run.device)
            works.setdefault(key, _work(run, rate, _peak(run, machine)))
    return Utilization(tuple(works.values()))


def _work(run: Run, rate: float, peak: float) -> Work:
    cost = run.result.cost
    training = run.mode == "train"
    return Work(
        workload=run.workload,
        mode=run.mode,
        device=run.device,
        batch_size=run.result.hyperparameters.batch_size,
        parameters=cost.parameters,
        macs=cost.forward_macs_per_example,
        flops=cost.training_flops_per_example if training else cost.forward_flops_per_example,
        flops_per_second=rate,
        peak=peak,
    )


def _peak(run: Run, machine: Machine) -> float:
    environment = run.result.environment
    same = machine.environment.precision == environment.precision
    if not same or device_kind(run.device) == "gpu":
        return np.nan
    return machine.gemm_flops_per_second.get(str(environment.threads), np.nan)


@dataclass(frozen=True)
class LayerWork:
    """Work and traffic of one layer in one step, and the time that it took.

    Attributes:
        workload, layer, kind: names; the kind is the layer's class.
        parameter_bytes: of its trainable values.
        activation_bytes: of its output, for a whole batch; where batches differ in length it is
            in proportion to their work, on average.
        macs: multiply-accumulates of an example's forward pass.
        flops: floating-point operations of a training step, forward and backward.
        seconds: mean time of its ops in a step, forward and backward; 0 where none was seen.
    """

    workload: str
    layer: str
    kind: str
    parameter_bytes: int
    activation_bytes: int
    macs: int
    flops: int
    seconds: float

    @property
    def flops_per_second(self) -> float:
        """Achieved rate; NaN where no time was seen."""
        return self.flops / self.seconds if self.seconds else np.nan


def layer_work(profile: Profile) -> tuple[LayerWork, ...]:
    """Sets each layer's counted work and traffic beside its time, for a training profile."""
    seconds = profile.seconds_by("layer")
    value_bytes = PRECISIONS[profile.precision].value_bytes
    examples = profile.batch_size * float(profile.work.mean())  # of the stated cost
    return tuple(
        LayerWork(
            workload=profile.workload,
            layer=layer.name,
            kind=layer.kind,
            parameter_bytes=_WEIGHT_BYTES * layer.parameters,
            activation_bytes=round(value_bytes * layer.activations * examples),
            macs=layer.macs,
            flops=round(2 * examples * layer.macs * _passes(layer)),
            seconds=seconds.get((layer.name,), 0.0),
        )
        for layer in profile.cost.layers
    )


def _passes(layer: Layer) -> int:
    """Returns the products of a training step for each one of the layer's forward pass."""
    return layer.forward_passes + (1 if layer.reads_input else 2)


def layer_work_table(works: Iterable[LayerWork]) -> Table:
    """Returns one row a layer."""
    return Table.of(
        {
            "workload": work.workload,
            "layer": work.layer,
            "kind": work.kind,
            "parameters (bytes)": work.parameter_bytes,
            "activations (bytes/step)": work.activation_bytes,
            "forward MACs/example": work.macs,
            "FLOPs/step": work.flops,
            "time a step (s)": work.seconds,
            "achieved (FLOP/s)": work.flops_per_second,
        }
        for work in works
    )
