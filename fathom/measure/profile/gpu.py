"""The use of a GPU, from traces: Minsky's Table 1."""

import contextlib
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fathom.measure.profile import xplane
from fathom.results.profile import time_of_calls
from fathom.system.device import Device
from fathom.system.private import XEvent, XPlane

_API_CALL = re.compile(r"cu(da)?[A-Z]\w*")
_PICOSECOND = 1e-12


@dataclass
class GpuUse:
    """The time of a GPU, and of the host's calls of its driver and runtime.

    A call within a call counts for itself.
    """

    kernel_seconds: float = 0.0
    memcpy_seconds: float = 0.0  # of copies
    calls: dict[str, tuple[int, float]] = field(default_factory=dict)  # number, seconds by name

    @property
    def api_seconds(self) -> float | None:
        """Time of all calls; see ``time_of_calls``."""
        seconds = {name: seconds for name, (_, seconds) in self.calls.items()}
        return time_of_calls(self.kernel_seconds, seconds)

    def add(self, other: "GpuUse") -> None:
        """Adds the use of another trace."""
        self.kernel_seconds += other.kernel_seconds
        self.memcpy_seconds += other.memcpy_seconds
        for name, (count, seconds) in other.calls.items():
            self._add_call(name, count, seconds)

    def _add_call(self, name: str, count: int, seconds: float) -> None:
        before = self.calls.get(name, (0, 0.0))
        self.calls[name] = before[0] + count, before[1] + seconds


def read(path: Path) -> tuple[GpuUse, GpuUse]:
    """Reads the use of the GPU from a trace: in the marked steps, and in the whole trace.

    Raises:
        FathomError: the file cannot be read or is not a complete trace.
    """
    lines = xplane.timed_lines(path)
    steps = [mark for plane, line in lines for mark in xplane.step_marks(plane, line)]
    in_steps, whole = GpuUse(), GpuUse()
    for plane, line in lines:
        started_in_steps = [
            event
            for event in line.events
            if any(start <= xplane.start_ps(line, event) < end for start, end in steps)
        ]
        _add_events(in_steps, plane, started_in_steps)
        _add_events(whole, plane, line.events)
    return in_steps, whole


def _add_events(use: GpuUse, plane: XPlane, events: Iterable[XEvent]) -> None:
    named = [(plane.event_metadata[event.metadata_id].name, event) for event in events]
    if plane.name.startswith("/device:GPU"):
        for name, event in named:
            if name.startswith("Memcpy"):
                use.memcpy_seconds += event.duration_ps * _PICOSECOND
            elif name != "Memset":
                use.kernel_seconds += event.duration_ps * _PICOSECOND
        return
    calls = [(name, event) for name, event in named if _API_CALL.fullmatch(name)]
    calls.sort(key=lambda call: (call[1].offset_ps, -call[1].duration_ps))
    own = xplane.self_times([event for _, event in calls])
    for (name, _), picoseconds in zip(calls, own, strict=True):
        use._add_call(name, 1, picoseconds * _PICOSECOND)


class Sessions:
    """The profiler's sessions in this process; on a GPU, their use of it is added up."""

    def __init__(self, device: Device) -> None:
        self.gpu = GpuUse() if device.on_gpu else None  # in all sessions so far

    @contextlib.contextmanager
    def session(self, save_to: Path | None = None) -> Iterator[None]:
        """Runs the profiler in the block, as ``xplane.profiling``."""
        with tempfile.TemporaryDirectory() as temporary:
            path = save_to or (Path(temporary, "trace") if self.gpu else None)
            with xplane.profiling(path):
                yield
            if self.gpu and path:
                self.gpu.add(read(path)[1])

    def on_gpu(self) -> contextlib.AbstractContextManager[None]:
        """Runs the profiler in the block if the model runs on a GPU."""
        return self.session() if self.gpu else contextlib.nullcontext()
