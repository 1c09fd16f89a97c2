"""Time to quality: epochs, steps and time until a metric reaches a target.

The question of Fathom's section on data sets (Adolf et al. 2016): a larger batch computes more
examples per second, but may need more of them.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fathom.errors import DivergedError, FathomError
from fathom.results.quality import Point, Training

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel


def train_until(
    model: "NeuralNetworkModel",
    metric: str,
    target: float,
    most_epochs: int,
    report: Callable[[int, float], None],
    higher_before: bool | None = None,
) -> tuple[Training, bool]:
    """Trains until a metric of the test data reaches a target.

    Args:
        model: after ``setup``.
        metric: a name in what ``model.evaluate`` returns.
        target: its value to reach.
        most_epochs: limit.
        report: receives the metric after each epoch, 0 for the untrained network's.
        higher_before: what earlier trainings returned; None: there are none.

    Returns:
        the training, and whether a higher value is better: the untrained network's is lower than
        the target.

    Raises:
        FathomError: there is no such metric or test data, or the untrained network's is no finite
            number, the target, or on the other side of it than before.
    """
    started = time.perf_counter()
    values = [_value(model, metric)]
    evaluating = time.perf_counter() - started
    report(0, values[0])
    if not _can_be_kept(values[0]):
        raise FathomError(f"the untrained network's {metric} is {values[0]}")
    if values[0] == target:
        raise FathomError(f"the untrained network's {metric} is {target:.5g} already")
    higher = values[0] < target
    if higher_before not in (None, higher):
        raise FathomError(
            f"the untrained networks of seed {model.execution.seed} and of those before are on "
            f"both sides of {metric}={target:g}: choose a target beyond all"
        )
    reached, failure = False, ""
    epochs: list[np.ndarray] = []  # seconds of each step
    compiled: list[np.ndarray] = []  # whether TensorFlow compiled in it
    while not reached and len(epochs) < most_epochs:
        try:
            model.run(n_steps=model.steps_per_epoch, warmup=0)
        except DivergedError as error:
            failure = str(error)
            break
        steps = model.steps
        first_call = [not epochs and call == 0 for call in steps.call]
        compiled.append(np.logical_or(first_call, steps.first_of_shape))
        epochs.append(np.add(steps.seconds, steps.input_wait))
        started = time.perf_counter()
        value = _value(model, metric)
        evaluating += time.perf_counter() - started
        report(len(epochs), value)
        if not _can_be_kept(value):
            failure = f"{metric} is {value}"
            break
        values.append(value)
        reached = value >= target if higher else value <= target
    if epochs:
        _leave_out_compilation(epochs, compiled)
    training = Training(
        seed=model.execution.seed,
        batch_size=model.hyperparameters.batch_size,
        replicas=model.strategy.num_replicas_in_sync if model.strategy else 1,
        learning_rate=getattr(model.hyperparameters, "learning_rate", None),
        reached=reached,
        failure=failure,
        evaluation_seconds=evaluating,
        curve=_curve(values, epochs),
    )
    return training, higher


def _leave_out_compilation(epochs: list[np.ndarray], compiled: list[np.ndarray]) -> None:
    """Sets the steps in which TensorFlow compiled to the median of the others."""
    usual = np.concatenate(epochs)[~np.concatenate(compiled)]
    if len(usual):
        for seconds, mask in zip(epochs, compiled, strict=True):
            seconds[mask] = np.median(usual)


def _curve(values: list[float], epochs: list[np.ndarray]) -> list[Point]:
    """Returns the metric with the epochs, steps and seconds before it."""
    steps = np.cumsum([0, *map(len, epochs)]).tolist()
    seconds = np.cumsum([0.0, *map(np.sum, epochs)]).tolist()
    return [
        Point(epoch=epoch, steps=steps[epoch], seconds=seconds[epoch], value=value)
        for epoch, value in enumerate(values)
    ]


def _can_be_kept(value: float) -> bool:
    """Returns whether a file holds it: ``Number`` of fathom/results/base.py."""
    return abs(value) < 1e100  # False for NaN


def _value(model: "NeuralNetworkModel", metric: str) -> float:
    from fathom.core.training import strategies  # after TensorFlow

    metrics = model.evaluate()
    if metric not in metrics:
        names = ", ".join(name for name in metrics if name != "examples")
        raise FathomError(f"{model.name} has no metric {metric}: it has {names}")
    return strategies.of_first(float(metrics[metric]))  # all workers stop alike
