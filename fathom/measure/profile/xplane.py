"""Reads op events from traces of TensorFlow's profiler.

The executor records each op as an event ``layer/scope/name:OpType`` on the line of its thread;
asynchronous ops, such as calls of functions compiled by XLA, as an event
``ExecutorState::ProcessAsync::Start`` whose statistics have the name and the type. A compiled
function's type is its Python name, from its kernels' statistics. A GPU's plane has a line for each
stream; a kernel's statistics name the op that launched it. Other events are the runtime's.
"""

import contextlib
import itertools
import re
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError

from fathom.errors import FathomError
from fathom.system import private
from fathom.system.files import atomic_write, read_file
from fathom.system.private import Metadata, XEvent, XLine, XPlane, XSpace

_LARGEST = 2**31  # bytes of a trace: protobuf's limit
_STEP_EVENT = "fathom_step"
_OP_EVENT = re.compile(r"(?P<name>[^:\s]+):(?P<op_type>[A-Za-z_]\w*)")
_ASYNC_EVENT = "ExecutorState::ProcessAsync::Start"
_COMPILED = re.compile(r"a_inference_(?P<function>\w+?)_\d+__.*")
_INPUT_THREADS = "tf_data_"  # of the input pipeline, whose ops are in no step
_PICOSECOND = 1e-12


@dataclass(frozen=True)
class OpEvent:
    """One execution of one op on one thread, or one of its kernels on one GPU stream."""

    name: str  # the op's name with its scopes, ``layer/scope/name``
    op_type: str  # the type of the kernel that ran, as TensorFlow calls it
    start_s: float  # seconds since the first event of the trace
    duration_s: float  # seconds from start to end
    self_s: float  # ``duration_s`` without ops nested in this one on the same line
    line: str  # plane and thread or stream

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
    """The contents of a trace."""

    ops: tuple[OpEvent, ...]  # on the host's threads and the GPUs' streams
    steps: tuple[tuple[float, float], ...]  # start and end of each marked one, as ``start_s``

    def ops_by_step(self) -> list[list[OpEvent]]:
        """Returns the ops that started within each step, each once, with its own time.

        The host event of an op that launched GPU kernels covers only the launch. It is left out, so
        that the op's time is that of its kernels.
        """
        launched = {op.name for op in self.ops if op.on_gpu}
        counted = [op for op in self.ops if op.on_gpu or op.name not in launched]
        return [[op for op in counted if start <= op.start_s < end] for start, end in self.steps]

    def outside_seconds(self) -> list[float]:
        """Returns the time in each step without any op running."""
        ops = sorted(self.ops, key=lambda op: op.start_s)
        return [end - start - _covered(ops, start, end) for start, end in self.steps]


@contextlib.contextmanager
def profiling(save_to: Path | None = None) -> Iterator[None]:
    """Runs TensorFlow's profiler in the block.

    The executor stops tracing ops that it classifies as cheap, which it does only during untraced
    executions: after about 90 of them, cheap ops are missing from all later traces. So the profiler
    must run from the first execution of a step to the last one of interest.

    Args:
        save_to: file for the trace; None: discard it.

    Raises:
        FathomError: the profiler is already in use, or the trace cannot be written.
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


def marked(number: int) -> contextlib.AbstractContextManager[None]:
    """Marks what runs in the block as a step."""
    return tf.profiler.experimental.Trace(_STEP_EVENT, step_num=number, _r=1)


def record(step: Callable[[], object], n_steps: int, path: Path) -> None:
    """Traces some steps and marks each of them.

    They follow one unmarked step, in which the profiler starts up. ``step`` waits for its end, and
    was executed only inside ``profiling`` so far.

    Raises:
        FathomError: the profiler is already in use, or the trace cannot be written.
    """
    with profiling(path):
        step()
        for number in range(n_steps):
            with marked(number):
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
        FathomError: the file cannot be read or is not a complete trace.
    """
    lines = timed_lines(path)
    origin = min((start_ps(line, e) for _, line in lines for e in line.events), default=0)
    steps = sorted(mark for plane, line in lines for mark in step_marks(plane, line))
    return Trace(
        ops=tuple(
            op
            for plane, line in lines
            if not line.name.startswith(_INPUT_THREADS)
            for op in _op_events(plane, line, origin)
        ),
        steps=tuple(
            ((start - origin) * _PICOSECOND, (end - origin) * _PICOSECOND) for start, end in steps
        ),
    )


def join(paths: Iterable[Path], out: Path) -> None:
    """Joins the traces of sessions, in the order of time, into one as if of a single session.

    Raises:
        FathomError: a file cannot be read or is not a complete trace, or cannot be written.
    """
    whole, *others = map(parse, paths)
    for space in others:
        later_ns = _started_ns(space) - _started_ns(whole)
        for plane in space.planes:
            known = next((each for each in whole.planes if each.name == plane.name), None)
            _append(plane, known or whole.planes.add(id=plane.id, name=plane.name), later_ns)
    with atomic_write(out) as temporary:
        temporary.write_bytes(whole.SerializeToString())


def _started_ns(space: XSpace) -> int:
    """Returns when a session began, from which its times count; 0 if it does not tell."""
    for plane in space.planes:
        for stat in plane.stats:
            if plane.stat_metadata[stat.metadata_id].name == "profile_start_time":
                return int(stat.uint64_value)
    return 0


def _append(plane: XPlane, whole: XPlane, later_ns: int) -> None:
    """Adds a plane's events to that of a session which began earlier, by its numbers of names."""
    events = _renumbered(plane.event_metadata, whole.event_metadata)
    stats = _renumbered(plane.stat_metadata, whole.stat_metadata)
    lines = {(line.id, line.name): line for line in whole.lines}
    for line in plane.lines:
        if (line.id, line.name) in lines:
            known = lines[line.id, line.name]
        else:
            known = whole.lines.add()
            known.CopyFrom(line)
            known.ClearField("events")
        later = 1000 * (line.timestamp_ns - known.timestamp_ns + later_ns)
        for event in line.events:
            event.metadata_id = events[event.metadata_id]
            event.offset_ps += later
            for stat in event.stats:
                stat.metadata_id = stats[stat.metadata_id]
                if stat.HasField("ref_value"):
                    stat.ref_value = stats[stat.ref_value]
        known.events.MergeFrom(line.events)


def _renumbered(names: Metadata, known: Metadata) -> dict[int, int]:
    """Adds names to known ones; returns the number of each there by its own."""
    numbers = {each.name: number for number, each in known.items()}
    unused = itertools.count(max(known, default=0) + 1)
    for each in names.values():
        if each.name not in numbers:
            number = numbers[each.name] = next(unused)
            known[number].CopyFrom(each)
            known[number].id = number
    return {number: numbers[each.name] for number, each in names.items()}


def timed_lines(path: Path) -> list[tuple[XPlane, XLine]]:
    """Returns the planes and lines of a trace's host threads and GPU streams.

    Raises:
        FathomError: the file cannot be read or is not a complete trace.
    """
    return [
        (plane, line)
        for plane in parse(path).planes
        for line in plane.lines
        if line.events and is_timed(plane, line)
    ]


def parse(path: Path) -> XSpace:
    """Returns the ``XSpace`` of a trace file.

    Raises:
        FathomError: the file cannot be read or is not a complete trace.
    """
    try:
        space = private.parse_trace(read_file(path, _LARGEST))
    except DecodeError as error:
        raise FathomError(f"{path} is truncated or not a profiler trace: profile again") from error
    if not space.planes:
        raise FathomError(f"{path} is empty or not a profiler trace: take it again")
    return space


def is_timed(plane: XPlane, line: XLine) -> bool:
    """Returns whether a line is a host thread or a GPU stream.

    A GPU's plane may have other lines that repeat the same events by step or by op.
    """
    if plane.name.startswith("/device:GPU"):
        return line.name.startswith("Stream")
    return plane.name.startswith("/host:")


def op_of(plane: XPlane, event: XEvent) -> tuple[str, str] | None:
    """Returns the name and type of an event's op; None if it is not an op."""
    label = plane.event_metadata[event.metadata_id].name
    if label == _ASYNC_EVENT:
        return _statistic(plane, event, "name"), _statistic(plane, event, "kernel_type")
    if plane.name.startswith("/device:GPU"):
        label = _statistic(plane, event, "tf_op")
    match = _OP_EVENT.fullmatch(label)
    return (match["name"], match["op_type"]) if match else None


def start_ps(line: XLine, event: XEvent) -> int:
    """Returns an event's start in integer picoseconds: a float would lose the last digits."""
    return line.timestamp_ns * 1000 + event.offset_ps


def _end(event: XEvent) -> int:
    return event.offset_ps + event.duration_ps


def _op_events(plane: XPlane, line: XLine, origin: int) -> Iterator[OpEvent]:
    """Yields the op events of one line, with their self times."""
    events = sorted(line.events, key=lambda event: (event.offset_ps, -event.duration_ps))
    ops = [(event, *op) for event in events if (op := op_of(plane, event))]
    self_ps = self_times([event for event, _, _ in ops])
    for (event, name, op_type), own in zip(ops, self_ps, strict=True):
        yield OpEvent(
            name=name,
            op_type=_compiled_function(plane, events, event) or op_type,
            start_s=(start_ps(line, event) - origin) * _PICOSECOND,
            duration_s=event.duration_ps * _PICOSECOND,
            self_s=own * _PICOSECOND,
            line=f"{plane.name}/{line.name}",
        )


def self_times(events: list[XEvent]) -> list[int]:
    """Returns the time of each event without nested ones; events sorted by start, longest first."""
    self_ps = [event.duration_ps for event in events]
    enclosing: list[int] = []  # the events that enclose the current one, outermost first
    for i, event in enumerate(events):
        while enclosing and _end(events[enclosing[-1]]) <= event.offset_ps:
            enclosing.pop()
        if enclosing:
            parent_end = _end(events[enclosing[-1]])
            self_ps[enclosing[-1]] -= min(_end(event), parent_end) - event.offset_ps
        enclosing.append(i)
    return self_ps


def _compiled_function(plane: XPlane, events: list[XEvent], op: XEvent) -> str | None:
    """Returns the name of the XLA-compiled function that ``op`` called, if any.

    The events are all of the op's line, sorted by start. A GPU's kernel names its function itself.
    """
    if plane.name.startswith("/device:GPU"):
        within = [op]
    elif plane.event_metadata[op.metadata_id].name == _ASYNC_EVENT:
        first = bisect_left(events, op.offset_ps, key=lambda event: event.offset_ps)
        last = bisect_left(events, _end(op), key=lambda event: event.offset_ps)
        within = events[first:last]
    else:
        return None
    for event in within:
        match = _COMPILED.fullmatch(_statistic(plane, event, "hlo_module"))
        if match:
            return match["function"]
    return None


def step_marks(plane: XPlane, line: XLine) -> Iterator[tuple[int, int]]:
    """Yields the start and end of each step, in picoseconds."""
    for event in line.events:
        if plane.event_metadata[event.metadata_id].name == _STEP_EVENT:
            start = start_ps(line, event)
            yield start, start + event.duration_ps


def step_number(plane: XPlane, event: XEvent) -> int | None:
    """Returns the number of the step that an event marks; None if it marks none."""
    if plane.event_metadata[event.metadata_id].name != _STEP_EVENT:
        return None
    values = {plane.stat_metadata[stat.metadata_id].name: stat.int64_value for stat in event.stats}
    return values.get("step_num")


def _statistic(plane: XPlane, event: XEvent, name: str) -> str:
    """Returns a text statistic of an event; empty if it has none."""
    for stat in event.stats:
        if plane.stat_metadata[stat.metadata_id].name == name:
            return stat.str_value or plane.stat_metadata[stat.ref_value].name
    return ""


def _covered(ops: Iterable[OpEvent], start: float, end: float) -> float:
    """Returns the seconds between start and end with any op running; ops sorted by start."""
    covered, reached = 0.0, start
    for op in ops:
        if op.end_s > reached and op.start_s < end:
            covered += min(op.end_s, end) - max(reached, op.start_s)
            reached = min(op.end_s, end)
    return covered
