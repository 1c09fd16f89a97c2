"""Traces in Chrome's trace event format, for Perfetto."""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from fathom.hardware.description import ops
from fathom.measure.profile import xplane
from fathom.system.files import atomic_write
from fathom.system.private import XEvent, XPlane

Place: TypeAlias = Callable[[str, str], tuple[str, str]]  # layer and phase of an op's name and type


def write(trace: Path, place: Place, path: Path) -> None:
    """Writes a trace of TensorFlow's profiler as compressed JSON.

    Each thread and each GPU stream is a track; ops have their type, class, layer and phase.

    Raises:
        FathomError: the trace cannot be read, or the file cannot be written.
    """
    space = xplane.parse(trace)
    timed = [line for plane in space.planes for line in plane.lines if xplane.is_timed(plane, line)]
    origin = min((xplane.start_ps(line, each) for line in timed for each in line.events), default=0)
    events = [
        event
        for process, plane in enumerate(space.planes, 1)
        for event in _plane_events(plane, process, place, origin)
    ]
    document = {"displayTimeUnit": "ms", "traceEvents": events}
    with atomic_write(path) as temporary, gzip.open(temporary, "wt") as file:
        json.dump(document, file)


def _plane_events(
    plane: XPlane, process: int, place: Place, origin: int
) -> Iterator[dict[str, object]]:
    lines = [line for line in plane.lines if line.events and xplane.is_timed(plane, line)]
    if lines:
        yield _name("process_name", plane.name, process)
    tracks = ((line, events) for line in lines for events in _nested(line.events))
    for thread, (line, events) in enumerate(tracks, 1):
        before = origin - 1000 * line.timestamp_ns
        yield _name("thread_name", line.display_name or line.name, process, thread)
        for event in events:
            # In whole nanoseconds, as Perfetto counts: slices that nest still do.
            start, end = ((ps - before) // 1000 for ps in _span(event))
            yield {
                "ph": "X",
                "pid": process,
                "tid": thread,
                "ts": start / 1000,
                "dur": (end - start) / 1000,
                **_label(plane, event, place),
            }


def _nested(events: Iterable[XEvent]) -> list[list[XEvent]]:
    """Distributes a thread's events to tracks so that those on a track nest or follow each other.

    Perfetto requires this, and asynchronous ops are not so.
    """
    tracks: list[tuple[list[XEvent], list[int]]] = []  # with the ends of the events still open
    timed = (event for event in events if event.duration_ps)  # the others are the runtime's markers
    for event in sorted(timed, key=lambda event: (event.offset_ps, -event.duration_ps)):
        start, end = _span(event)
        for track, ends in tracks:
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or end <= ends[-1]:
                track.append(event)
                ends.append(end)
                break
        else:
            tracks.append(([event], [end]))
    return [track for track, _ in tracks]


def _span(event: XEvent) -> tuple[int, int]:
    return event.offset_ps, event.offset_ps + event.duration_ps


def _label(plane: XPlane, event: XEvent, place: Place) -> dict[str, object]:
    """Returns an event's label in Perfetto: an op's type, otherwise the event's name."""
    op = xplane.op_of(plane, event)
    if op is None:
        number = xplane.step_number(plane, event)
        name = plane.event_metadata[event.metadata_id].name
        return {"name": name if number is None else f"step {number}"}
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
