"""Rounding of one tensor of a network in every step, with its format and its counts."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import tensorflow as tf

from fathom.core.layers import PRNGKey
from fathom.errors import FathomError
from fathom.numbers import fixed
from fathom.results.records import FixedTensor, TensorKind

COUNTED_EVERY = 8  # steps: counting takes several passes over a tensor, rounding one
_COMPILED = 2**16  # values; of fewer, calling a kernel takes as long as it saves
Stage = Literal["off", "calibrates", "rounds"]  # values pass, are noted and pass, or are rounded
_Kernels: TypeAlias = dict[tf.TensorShape, Callable[..., tf.Tensor]]


@dataclass
class Mode:
    """What rounders do when a step is traced."""

    bits: int  # of all formats
    overflow: str  # ``saturate`` or ``wrap``
    step: tf.Variable  # int64, differs from step to step; multiples of ``COUNTED_EVERY`` count
    stage: Stage = "off"
    _kernels: _Kernels = field(default_factory=dict)

    def kernel(self, shape: tf.TensorShape) -> Callable[..., tf.Tensor]:
        """Returns ``fixed.round_to`` for tensors of a shape.

        Large tensors' is compiled, to pass over memory once. Each shape has a function of its own,
        which all tensors of the shape share: TensorFlow warns of many shapes of one function. A
        tensor of unknown shape would be compiled again for each shape.
        """
        if not shape.is_fully_defined() or shape.num_elements() < _COMPILED:
            return fixed.round_to
        if shape not in self._kernels:
            self._kernels[shape] = tf.function(
                functools.partial(fixed.round_to), jit_compile=True, autograph=False
            )
        return self._kernels[shape]


class Rounder(tf.Module):
    """Rounds the values of one tensor.

    Args:
        layer: that the tensor belongs to.
        tensor: ``output``, or the variable's name.
        kind: one of ``options.QUANTIZED``.
        mode: of all rounders of a network.
        noise: key of stochastic rounding; None: to nearest.
    """

    def __init__(
        self, layer: str, tensor: str, kind: TensorKind, mode: Mode, noise: PRNGKey | None = None
    ) -> None:
        super().__init__()
        self.layer, self.tensor, self.kind = layer, tensor, kind
        self._mode, self._noise = mode, noise
        self.scale = tf.Variable(1.0, trainable=False, name="scale")  # 2^f
        self.largest = tf.Variable(0.0, trainable=False, name="largest")  # seen in calibration
        self._counts = tf.Variable(tf.zeros(4, tf.int64), trainable=False, name="counts")

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the rounded float32 values, of the shape of x."""
        if self._mode.stage == "off":
            return x
        if self._mode.stage == "calibrates":
            self.largest.assign(tf.maximum(self.largest, tf.reduce_max(tf.abs(x), None)))
            return tf.identity(x)
        rounded = self._rounded(x)
        if self.kind != "weights":  # counted once, when the formats are chosen
            count = self._mode.step % COUNTED_EVERY == 0
            self._counts.assign_add(
                tf.cond(count, lambda: self._count(x, rounded), lambda: tf.zeros(4, tf.int64))
            )
        return rounded

    def choose(self, headroom: int, least: float = 0.0) -> None:
        """Chooses the finest format that holds the largest magnitude seen, and ``least``.

        Raises:
            FathomError: that magnitude is not finite.
        """
        largest = max(float(self.largest), least)
        if not math.isfinite(largest):
            raise FathomError(
                f"the {self.kind} of {self.layer}'s {self.tensor} are not finite in the "
                "calibration: lower the learning rate, or look at the data"
            )
        self.scale.assign(fixed.scale_for(largest, self._mode.bits, headroom))

    def count(self, x: tf.Tensor) -> None:
        """Counts the rounding of values outside the step."""
        self._counts.assign(self._count(x, self._rounded(x)))

    def record(self) -> FixedTensor:
        """Returns the format and the shares of the counted values."""
        values, before, beyond, lost = (int(number) for number in self._counts.numpy())
        return FixedTensor(
            layer=self.layer,
            tensor=self.tensor,
            kind=self.kind,
            fraction=round(float(tf.math.log(self.scale) / tf.math.log(2.0))),
            values=values,
            saturated=beyond / values if values else None,
            zeroed=lost / before if before else None,
        )

    def _rounded(self, x: tf.Tensor) -> tf.Tensor:
        seed = None if self._noise is None else self._noise.tensor()
        rounding = self._mode.kernel(x.shape)
        return rounding(x, self.scale.read_value(), self._mode.bits, self._mode.overflow, seed)

    def _count(self, x: tf.Tensor, rounded: tf.Tensor) -> tf.Tensor:
        return fixed.counts(x, rounded, self.scale, self._mode.bits)
