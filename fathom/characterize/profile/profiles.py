"""The profile of one workload: where its steps' time went, as plain data."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fathom.errors import FathomError
from fathom.results import schemas
from fathom.system.files import atomic_write

if TYPE_CHECKING:
    from fathom.characterize.profile.xplane import OpEvent

SCHEMA = 2
PHASES = ("forward", "backward", "optimizer", "other")
_NANOSECOND_DIGITS = 9


@dataclass(frozen=True)
class OpTime:
    """The time of all ops of one type in one layer and phase.

    Attributes:
        type: the op type as TensorFlow's profiler names it; ``ops.paper_type`` gives the paper's.
        layer: the network's layer, or a role: ``loss``, ``optimizer``, ``network`` (between its
            layers), ``unknown``.
        phase: ``forward``, ``backward``, ``optimizer`` or ``other``.
        on: ``cpu`` or ``gpu``.
        seconds: float64 [steps]: self time in each step.
        count: occurrences a step, on average.
    """

    type: str
    layer: str
    phase: str
    on: str
    seconds: np.ndarray
    count: float


@dataclass(frozen=True)
class GpuTime:
    """What a GPU and its driver did in all profiled steps together, in seconds.

    Attributes:
        kernel_seconds: time of kernels on the GPU.
        api_seconds: time of calls to the driver and the runtime, on the host.
        memcpy_seconds: time of copies to, from and on the GPU.
    """

    kernel_seconds: float
    api_seconds: float
    memcpy_seconds: float


@dataclass(frozen=True)
class Profile:
    """The op profile of some steps of one workload; docs/characterization.md explains the choices.

    Attributes:
        workload, mode: name; ``train`` or ``infer``.
        batch_size, threads, device, precision: how it ran; threads are those inside an op.
        step_seconds: float64 [steps]: time of each step with the profiler on.
        unprofiled_step_seconds: float64 [any]: time of steps without it, in the same process.
        compiled_step_seconds: float64 [any]: those of the step as XLA compiles it, where that is
            the workload's default; a profile is of the ops one by one.
        outside_seconds: float64 [steps]: time of each step in which no op ran.
        work: float64 [steps]: of each step's batch, over that of a batch of the stated cost.
        ops: by type, layer and phase, the heaviest first.
        gpu: None without a GPU.
        cost: parameters and multiply-accumulates, and those of each layer.
        environment: that of the run, as in docs/results.md.
    """

    workload: str
    mode: str
    batch_size: int
    threads: int
    device: str
    precision: str
    step_seconds: np.ndarray
    unprofiled_step_seconds: np.ndarray
    compiled_step_seconds: np.ndarray
    outside_seconds: np.ndarray
    work: np.ndarray
    ops: tuple[OpTime, ...]
    gpu: GpuTime | None
    cost: Mapping[str, Any]
    environment: Mapping[str, Any]

    @property
    def steps(self) -> int:
        """How many steps were profiled."""
        return len(self.step_seconds)

    @property
    def op_seconds(self) -> float:
        """Self time of all ops in all steps."""
        return float(sum(op.seconds.sum() for op in self.ops))

    @property
    def outside_share(self) -> float:
        """The share of the steps' time in which no op ran, from 0 to 1."""
        return float(self.outside_seconds.sum() / self.step_seconds.sum())

    @property
    def overhead(self) -> float:
        """How much longer the median step takes with the profiler on, as a share of it without."""
        return float(np.median(self.step_seconds) / np.median(self.unprofiled_step_seconds) - 1)

    def seconds_by(self, *names: str) -> dict[tuple[str, ...], float]:
        """Returns the mean op time of a step by some of the fields of ``OpTime``, largest first."""
        totals: dict[tuple[str, ...], float] = {}
        for op in self.ops:
            key = tuple(getattr(op, name) for name in names)
            totals[key] = totals.get(key, 0.0) + float(op.seconds.mean())
        return dict(sorted(totals.items(), key=lambda item: -item[1]))

    def to_plain(self) -> dict[str, Any]:
        """Returns the document as plain data, in the order of docs/characterization.md."""
        document: dict[str, Any] = {"schema": SCHEMA}
        for field in fields(self):
            value = getattr(self, field.name)
            document[field.name] = _rounded(value) if isinstance(value, np.ndarray) else value
        document["steps"] = self.steps
        document["ops"] = [vars(op) | {"seconds": _rounded(op.seconds)} for op in self.ops]
        document["gpu"] = vars(self.gpu) if self.gpu else None
        return document

    @classmethod
    def from_plain(cls, document: Any, source: str, at: str = "") -> "Profile":
        """Reads what ``to_plain`` returned.

        Args:
            document: plain data.
            source: where it comes from, for error messages.
            at: the field of the file in which it stands; empty where it is all of the file.

        Raises:
            FathomError: it is no profile, of another schema, or damaged.
        """
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise FathomError(f"{source} holds no Fathom profile of schema {SCHEMA}")
        schemas.check(document, "profile", source, at)
        plain = _known_fields(cls, document)
        plain["ops"] = tuple(OpTime(**_known_fields(OpTime, op)) for op in document["ops"])
        plain["gpu"] = document["gpu"] and GpuTime(**_known_fields(GpuTime, document["gpu"]))
        profile = cls(**plain)
        profile._check(source)
        return profile

    def write(self, path: Path) -> None:
        """Writes the document, whole or not at all.

        Raises:
            FathomError: the file cannot be written.
        """
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(self.to_plain()) + "\n")

    def _check(self, source: str) -> None:
        lengths = {len(self.outside_seconds), len(self.work), *(len(op.seconds) for op in self.ops)}
        if lengths != {self.steps}:
            raise schemas.damaged(source, "the lists of its profile differ in their steps")


def add_up(
    steps: "list[list[OpEvent]]", place: Callable[[str], tuple[str, str]]
) -> tuple[OpTime, ...]:
    """Adds op events up by type, layer, phase and device, the heaviest first.

    Args:
        steps: the events of each step.
        place: returns layer and phase of the op of a name; see ``attribution.Attribution``.
    """
    seconds: dict[tuple[str, ...], np.ndarray] = {}
    counts: dict[tuple[str, ...], int] = {}
    for number, events in enumerate(steps):
        for event in events:
            key = (event.op_type, *place(event.name), "gpu" if event.on_gpu else "cpu")
            seconds.setdefault(key, np.zeros(len(steps)))[number] += event.self_s
            counts[key] = counts.get(key, 0) + 1
    ops = (OpTime(*key, each, counts[key] / len(steps)) for key, each in seconds.items())
    return tuple(sorted(ops, key=lambda op: -op.seconds.sum()))


def _rounded(numbers: np.ndarray) -> list[float]:
    return [round(float(number), _NANOSECOND_DIGITS) for number in numbers]


def _known_fields(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a dataclass, lists of numbers as float64; a file may have more."""
    plain = {field.name: document[field.name] for field in fields(kind)}
    lists = [field.name for field in fields(kind) if field.type is np.ndarray]
    return plain | {name: np.array(plain[name], np.float64) for name in lists}
