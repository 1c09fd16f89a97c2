"""Traces short windows over a whole run on fresh batches: Fathom's Figure 1."""

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fathom.core.training.compilation import Batch, Nest, Step
from fathom.errors import FathomError
from fathom.measure.profile import xplane
from fathom.measure.profile.completeness import Counts, counts_of, require_equal_ops
from fathom.measure.profile.gpu import Sessions
from fathom.nn import NeuralNetworkModel
from fathom.results.profile import Life, SampledOp

_WINDOWS = 11  # at the start of the run, after 10 %, ..., at its end
_LONGEST = 5  # steps of a window


def window_of_step(run_steps: int) -> dict[int, int]:
    """Returns the window of each step in one, by its number.

    Windows have up to five steps, and take at most half of a run of 22 steps or more; of a shorter
    one they are up to eleven single steps. The first step, in which TensorFlow optimises the graph,
    is in none.

    Args:
        run_steps: of the run, at least 2.
    """
    length = int(np.clip((run_steps - 1) // (2 * _WINDOWS), 1, _LONGEST))
    starts = np.linspace(1, run_steps - length, min(_WINDOWS, run_steps - 1)).round()
    return {int(start) + i: window for window, start in enumerate(starts) for i in range(length)}


@dataclass(frozen=True)
class _Sample:
    """One traced step: its number in the run, its time, and its ops and their times by type."""

    number: int
    shapes: tuple[tuple[int, ...], ...]
    work: float
    step_seconds: float
    ops: Counts
    seconds: dict[str, float]
    count: Counter[str]


class Windows:
    """Runs every step of a run with the profiler on, and reads the traces of some.

    The profiler is on in every step, so that no trace lacks ops (``xplane.profiling``); each step
    is a session of its own, so that a long run needs no more memory than a short one. The input
    pipeline prepares the next batches meanwhile, as in any run.

    The model is set up already, and the run has at least 2 steps.
    """

    def __init__(self, model: NeuralNetworkModel, run_steps: int, sessions: Sessions) -> None:
        self._model, self._run_steps, self._sessions = model, run_steps, sessions
        self._window = window_of_step(run_steps)
        self._shapes: set[tuple[tuple[int, ...], ...]] = set()
        self._number = 0
        self._samples: list[_Sample] = []

    def step(self, step: Step, batch: Batch) -> Nest:
        """Runs the next step of the run and returns its result."""
        number, shapes = self._number, tuple(tuple(tensor.shape) for tensor in batch)
        self._number += 1
        first_of_shape = shapes not in self._shapes and len(self._model.signatures()) > 1
        self._shapes.add(shapes)
        if number not in self._window or first_of_shape:  # the graph of a shape is optimised then
            with self._sessions.session():
                return step(*batch)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "trace"
            with self._sessions.session(path), xplane.marked(number):
                value = step(*batch)
                self._model.device.synchronize()
            trace = xplane.read(path)
        (ops,), ((start, end),) = trace.ops_by_step(), trace.steps
        seconds: dict[str, float] = {}
        for op in ops:
            seconds[op.op_type] = seconds.get(op.op_type, 0.0) + op.self_s
        count, work = Counter(op.op_type for op in ops), self._model.work(*batch)
        self._samples.append(
            _Sample(number, shapes, work, end - start, counts_of(ops), seconds, count)
        )
        return value

    def life(self) -> Life:
        """Returns the times of the windows.

        Raises:
            FathomError: there is none, or a trace is incomplete: steps on batches of one size
                differ in their ops.
        """
        samples = self._samples
        if not samples:
            raise FathomError(
                "the windows have no step on a shape that came before: give a longer --life"
            )
        require_equal_ops([each.ops for each in samples], [(s.shapes, s.work) for s in samples])
        if len(self._model.signatures()) == 1:  # one graph, whatever the size of the batch
            kinds = [Counter(dict.fromkeys(each.ops, 1)) for each in samples]
            require_equal_ops(kinds, [None] * len(kinds))
        types = {op_type for each in samples for op_type in each.seconds}
        ops = (
            SampledOp(
                type=op_type,
                seconds=np.array([each.seconds.get(op_type, 0.0) for each in samples]),
                count=float(np.mean([each.count[op_type] for each in samples])),
            )
            for op_type in types
        )
        return Life(
            run_steps=self._run_steps,
            numbers=tuple(each.number for each in samples),
            windows=tuple(self._window[each.number] for each in samples),
            step_seconds=np.array([each.step_seconds for each in samples]),
            work=np.array([each.work for each in samples]),
            ops=tuple(sorted(ops, key=lambda op: (-op.seconds.sum(), op.type))),
        )
