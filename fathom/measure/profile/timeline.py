"""When the ops of one profiled step ran."""

from collections.abc import Sequence

import numpy as np

from fathom.measure.profile.chrome import Place
from fathom.measure.profile.xplane import OpEvent
from fathom.results.profile import OpTime, Timeline


def of_median_step(
    bounds: Sequence[tuple[float, float]],
    ops_by_step: Sequence[Sequence[OpEvent]],
    ops: Sequence[OpTime],
    place: Place,
) -> Timeline:
    """Returns the timeline of the step of median time.

    Args:
        bounds: start and end of each profiled step, in seconds.
        ops_by_step: the ops that ran in each.
        ops: the same, from ``add_up``.
        place: maps an op's name and type to its layer and phase; see ``Attribution.place``.
    """
    durations = [end - start for start, end in bounds]
    step = int(np.argsort(durations)[len(durations) // 2])
    events = sorted(ops_by_step[step], key=lambda event: (event.start_s, -event.duration_s))
    threads = sorted({event.line for event in events})
    order: dict[tuple[str, ...], int] = {
        (op.type, op.layer, op.phase, op.on): i for i, op in enumerate(ops)
    }
    keys = [
        (event.op_type, *place(event.name, event.op_type), "gpu" if event.on_gpu else "cpu")
        for event in events
    ]
    return Timeline(
        step=step,
        threads=tuple(threads),
        thread=tuple(threads.index(event.line) for event in events),
        op=tuple(order[key] for key in keys),
        start_seconds=np.array([event.start_s - bounds[step][0] for event in events]),
        seconds=np.array([event.duration_s for event in events]),
    )
