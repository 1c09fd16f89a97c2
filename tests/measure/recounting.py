"""Counts a trace by code that shares nothing with fathom.measure.profile.xplane."""

from collections import Counter

from tensorflow.tsl.profiler.protobuf import xplane_pb2


def recount(path, marked=True):
    """Returns op seconds by type and the number of ops of all steps, or of the marked ones.

    An op's time is its own, without that of ops inside it on the same thread.
    """
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    (host,) = [plane for plane in space.planes if plane.name == "/host:CPU"]
    labels = {key: metadata.name for key, metadata in host.event_metadata.items()}
    spans = [
        (thread, labels[event.metadata_id], line.timestamp_ns * 1000 + event.offset_ps, event)
        for thread, line in enumerate(host.lines)
        if not line.name.startswith("tf_data")  # the input pipeline's
        for event in line.events
    ]
    steps = [
        (start, start + e.duration_ps) for _, label, start, e in spans if label == "fathom_step"
    ]
    ops = [
        (thread, start, -event.duration_ps, label.split(":")[1])
        for thread, label, start, event in spans
        if label.count(":") == 1
        and " " not in label
        and (not marked or any(begin <= start < end for begin, end in steps))
    ]
    seconds = Counter()
    open_ops = []  # of one thread, each inside the one before
    for thread, start, minus_duration, op_type in sorted(ops):
        while open_ops and open_ops[-1][:2] < (thread, start + 1):
            open_ops.pop()
        seconds[op_type] -= minus_duration * 1e-12
        if open_ops:
            seconds[open_ops[-1][2]] += minus_duration * 1e-12
        open_ops.append((thread, start - minus_duration, op_type))
    return dict(seconds), len(ops)
