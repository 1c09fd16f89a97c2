"""Builds traces as TensorFlow's profiler writes them, with known times."""

from collections import Counter

from fathom.system import private

MICROSECOND = 1_000_000  # in picoseconds
EPOCH_NS = 1_700_000_000_000_000_000


class TraceBuilder:
    """A trace under construction; ``plane`` and ``line`` choose where the next events go."""

    def __init__(self):
        self.space = private.parse_trace(b"")

    def plane(self, name):
        self._plane = self.space.planes.add(name=name)
        return self

    def line(self, name, timestamp_ns=EPOCH_NS):
        self._line = self._plane.lines.add(name=name, timestamp_ns=timestamp_ns)
        return self

    def event(self, label, start_us, duration_us, **statistics):
        key = len(self._plane.event_metadata) + 1
        self._plane.event_metadata[key].name = label
        event = self._line.events.add(
            metadata_id=key,
            offset_ps=int(start_us * MICROSECOND),
            duration_ps=int(duration_us * MICROSECOND),
        )
        for name, value in statistics.items():
            stat = len(self._plane.stat_metadata) + 1
            self._plane.stat_metadata[stat].name = name
            event.stats.add(metadata_id=stat, str_value=value)
        return self

    def step(self, start_us, duration_us):
        return self.event("fathom_step", start_us, duration_us)

    def write(self, directory):
        path = directory / "built.xplane.pb"
        path.write_bytes(self.space.SerializeToString())
        return path


def own_times(ops):
    """The seconds of ops by type, without those of ops in them."""
    times = Counter()
    for op in ops:
        times[op.op_type] += op.self_s
    return dict(times)
