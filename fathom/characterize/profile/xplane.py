"""What ran when, op by op, read from a trace of TensorFlow's profiler.

The executor notes each op that it runs as an event ``layer/scope/name:OpType`` on the line of the
thread that ran it; asynchronous ops, such as calls of functions that XLA has compiled, as an event
``ExecutorState::ProcessAsync::Start`` whose statistics have the name and the type. A compiled
function's type here is its Python name, which its kernels' statistics give. A GPU's plane has a
line for each of its streams; a kernel's statistics name the op that launched it. Other events are
the runtime's own.
"""

import contextlib
import re
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from fathom.errors import FathomError
from fathom.system.files import atomic_write

_STEP_EVENT = "fathom_step"
_OP_EVENT = re.compile(r"(?P<name>[^:\s]+):(?P<op_type>[A-Za-z_]\w*)")
_ASYNC_EVENT = "ExecutorState::ProcessAsync::Start"
_COMPILED = re.compile(r"a_inference_(?P<function>\w+?)_\d+__.*")
_GPU_API_EVENT = re.compile(r"cu(da)?[A-Z]\w*")
_PICOSECOND = 1e-12


@dataclass(frozen=True)
class OpEvent:
    """One execution of one op by one thread, or one kernel of it on one GPU stream.

    Attributes:
        name: the op's name with its scopes, ``layer/scope/name``.
        op_type: the type of the kernel that ran, as TensorFlow calls it.
        start_s: seconds since the first event of the trace.
        duration_s: seconds from start to end.
        self_s: ``duration_s`` without the ops that ran on the same line meanwhile, inside this one.
        line: the plane and the thread or stream.
    """

    name: str
    op_type: str
    start_s: float
    duration_s: float
    self_s: float
    line: str

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU ran it."""
        return self.line.startswith("/device:GPU")

    @property
    def end_s(self) -> float:
        """Seconds since the first event of the trace."""
        return self.start_s + self.duration_s


@dataclass(frozen=True)
class Trace:
    """What a profiler saw.

    Attributes:
        ops: executions of ops on the host's threads and the GPUs' streams.
        steps: (start, end) of each marked step, in seconds since the first event of the trace.
        gpu_seconds: time in the marked steps of GPU kernels (``kernel``), of copies by GPUs
            (``memcpy``) and of the host's calls to the GPU's driver (``api``); None where no GPU
            was traced.
    """

    ops: tuple[OpEvent, ...]
    steps: tuple[tuple[float, float], ...]
    gpu_seconds: dict[str, float] | None

    def ops_by_step(self) -> list[list[OpEvent]]:
        """Returns the ops that began within each step, each op once, with its own time.

        An op that launched GPU kernels stands for the launch alone; its kernels follow by
        themselves. It is left out, so that an op counts with the time of its kernels.
        """
        launched = {op.name for op in self.ops if op.on_gpu}
        counted = [op for op in self.ops if op.on_gpu or op.name not in launched]
        return [[op for op in counted if start <= op.start_s < end] for start, end in self.steps]

    def outside_seconds(self) -> list[float]:
        """Returns the time of each step in which no op was running anywhere."""
        ops = sorted(self.ops, key=lambda op: op.start_s)
        return [end - start - _covered(ops, start, end) for start, end in self.steps]

    @property
    def outside_share(self) -> float:
        """The share of the steps' time in which no op was running, from 0 to 1."""
        return sum(self.outside_seconds()) / sum(end - start for start, end in self.steps)


@contextlib.contextmanager
def profiling(save_to: Path | None = None) -> Iterator[None]:
    """Has TensorFlow's profiler on inside the block.

    The executor stops tracing an op that it has rated cheap, and it rates ops only in executions
    that are not traced: after some 90 of them, cheap ops are gone from every later trace. So the
    profiler must be on from the first execution of a step to the last one that is to be read.

    Args:
        save_to: where the trace is written; None: it is thrown away.

    Raises:
        FathomError: the profiler is in use already, or the trace cannot be written.
    """
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3)
    with tempfile.TemporaryDirectory() as temporary:
        try:
            tf.profiler.experimental.start(temporary, options)
        except tf.errors.AlreadyExistsError as error:
            raise FathomError("TensorFlow's profiler is in use already: stop it first") from error
        try:
            yield
        finally:
            tf.profiler.experimental.stop(save=save_to is not None)
        if save_to is not None:
            (trace,) = Path(temporary).rglob("*.xplane.pb")
            with atomic_write(save_to) as whole:
                shutil.copyfile(trace, whole)


def record(step: Callable[[], object], n_steps: int, path: Path) -> None:
    """Traces some steps and marks each of them.

    One more step comes before them, without a mark: the profiler starts up in it.

    Args:
        step: runs one step and waits for its end; executed inside ``profiling`` alone until now.
        n_steps: how many are marked.
        path: where the trace goes.

    Raises:
        FathomError: the profiler is in use already, or the trace cannot be written.
    """
    with profiling(path):
        step()
        for number in range(n_steps):
            with tf.profiler.experimental.Trace(_STEP_EVENT, step_num=number, _r=1):
                step()


def trace(step: Callable[[], object], n_steps: int) -> Trace:
    """Traces some steps and reads the trace; see ``record``."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trace.xplane.pb"
        record(step, n_steps, path)
        return read(path)


def read(path: Path) -> Trace:
    """Reads a trace.

    Raises:
        FathomError: the file cannot be read or is not a whole trace.
    """
    lines = [
        (plane, line)
        for plane in parse(path).planes
        for line in plane.lines
        if line.events and is_timed(plane, line)
    ]
    origin = min((_start(line, e) for _, line in lines for e in line.events), default=0)
    on_gpu = any(plane.name.startswith("/device:GPU") for plane, _ in lines)
    steps = sorted(mark for plane, line in lines for mark in _step_marks(plane, line))
    return Trace(
        ops=tuple(op for plane, line in lines for op in _op_events(plane, line, origin)),
        steps=tuple(
            ((start - origin) * _PICOSECOND, (end - origin) * _PICOSECOND) for start, end in steps
        ),
        gpu_seconds=_gpu_seconds(lines, steps) if on_gpu else None,
    )


def parse(path: Path) -> Any:
    """Returns the ``XSpace`` that a trace file holds.

    Raises:
        FathomError: the file cannot be read or is not a whole trace.
    """
    space = xplane_pb2.XSpace()
    try:
        space.ParseFromString(path.read_bytes())
    except OSError as error:
        raise FathomError(f"cannot read {path}: {error.strerror}") from error
    except DecodeError as error:
        raise FathomError(f"{path} is cut off or no profiler trace: take it again") from error
    if not space.planes:
        raise FathomError(f"{path} is empty or no profiler trace: take it again")
    return space


def is_timed(plane: Any, line: Any) -> bool:
    """Says whether a line is a thread of the host or a stream of a GPU.

    A GPU's plane may have further lines that say the same again, by steps or by ops.
    """
    if plane.name.startswith("/device:GPU"):
        return line.name.startswith("Stream")
    return plane.name.startswith("/host:")


def op_of(plane: Any, event: Any) -> tuple[str, str] | None:
    """Returns the name and type of the op that an event stands for; None where it is no op."""
    label = plane.event_metadata[event.metadata_id].name
    if label == _ASYNC_EVENT:
        return _statistic(plane, event, "name"), _statistic(plane, event, "kernel_type")
    if plane.name.startswith("/device:GPU"):
        label = _statistic(plane, event, "tf_op")
    match = _OP_EVENT.fullmatch(label)
    return (match["name"], match["op_type"]) if match else None


def _start(line: Any, event: Any) -> int:
    """Returns when an event began, in integer picoseconds: a float would lose the last digits."""
    return line.timestamp_ns * 1000 + event.offset_ps


def _end(event: Any) -> int:
    return event.offset_ps + event.duration_ps


def _op_events(plane: Any, line: Any, origin: int) -> Iterator[OpEvent]:
    """Yields the op events of one line, with their self times."""
    events = sorted(line.events, key=lambda event: (event.offset_ps, -event.duration_ps))
    ops = [(event, *op) for event in events if (op := op_of(plane, event))]
    self_ps = _self_times([event for event, _, _ in ops])
    for (event, name, op_type), own in zip(ops, self_ps, strict=True):
        yield OpEvent(
            name=name,
            op_type=_compiled_function(plane, events, event) or op_type,
            start_s=(_start(line, event) - origin) * _PICOSECOND,
            duration_s=event.duration_ps * _PICOSECOND,
            self_s=own * _PICOSECOND,
            line=f"{plane.name}/{line.name}",
        )


def _self_times(events: list[Any]) -> list[int]:
    """Returns the time of each event without those inside it; sorted by start, longest first."""
    self_ps = [event.duration_ps for event in events]
    around: list[int] = []  # the events that enclose the current one, outermost first
    for i, event in enumerate(events):
        while around and _end(events[around[-1]]) <= event.offset_ps:
            around.pop()
        if around:
            parent_end = _end(events[around[-1]])
            self_ps[around[-1]] -= min(_end(event), parent_end) - event.offset_ps
        around.append(i)
    return self_ps


def _compiled_function(plane: Any, events: list[Any], op: Any) -> str | None:
    """Returns the name of the function that XLA compiled, where ``op`` called one.

    Args:
        plane: that of the op.
        events: all of the op's line, by their start.
        op: the op's event.
    """
    if plane.event_metadata[op.metadata_id].name != _ASYNC_EVENT:
        return None
    first = bisect_left(events, op.offset_ps, key=lambda event: event.offset_ps)
    last = bisect_left(events, _end(op), key=lambda event: event.offset_ps)
    for event in events[first:last]:
        match = _COMPILED.fullmatch(_statistic(plane, event, "hlo_module"))
        if match:
            return match["function"]
    return None


def _step_marks(plane: Any, line: Any) -> Iterator[tuple[int, int]]:
    """Yields the start and the end of each step, in picoseconds."""
    for event in line.events:
        if plane.event_metadata[event.metadata_id].name == _STEP_EVENT:
            start = _start(line, event)
            yield start, start + event.duration_ps


def _gpu_seconds(
    lines: Iterable[tuple[Any, Any]], steps: list[tuple[int, int]]
) -> dict[str, float]:
    """Adds up what GPUs and their driver began in the steps; a call inside another counts once."""
    seconds = {"kernel": 0.0, "memcpy": 0.0, "api": 0.0}
    for plane, line in lines:
        named = [
            (plane.event_metadata[event.metadata_id].name, event)
            for event in line.events
            if any(start <= _start(line, event) < end for start, end in steps)
        ]
        if plane.name.startswith("/device:GPU"):
            for name, event in named:
                kind = "memcpy" if name.startswith("Memcpy") else "kernel"
                seconds[kind] += 0 if name == "Memset" else event.duration_ps * _PICOSECOND
        else:
            calls = [event for name, event in named if _GPU_API_EVENT.fullmatch(name)]
            calls.sort(key=lambda event: (event.offset_ps, -event.duration_ps))
            seconds["api"] += sum(_self_times(calls)) * _PICOSECOND
    return seconds


def _statistic(plane: Any, event: Any, name: str) -> str:
    """Returns a statistic of an event that is a text; empty where it has none such."""
    for stat in event.stats:
        if plane.stat_metadata[stat.metadata_id].name == name:
            return stat.str_value or plane.stat_metadata[stat.ref_value].name
    return ""


def _covered(ops: Iterable[OpEvent], start: float, end: float) -> float:
    """Returns for how many seconds between start and end at least one op ran; ops by start."""
    covered, reached = 0.0, start
    for op in ops:
        if op.end_s > reached and op.start_s < end:
            covered += min(op.end_s, end) - max(reached, op.start_s)
            reached = op.end_s
    return covered
