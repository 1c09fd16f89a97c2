"""A network computed with fixed-point numbers: what is rounded where, in which format.

The values that a layer gives to the next, the gradients that come back, the gradients of weights,
the weights and their updates are each rounded to the format of their tensor. Between roundings a
layer computes in float32, as an accelerator computes in an accumulator wider than its numbers. The
state inside a recurrent layer, the optimizer's moments and running statistics stay float32.

The network stays the one that was built: its layers round what they return wherever they are
called, also where inference decodes word by word.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from fathom.core.layers import PRNGKey
from fathom.core.training.optimizers import Gradient, Update
from fathom.errors import FathomError
from fathom.numbers.network import Change, both_ways, pass_through
from fathom.numbers.rounder import Mode, Rounder
from fathom.options import Execution, FixedPoint, precision_traits
from fathom.results.records import FixedPointRecord, TensorKind

TRAINED_WEIGHTS = 2.0  # least range of weights, which grow from small ones: docs/numbers.md
KEEPS_VALUES = (  # of its input: rounding them again would change nothing
    keras.layers.Flatten,
    keras.layers.Reshape,
    keras.layers.MaxPooling2D,
)


def training_headroom(bits: int) -> int:
    """Returns the bits by which values in training may outgrow those of the calibration.

    They are 2 of up to 16 bits, where resolution is scarce, and half of the bits beyond.
    """
    return 2 + max(0, bits - 16) // 2


class Simulation:
    """Fixed-point numbers in a network and its optimizer, from ``calibrate`` or ``begin`` on.

    Args:
        network: functional, in float32; its layers' calls are changed.
        trains: there are gradients and updates.
        number_format: bits, and the fraction unless it is chosen by calibration.
        kinds: of ``options.QUANTIZED``, what is rounded.
        overflow: one of ``options.OVERFLOWS``.
        step: int64 variable that differs from step to step.
        new_noise: returns a key of random numbers; None: round to nearest.
    """

    def __init__(
        self,
        network: keras.Model,
        trains: bool,
        number_format: FixedPoint,
        kinds: Sequence[str],
        overflow: str,
        step: tf.Variable,
        new_noise: Callable[[], PRNGKey] | None,
    ) -> None:
        self._format, self._kinds, self._trains = number_format, tuple(kinds), trains
        self._mode = Mode(number_format.bits, overflow, step)
        self._new_noise = new_noise
        self.has_formats = False  # known, from a checkpoint
        self._rounders: list[Rounder] = []
        self._variables = [variable.value for variable in network.trainable_variables]
        self._of_weights: list[dict[str, Rounder]] = [
            self._rounders_of(variable) for variable in network.trainable_variables
        ]
        self._copies = [  # in float32, if the updates are not rounded
            tf.Variable(variable, trainable=False, name="copy")
            for variable in self._variables
            if trains and "weights" in kinds and "updates" not in kinds
        ]
        pass_through(network, self._rounding_of, KEEPS_VALUES)

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """What a checkpoint of a training holds: formats and float32 copies, by name."""
        scales = {f"fixed-{i}-scale": rounder.scale for i, rounder in enumerate(self._rounders)}
        return scales | {f"fixed-copy-{i}": copy for i, copy in enumerate(self._copies)}

    @property
    def calibrates(self) -> bool:
        """Whether the formats are still to be chosen, by steps that note magnitudes."""
        return self._format.fraction is None and not self.has_formats

    def calibrate(self) -> None:
        """Notes the largest magnitudes in steps traced from now on."""
        self._mode.stage = "calibrates"

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """Traces steps in the block as in float32."""
        stage, self._mode.stage = self._mode.stage, "off"
        try:
            yield
        finally:
            self._mode.stage = stage

    def begin(self) -> None:
        """Chooses the formats and rounds the weights; steps traced from now on round everything."""
        self._mode.stage = "rounds"
        if not self.has_formats or self._format.fraction is not None:
            self._choose()
        if not self.has_formats:
            for copy, variable in zip(self._copies, self._variables, strict=False):
                copy.assign(variable)
        for variable, rounders in zip(self._variables, self._of_weights, strict=True):
            if "weights" in rounders:
                rounders["weights"].count(variable)
        self.round_weights()

    def round_weights(self) -> None:
        """Rounds the weights, such as averages that have taken their place."""
        for variable, rounders in zip(self._variables, self._of_weights, strict=True):
            if "weights" in rounders:
                variable.assign(rounders["weights"](variable.read_value()))

    def wrap(self, gradients: Sequence[Gradient], update: Update) -> None:
        """Rounds gradients, applies them, and rounds the updates, within the graph being traced.

        A weight w becomes Q(w) + Q(update), with the same format, and saturates as a sum. Without
        rounded updates, the optimizer changes a float32 copy, of which the weight is rounded.

        Args:
            gradients: of the trainable variables.
            update: changes the variables, given the gradients.
        """
        if self._mode.stage == "off":
            update(gradients)
            return
        if "gradients" in self._kinds:
            gradients = [
                _rounded_gradient(gradient, rounders["gradients"])
                for gradient, rounders in zip(gradients, self._of_weights, strict=True)
            ]
        if self._mode.stage == "calibrates" or not {"weights", "updates"} & set(self._kinds):
            update(gradients)
        elif "updates" in self._kinds:
            self._update_rounded(gradients, update)
        else:
            self._update_copies(gradients, update)

    def record(self) -> FixedPointRecord:
        """Returns the formats, and the shares of values that saturated or became zero."""
        rows = [rounder.record() for rounder in self._rounders]
        return FixedPointRecord(
            bits=self._format.bits,
            quantized=list(self._kinds),
            rounding="nearest" if self._new_noise is None else "stochastic",
            overflow=self._mode.overflow,
            tensors=rows,
        )

    # ---------------------------------------------------------------- updates

    def _update_rounded(self, gradients: Sequence[Gradient], update: Update) -> None:
        before = [variable.read_value() for variable in self._variables]
        update(gradients)
        for old, variable, rounders in zip(before, self._variables, self._of_weights, strict=True):
            change = rounders["updates"](variable.read_value() - old)
            if "weights" in rounders:  # changed from outside, as by a restart, they are not yet
                summed = rounders["weights"](rounders["weights"](old) + change)
            else:
                summed = old + change
            variable.assign(summed)

    def _update_copies(self, gradients: Sequence[Gradient], update: Update) -> None:
        rows = list(zip(self._copies, self._variables, self._of_weights, strict=True))
        for copy, variable, rounders in rows:
            weight = variable.read_value()
            same = tf.equal(rounders["weights"](copy.read_value()), weight)
            variable.assign(tf.where(same, copy, weight))  # others were changed from outside
        update(gradients)
        for copy, variable, rounders in rows:
            copy.assign(variable)
            variable.assign(rounders["weights"](variable.read_value()))

    # ---------------------------------------------------------------- building

    def _rounding_of(self, layer: str, is_input: bool) -> Change | None:
        kinds: list[TensorKind] = ["activations"]
        if self._trains and not is_input:
            kinds.append("gradients")
        rounder_of = {k: self._rounder(layer, "output", k) for k in kinds if k in self._kinds}
        if not rounder_of:
            return None
        ways = rounder_of.get("activations", tf.identity), rounder_of.get("gradients", tf.identity)
        return lambda x: x if self._mode.stage == "off" else both_ways(x, *ways)

    def _rounders_of(self, variable: keras.Variable) -> dict[str, Rounder]:
        layer, _, name = variable.path.rpartition("/")
        kinds: list[TensorKind] = ["weights"]
        if self._trains:
            kinds += ["gradients", "updates"]
        return {k: self._rounder(layer, name, k) for k in kinds if k in self._kinds}

    def _rounder(self, layer: str, tensor: str, kind: TensorKind) -> Rounder:
        noise = self._new_noise() if self._new_noise and kind != "weights" else None
        self._rounders.append(Rounder(layer, tensor, kind, self._mode, noise))
        return self._rounders[-1]

    def _choose(self) -> None:
        """Chooses the formats: the given one, or by the largest magnitudes of the calibration."""
        headroom = training_headroom(self._format.bits) if self._trains else 0
        for rounder in self._rounders:
            if self._format.fraction is not None:
                rounder.scale.assign(2.0**self._format.fraction)
            elif rounder.kind in ("activations", "gradients"):
                rounder.choose(headroom)
        if self._format.fraction is not None:
            return
        for variable, rounders in zip(self._variables, self._of_weights, strict=True):
            largest = float(np.max(np.abs(variable.numpy()), initial=0))
            least = max(largest, TRAINED_WEIGHTS if self._trains else 0)
            for kind in {"weights", "updates"} & rounders.keys():  # one format: they are added
                rounders[kind].choose(0, least)


def create(
    network: keras.Model,
    trains: bool,
    execution: Execution,
    step: tf.Variable,
    new_noise: Callable[[], PRNGKey],
) -> Simulation | None:
    """Returns the simulation that a run's options ask for; None in floating point."""
    number_format = precision_traits(execution.precision).fixed
    if number_format is None:
        return None
    if not trains and not {"weights", "activations"}.intersection(execution.quantized):
        raise FathomError(
            f"quantize {execution.quantize} has no effect in inference: name weights or activations"
        )
    noise = new_noise if execution.rounding_rule == "stochastic" else None
    rules = execution.quantized, execution.overflow_rule
    return Simulation(network, trains, number_format, *rules, step, noise)


def _rounded_gradient(gradient: Gradient, rounder: Rounder) -> Gradient:
    if isinstance(gradient, tf.IndexedSlices):
        values = rounder(gradient.values)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return rounder(gradient)
