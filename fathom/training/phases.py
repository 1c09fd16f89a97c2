"""The two phases of generating sequences, compiled and timed apart."""

import time
from collections.abc import Callable

import tensorflow as tf

from fathom.results.generation import PhaseTimes
from fathom.results.steps import Steps, counted_steps
from fathom.training.compilation import Batch, Nest, Step


class Phases:
    """Runs a prefill and then a loop that decodes token by token.

    A workload whose inference generates sequences runs its step by this class, and gives
    ``generation`` what it recorded.

    Args:
        prefill: reads a batch's inputs; returns a sequence of tensors or nests.
        decode: takes them; returns the tokens.
        device: TensorFlow's name of the device.
        xla: XLA compiles both.

    Attributes:
        prefill, decode: compiled.
        runs: the times of each run so far.
    """

    def __init__(self, prefill: Step, decode: Step, device: str, xla: bool) -> None:
        self.prefill, self.decode = (
            tf.function(phase, autograph=False, jit_compile=xla) for phase in (prefill, decode)
        )
        self._device = device
        self.runs: list[PhaseTimes] = []

    def run(self, inputs: Batch, given: int, decoded: Callable[[], int]) -> Nest:
        """Runs both phases and records their times.

        Args:
            inputs: of the prefill, the first of them [sequences, ...].
            given: tokens of each sequence that the prefill reads.
            decoded: returns the iterations of the loop, when it is done.
        """
        with tf.device(self._device):
            started = self._now()
            state = self.prefill(*inputs)
            between = self._now()
            tokens = self.decode(*state)
            ended = self._now()
        sequences = inputs[0].shape[0]
        self.runs.append(
            PhaseTimes(between - started, ended - between, given, decoded(), sequences)
        )
        return tokens

    def counted(self, steps: Steps) -> list[PhaseTimes]:
        """Returns the times of the last run's steps that its statistics count."""
        last = self.runs[-len(steps.seconds) :]
        numbers = counted_steps(steps.warmup, steps.first_of_shape)
        return [last[i] for i in numbers if i < len(last)]

    def _now(self) -> float:
        """Returns the time when the device has done all that was asked of it."""
        if self._device != "/cpu:0":
            tf.test.experimental.sync_devices()
        return time.perf_counter()
