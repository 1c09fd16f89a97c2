"""The record of a run: one JSON document, described field by field in docs/results.md."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fathom.system import environment
from fathom.results import schemas
from fathom.system.files import atomic_write
from fathom.errors import FathomError
from fathom.results.steps import Steps

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel

SCHEMA = 1


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
    ended: str = "complete"  # or "interrupted", or the error that ended it early
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
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(_json_safe(self.to_plain()), indent=1) + "\n")


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
        FathomError: no such file, not a result, damaged, or of another schema version.
    """
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise FathomError(f"{path} is not a readable result file: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise FathomError(f"{path} is not a Fathom result of schema {SCHEMA}")
    schemas.check_result(document, str(path))
    return document


def _json_safe(value: Any) -> Any:
    """Replaces what JSON has no word for: NaN and infinities by null, NumPy's numbers by plain."""
    if isinstance(value, dict):
        return {key: _json_safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_safe(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
