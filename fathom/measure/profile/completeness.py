"""Checks that a trace has every op that ran."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from fathom.errors import FathomError
from fathom.measure.profile.xplane import OpEvent

Counts = Counter[tuple[str, str]]  # executions of each op by name and type


def counts_of(ops: Iterable[OpEvent]) -> Counts:
    """Returns the executions of each op of a step."""
    return Counter((op.name, op.op_type) for op in ops)


def require_equal_ops(
    steps: Sequence[Counts],
    batches: Sequence[Hashable],
    whole: Mapping[int, Counts] | None = None,
) -> None:
    """Refuses an incomplete trace: steps on equal batches must have the same ops.

    Args:
        steps: the ops of each step.
        batches: what identifies the step's batch, such as its number or its shapes.
        whole: by batch, the ops of the step's graph when an executor first ran it, which traces
            them all; None: the steps are compared with each other alone.

    Raises:
        FathomError: a step's ops differ from those of its graph, or of the first step on an equal
            batch.
    """
    expected: dict[Hashable, tuple[str, Counts]] = {
        batch: ("its graph", ops) for batch, ops in (whole or {}).items()
    }
    for number, (now, batch) in enumerate(zip(steps, batches, strict=True)):
        source, before = expected.setdefault(batch, (f"step {number}, on an equal batch,", now))
        if before != now:
            different = next(iter((before - now) + (now - before)))
            raise FathomError(
                f"the trace is incomplete: step {number} has {now.total():,} ops, and {source} "
                f"{before.total():,}; they differ in {different[0]} ({different[1]}); profile again"
            )
