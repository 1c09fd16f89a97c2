"""Predicts the time of a step from its description and a calibrated machine.

Each operation takes as long as one of its kind and shape did alone (``ideal``). A step takes a
combination of these times: caches are shared, XLA fuses operations and spares their dispatch. Its
factors are positive and fitted to measured steps of other workloads, never of the one that is
predicted, as in Ernest (Venkataraman et al., NSDI 2016). The interval
is that of the errors which the fit makes for workloads that it has not seen (the jackknife).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from fathom.errors import FathomError
from fathom.hardware.accelerators.machine import Machine
from fathom.results.calibration import Calibration, Ideal, StepTime
from fathom.results.description import Description, Operation

COVERED = 0.9  # of intervals
FEWEST_WORKLOADS = 4  # besides the predicted one
# Limit of a factor and of its inverse: an operation takes longer beside others, or less where XLA
# fuses it, but not by orders of magnitude. Few steps may leave a factor open, which would drift.
_MOST = 10.0
_NEIGHBOURS = 4  # measured shapes that a rate is interpolated from
_PRODUCT_KINDS = {
    "convolution": "convolution",
    "matrix product": "matrix product",
    "recurrent product": "matrix product",
}


@dataclass(frozen=True)
class Prediction:
    """The predicted time of a step."""

    seconds: float  # the most likely
    low: float  # limits of the interval that holds ``COVERED`` of steps
    high: float  # limits of the interval that holds ``COVERED`` of steps
    workloads: int  # that the factors are from


class Rates:
    """The times of operations, interpolated between those of a calibration."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._shapes: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]] = {}
        for key in {(each.kind, each.phase) for each in calibration.products}:
            alike = [each for each in calibration.products if (each.kind, each.phase) == key]
            shapes = np.array([(each.groups, each.M, each.N, each.K) for each in alike], float)
            seconds = np.array([each.seconds for each in alike])
            self._shapes[key] = np.log(shapes), np.log(shapes.prod(axis=1) / seconds)
        transfers = calibration.transfers
        self._sizes = np.log([each.size_bytes for each in transfers])
        self._bandwidths = np.log([each.size_bytes / each.seconds for each in transfers])

    def ideal(self, description: Description, xla: str, steps_per_call: int) -> Ideal:
        """Returns the time of a step whose operations run one after the other, each alone.

        Args:
            description: of the step.
            xla: what XLA compiles of it: ``step``, ``layers`` or ``off``.
            steps_per_call: steps that a call of the graph runs.

        Raises:
            FathomError: no product of one of the kinds was measured.
        """
        products = transfers = 0.0
        weights = sum(row.weight_bytes // row.repeats for row in description.operations)
        for row in description.operations:
            moving = self._moving(row, weights)
            if row.kind in _PRODUCT_KINDS and row.macs:
                products += max(self._product(row), moving)
            else:
                transfers += moving
        starts = 0 if xla == "step" else sum(row.repeats for row in description.operations)
        return Ideal(
            product_seconds=products,
            transfer_seconds=transfers,
            dispatch_seconds=starts * self._calibration.dispatch_seconds,
            call_seconds=self._calibration.call_seconds / steps_per_call,
        )

    def _product(self, row: Operation) -> float:
        kind = _PRODUCT_KINDS[row.kind]
        phase = row.phase if (kind, row.phase) in self._shapes else "forward"
        if (kind, phase) not in self._shapes:
            raise FathomError(f"the calibration has no {kind}: repeat fathom calibrate")
        shapes, rates = self._shapes[kind, phase]
        distances = np.linalg.norm(shapes - np.log(np.array(_bounds(row), float)), axis=1)
        nearest = np.argsort(distances, kind="stable")[:_NEIGHBOURS]
        weights = 1 / (distances[nearest] + 0.1) ** 2
        return row.macs / np.exp(np.average(rates[nearest], weights=weights))

    def _moving(self, row: Operation, all_weights: int) -> float:
        """Returns the seconds of an operation's bytes.

        Its weights were last read a step ago, or an iteration: from the cache that holds all.
        """
        own = row.input_bytes + row.output_bytes
        return own / self._bandwidth(own // row.repeats) + (
            row.weight_bytes / self._bandwidth(all_weights)
        )

    def _bandwidth(self, size: int) -> float:
        return float(np.exp(np.interp(np.log(max(1, size)), self._sizes, self._bandwidths)))


def predict(ideal: Ideal, xla: str, workload: str, machine: Machine) -> Prediction:
    """Returns the time of a step, from the steps of the other workloads of a calibration.

    Args:
        ideal: of the step.
        xla: what XLA compiles of it: ``step``, ``layers`` or ``off``.
        workload: its name, which is left out of the fit.
        machine: a calibrated one.

    Raises:
        FathomError: it is not calibrated, or with too few workloads, or too few whose steps XLA
            compiles, as this one, or does not compile.
    """
    others = [each for each in calibration(machine).steps if each.workload != workload]
    if len(_names(others)) < FEWEST_WORKLOADS:
        raise FathomError(
            f"{machine.title} has measured steps of {len(_names(others))} other workloads, and "
            f"{FEWEST_WORKLOADS} are needed: give fathom calibrate a folder of fathom characterize"
        )
    if not _has_kind(xla, others):
        kind = "that XLA compiles whole" if xla == "step" else "that XLA does not compile whole"
        raise FathomError(
            f"{machine.title} has steps {kind}, as this one, of fewer than 2 other workloads: give "
            "fathom calibrate a folder of more workloads"
        )
    return _predict(ideal, xla, others)


def calibration(machine: Machine) -> Calibration:
    """Returns a machine's calibration.

    Raises:
        FathomError: it has none.
    """
    if machine.calibration is None:
        raise FathomError(f"{machine.title} is not calibrated: fathom calibrate writes such a file")
    return machine.calibration


def check(steps: Sequence[StepTime]) -> list[tuple[StepTime, Prediction]]:
    """Returns each step that can be predicted without its workload, with its prediction."""
    others = [[x for x in steps if x.workload != step.workload] for step in steps]
    return [
        (step, _predict(step.ideal, step.xla, each))
        for step, each in zip(steps, others, strict=True)
        if _has_kind(step.xla, each)
    ]


def _predict(ideal: Ideal, xla: str, others: Sequence[StepTime]) -> Prediction:
    seconds = float(_features(ideal, xla) @ _fit(others))
    errors = []  # of workloads that a fit has not seen
    for name in _names(others):
        factors = _fit([each for each in others if each.workload != name])
        errors += [
            np.log(each.seconds / (_features(each.ideal, each.xla) @ factors))
            for each in others
            if each.workload == name
        ]
    tail = (1 - COVERED) / 2
    middle, low, high = np.exp(np.quantile(errors, [0.5, tail, 1 - tail]))
    return Prediction(seconds * middle, seconds * low, seconds * high, len(_names(others)))


def _fit(steps: Sequence[StepTime]) -> np.ndarray:
    """Returns the positive factors that give the smallest squares of the logarithms' errors."""
    relative = np.array([_features(each.ideal, each.xla) / each.seconds for each in steps])

    def errors(logs: np.ndarray) -> np.ndarray:
        return np.log(relative @ np.exp(logs))

    bounds = -np.log(_MOST), np.log(_MOST)
    return np.exp(least_squares(errors, np.zeros(relative.shape[1]), bounds=bounds).x)


def _features(ideal: Ideal, xla: str) -> np.ndarray:
    products = ideal.product_seconds * np.array([xla != "step", xla == "step"])
    others = ideal.transfer_seconds, ideal.dispatch_seconds, ideal.call_seconds
    return np.array([*products, *others])


def _has_kind(xla: str, steps: Sequence[StepTime]) -> bool:
    """Returns whether steps without any one workload have some compiled as this one, or not."""
    return len(_names(each for each in steps if (each.xla == "step") == (xla == "step"))) > 1


def _names(steps: Iterable[StepTime]) -> set[str]:
    return {each.workload for each in steps}


def _bounds(row: Operation) -> tuple[int, int, int, int]:
    """Returns the groups, M, N and K of an operation."""
    b = row.bounds
    if row.kind != "convolution":
        return b["batch"], b["M"], b["N"], b["K"]
    groups = b["groups"]
    inner = b["C"] // groups * b["R"] * b["S"]
    return groups, b["N"] * b["P"] * b["Q"], b["M"] // groups, inner
