"""Where a step's time goes, op by op, read from a trace of TensorFlow's profiler.

The executor notes each op that it runs as an event ``layer/scope/name:OpType`` on the line of the
thread that ran it; asynchronous ops, such as calls of functions that XLA has compiled, as an event
``ExecutorState::ProcessAsync::Start`` whose statistics have the name and the type. A compiled
function's type here is its Python name, which its kernels' statistics give. Other events are the
runtime's own.
"""

import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from fathom.data.files import whole_file
from fathom.errors import FathomError

_OP_EVENT = re.compile(r"(?P<name>[^:\s]+):(?P<op_type>[A-Za-z_]\w*)")
_ASYNC_EVENT = "ExecutorState::ProcessAsync::Start"
_COMPILED = re.compile(r"a_inference_(?P<function>\w+?)_\d+__.*")
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


@dataclass(frozen=True)
class OpProfile:
    """The time of some steps, by op.

    An op that launched GPU kernels counts with the time of its kernels, not of the launch.

    Attributes:
        seconds_by_op_type: self time, largest first.
        seconds_by_scope: self time by the op's name less its last part, largest first; ``""`` for
            ops outside every scope.
        op_seconds: self time of all ops, summed over threads.
        covered_s: time during which at least one op was running.
        wall_s: time of the steps, with the profiler on.
        steps: how many steps these are.
    """

    seconds_by_op_type: dict[str, float]
    seconds_by_scope: dict[str, float]
    op_seconds: float
    covered_s: float
    wall_s: float
    steps: int

    @property
    def time_outside_ops(self) -> float:
        """The share of the steps' time in which no op was running, from 0 to 1."""
        return max(0.0, 1 - self.covered_s / self.wall_s)


def record(step: Callable[[], object], n_steps: int, directory: Path) -> Path:
    """Traces some steps.

    Args:
        step: runs one step and waits for its end; already called once, so that no tracing or
            compilation is in the trace.
        n_steps: how often it is called.
        directory: where the trace goes, as ``trace.xplane.pb``.

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
            for _ in range(n_steps):
                step()
        finally:
            tf.profiler.experimental.stop()
        (trace,) = Path(temporary).rglob("*.xplane.pb")
        with whole_file(directory / "trace.xplane.pb") as whole:
            shutil.copyfile(trace, whole)
    return directory / "trace.xplane.pb"


def read_events(path: Path) -> list[OpEvent]:
    """Reads the op events of a trace, of the host's threads and of the GPUs' streams.

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
    timed_lines = [
        (plane, line)
        for plane in space.planes
        for line in plane.lines
        if line.events and plane.name.startswith(("/host:", "/device:GPU"))
    ]
    origin = min((_start(line, e) for _, line in timed_lines for e in line.events), default=0)
    return [event for plane, line in timed_lines for event in _line_events(plane, line, origin)]


def summarize(events: Iterable[OpEvent], wall_s: float, steps: int) -> OpProfile:
    """Adds op events up.

    Args:
        events: those of ``steps`` steps.
        wall_s: how long the steps took.
        steps: how many there were.
    """
    events = list(events)
    launched = {event.name for event in events if event.on_gpu}
    counted = [event for event in events if event.on_gpu or event.name not in launched]
    by_op_type, by_scope = Counter(), Counter()
    for event in counted:
        by_op_type[event.op_type] += event.self_s
        by_scope[event.name.rpartition("/")[0]] += event.self_s
    return OpProfile(
        seconds_by_op_type=dict(by_op_type.most_common()),
        seconds_by_scope=dict(by_scope.most_common()),
        op_seconds=sum(event.self_s for event in counted),
        covered_s=_covered(events),
        wall_s=wall_s,
        steps=steps,
    )


def profile(step: Callable[[], object], n_steps: int) -> OpProfile:
    """Traces some steps and says where their time went; see ``record`` for the arguments."""
    wall_s = 0.0

    def timed_step() -> None:
        nonlocal wall_s
        start = time.perf_counter()
        step()
        wall_s += time.perf_counter() - start

    with tempfile.TemporaryDirectory() as directory:
        events = read_events(record(timed_step, n_steps, Path(directory)))
    return summarize(events, wall_s, n_steps)


def _start(line: Any, event: Any) -> int:
    """Returns when an event began, in integer picoseconds: a float would lose the last digits."""
    return line.timestamp_ns * 1000 + event.offset_ps


def _line_events(plane: Any, line: Any, origin: int) -> Iterator[OpEvent]:
    """Yields the op events of one line, with their self times."""
    events = sorted(line.events, key=lambda event: (event.offset_ps, -event.duration_ps))
    ops = [(event, *op) for event in events if (op := _op(plane, event))]
    self_ps = [event.duration_ps for event, _, _ in ops]
    around: list[int] = []  # the ops that enclose the current one, outermost first
    for i, (event, _, _) in enumerate(ops):
        while around and _end(ops[around[-1]][0]) <= event.offset_ps:
            around.pop()
        if around:
            parent_end = _end(ops[around[-1]][0])
            self_ps[around[-1]] -= min(_end(event), parent_end) - event.offset_ps
        around.append(i)
    for (event, name, op_type), own in zip(ops, self_ps, strict=True):
        yield OpEvent(
            name=name,
            op_type=_compiled_function(plane, events, event) or op_type,
            start_s=(_start(line, event) - origin) * _PICOSECOND,
            duration_s=event.duration_ps * _PICOSECOND,
            self_s=own * _PICOSECOND,
            line=f"{plane.name}/{line.name}",
        )


def _op(plane: Any, event: Any) -> tuple[str, str] | None:
    """Returns the name and type of the op that an event stands for; None where it is no op."""
    label = plane.event_metadata[event.metadata_id].name
    if label == _ASYNC_EVENT:
        return _statistic(plane, event, "name"), _statistic(plane, event, "kernel_type")
    if plane.name.startswith("/device:GPU"):
        label = _statistic(plane, event, "tf_op")
    match = _OP_EVENT.fullmatch(label)
    return (match["name"], match["op_type"]) if match else None


def _compiled_function(plane: Any, events: list[Any], op: Any) -> str | None:
    """Returns the name of the function that XLA compiled, where ``op`` called one."""
    if plane.event_metadata[op.metadata_id].name != _ASYNC_EVENT:
        return None
    for event in events:
        if op.offset_ps <= event.offset_ps < _end(op):
            match = _COMPILED.fullmatch(_statistic(plane, event, "hlo_module"))
            if match:
                return match["function"]
    return None


def _statistic(plane: Any, event: Any, name: str) -> str:
    """Returns a statistic of an event that is a text; empty where it has none such."""
    for stat in event.stats:
        if plane.stat_metadata[stat.metadata_id].name == name:
            return stat.str_value or plane.stat_metadata[stat.ref_value].name
    return ""


def _end(event: Any) -> int:
    return event.offset_ps + event.duration_ps


def _covered(events: Iterable[OpEvent]) -> float:
    """Returns the length of the union of the events' intervals, in seconds."""
    covered, reached = 0.0, 0.0
    for event in sorted(events, key=lambda event: event.start_s):
        end = event.start_s + event.duration_s
        covered += max(0.0, end - max(reached, event.start_s))
        reached = max(reached, end)
    return covered
