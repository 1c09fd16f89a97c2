"""The record of a run: one JSON document, described field by field in docs/results.md."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fathom import environment
from fathom.data.files import whole_file
from fathom.errors import FathomError

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel

SCHEMA = 1


@dataclass
class Steps:
    """Every step of a run, in order; times in seconds.

    Attributes:
        first: number of the first step, counted from 0 since the training began.
        warmup: how many of the steps are left out of the statistics.
        seconds: time in the step, input excluded.
        input_wait: time spent waiting for the step's batch.
        loss: the loss in training; None for an inference step or one that the hook skipped.
        work: the step's work over that of a batch of examples of the stated cost.
    """

    first: int
    warmup: int
    seconds: list[float] = field(default_factory=list)
    input_wait: list[float] = field(default_factory=list)
    loss: list[float | None] = field(default_factory=list)
    work: list[float] = field(default_factory=list)

    def add(self, seconds: float, input_wait: float, loss: float | None, work: float = 1.0) -> None:
        """Records one step."""
        self.seconds.append(seconds)
        self.input_wait.append(input_wait)
        self.loss.append(loss)
        self.work.append(work)

    @property
    def counted(self) -> np.ndarray:
        """Times of the steps after warm-up, float64 [steps - warmup], in seconds."""
        return np.array(self.seconds[self.warmup :])

    @property
    def median(self) -> float:
        """Median time of the counted steps, in seconds; NaN when there are none."""
        return float(np.median(self.counted)) if len(self.counted) else float("nan")

    @property
    def work_per_second(self) -> float:
        """Median rate of the counted steps, in batches of the stated cost a second; or NaN."""
        rates = self.work[self.warmup :] / self.counted
        return float(np.median(rates)) if len(rates) else float("nan")

    @property
    def mean_with_input(self) -> float:
        """Mean time of a counted step and the wait for its batch, in seconds; NaN without any."""
        waits = self.input_wait[self.warmup :]
        return float((self.counted + waits).mean()) if waits else float("nan")

    def to_plain(self) -> dict[str, Any]:
        """Returns the record and its statistics as plain data."""
        statistics: dict[str, Any] = {"median": None, "quantiles": None, "spread": None}
        if len(self.counted):
            quantiles = np.quantile(self.counted, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
            statistics = {
                "median": quantiles[2],
                "quantiles": dict(zip(("5%", "25%", "50%", "75%", "95%"), quantiles, strict=True)),
                "spread": (quantiles[3] - quantiles[1]) / quantiles[2] if quantiles[2] else None,
            }
        return {**dataclasses.asdict(self), **statistics}


@dataclass
class RunResult:
    """What a run did, where, with what, how fast and how well."""

    workload: str
    mode: str
    data: dict[str, Any]
    hyperparameters: dict[str, Any]
    seed: int
    environment: dict[str, Any]
    sections: dict[str, float | None]
    steps: Steps
    throughput: dict[str, Any]
    cost: dict[str, Any]
    memory: dict[str, int | None]
    metrics: dict[str, Any]
    schema: int = SCHEMA

    def to_plain(self) -> dict[str, Any]:
        """Returns the document as plain data, in the order of docs/results.md."""
        document = {"schema": self.schema}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            document[item.name] = value.to_plain() if isinstance(value, Steps) else value
        return document

    def write(self, path: Path) -> None:
        """Writes the document, whole or not at all.

        Raises:
            FathomError: the file cannot be written.
        """
        with whole_file(path) as temporary:
            temporary.write_text(json.dumps(_strict(self.to_plain()), indent=1) + "\n")


def record(model: "NeuralNetworkModel", steps: Steps) -> RunResult:
    """Gathers what a model's run did; an evaluation adds its metrics."""
    batch_size, cost = model.hyperparameters.batch_size, model.cost()
    macs = cost.forward_macs if model.forward_only else cost.training_macs
    return RunResult(
        workload=model.name,
        mode="infer" if model.forward_only else "train",
        data={
            "name": model.dataset.name,
            "directory": str(model.source.directory),
            "kind": model.source.kind,
            **model.describe_data(),
        },
        hyperparameters=dataclasses.asdict(model.hyperparameters),
        seed=model.execution.seed,
        environment=environment.describe(
            model.device, model.threads, model.execution.precision, model.xla
        ),
        sections={**model.sections, "wall": environment.process_age()},
        steps=steps,
        throughput={
            "example": model.example,
            "examples_per_second": batch_size / steps.median,
            "examples_per_second_with_input": batch_size / steps.mean_with_input,
            "flops_per_second": 2 * macs * batch_size * steps.work_per_second,
        },
        cost={
            "parameters": cost.parameters,
            "forward_macs_per_example": cost.forward_macs,
            "forward_flops_per_example": 2 * cost.forward_macs,
            "training_flops_per_example": 2 * cost.training_macs,
        },
        memory=environment.peak_memory(model.device),
        metrics={"history": model.history} if model.history else {},
    )


def read(path: Path) -> dict[str, Any]:
    """Reads a result document.

    Raises:
        FathomError: no such file, not a result, or of another schema version.
    """
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FathomError(f"{path} is not a readable result file: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise FathomError(f"{path} is not a Fathom result of schema {SCHEMA}")
    return document


def _strict(value: Any) -> Any:
    """Replaces what JSON has no word for: NaN and infinities by null, NumPy's numbers by plain."""
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
