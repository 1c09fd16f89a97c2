"""Traces in Chrome's trace event format, for Perfetto."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from fathom.hardware.description import ops
from fathom.measure.profile import xplane
from fathom.system.files import atomic_write
from fathom.system.private import XEvent, XPlane

Place: TypeAlias = Callable[[str, str], tuple[str, str]]  # layer and phase of an op's name and type

_MICROSECONDS = 1e-6  # per picosecond; the format's unit is microseconds


def write(trace: Path, place: Place, path: Path) -> None:
    """Writes a trace of TensorFlow's profiler as compressed JSON.

    Each thread and each GPU stream is a track; ops have their type, class, layer and phase.

    Args:
        trace: written by ``xplane.record``.
        place: maps an op's name and type to its layer and phase.
        path: the new file, ``.json.gz``.

    Raises:
        FathomError: the trace cannot be read, or the file cannot be written.
    """
    space = xplane.parse(trace)
    events = [
        event
        for process, plane in enumerate(space.planes, 1)
        for event in _plane_events(plane, process, place)
    ]
    document = {"displayTimeUnit": "ms", "traceEvents": events}
    with atomic_write(path) as temporary, gzip.open(temporary, "wt") as file:
        json.dump(document, file)


def _plane_events(plane: XPlane, process: int, place: Place) -> Iterator[dict[str, object]]:
    lines = [line for line in plane.lines if line.events and xplane.is_timed(plane, line)]
    if lines:
        yield _name("process_name", plane.name, process)
    for thread, line in enumerate(lines, 1):
        yield _name("thread_name", line.display_name or line.name, process, thread)
        for event in sorted(line.events, key=lambda event: (event.offset_ps, -event.duration_ps)):
            if event.duration_ps:  # the others are the runtime's counters and markers
                start = line.timestamp_ns * 1000 + event.offset_ps
                yield {
                    "ph": "X",
                    "pid": process,
                    "tid": thread,
                    "ts": start * _MICROSECONDS,
                    "dur": event.duration_ps * _MICROSECONDS,
                    **_label(plane, event, place),
                }


def _label(plane: XPlane, event: XEvent, place: Place) -> dict[str, object]:
    """Returns an event's label in Perfetto: an op's type, otherwise the event's name."""
    op = xplane.op_of(plane, event)
    if op is None:
        return {"name": plane.event_metadata[event.metadata_id].name}
    name, op_type = op
    layer, phase = place(name, op_type)
    paper_type = ops.paper_type(op_type)
    return {
        "name": op_type,
        "cat": phase,
        "args": {
            "op": name,
            "paper_type": paper_type,
            "class": ops.op_class(paper_type),
            "layer": layer,
        },
    }


def _name(kind: str, name: str, process: int, thread: int = 0) -> dict[str, object]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}
