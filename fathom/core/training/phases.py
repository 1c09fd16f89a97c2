"""The two phases of generating sequences, compiled and timed apart."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from fathom.core.training.compilation import Nest, Step
from fathom.results.generation import PhaseTimes
from fathom.results.steps import Steps
from fathom.system.device import Device


@dataclass(frozen=True)
class TwoPhases:
    """An inference that generates sequences: a prefill, and a loop that decodes token by token."""

    prefill: Step  # reads a batch's inputs; returns a sequence of tensors or nests
    decode: Step  # takes them; returns the tokens
    decoded: Callable[[], int]  # returns the iterations of the loop, when it is done


class Phases:
    """Runs an inference phase after phase on a device, and records their times.

    Args:
        steps: the phases, compiled.
        device: on which they run.
    """

    def __init__(self, steps: TwoPhases, device: Device) -> None:
        self.prefill, self.decode = steps.prefill, steps.decode
        self._decoded, self._device = steps.decoded, device
        self.runs: list[PhaseTimes] = []  # of the current run

    def run(self, *inputs: tf.Tensor) -> Nest:
        """Runs both phases and records their times; the first input is [sequences, tokens]."""
        with self._device.placement():
            started = self._now()
            state = self.prefill(*inputs)
            between = self._now()
            tokens = self.decode(*state)
            ended = self._now()
        sequences, given = inputs[0].shape
        self.runs.append(
            PhaseTimes(between - started, ended - between, given, self._decoded(), sequences)
        )
        return tokens

    def counted(self, steps: Steps) -> list[PhaseTimes]:
        """Returns the times of the last run's steps that its statistics count."""
        return [self.runs[i] for i in steps.numbers if i < len(self.runs)]

    def _now(self) -> float:
        """Returns the time when the device has done all that was asked of it."""
        self._device.synchronize()
        return time.perf_counter()
