"""The rows of a profile's tables: op types by the paper's names, and layers."""

from dataclasses import dataclass

from fathom.characterize.profile import ops
from fathom.results.profile import PHASES, Profile


@dataclass(frozen=True)
class OpRow:
    """The time of one op type.

    Attributes:
        type, op_class: the paper's name and class, see ``ops``.
        kernels: the types that TensorFlow's profiler names, heaviest first.
        seconds: mean time a step.
        share, cumulative_share: of the time of all ops; its own, and with all heavier ones.
        count: occurrences a step.
    """

    type: str
    op_class: str
    kernels: tuple[str, ...]
    seconds: float
    share: float
    cumulative_share: float
    count: float


@dataclass(frozen=True)
class LayerRow:
    """The time of one layer or role.

    Attributes:
        layer: its name.
        seconds: mean time a step, by phase.
        share: of the time of all ops.
    """

    layer: str
    seconds: dict[str, float]
    share: float


def op_rows(profile: Profile) -> list[OpRow]:
    """Returns a profile's op types, heaviest first."""
    kernels: dict[str, list[str]] = {}
    seconds: dict[str, float] = {}
    for (kernel,), time in profile.seconds_by("type").items():
        kernels.setdefault(ops.paper_type(kernel), []).append(kernel)
        seconds[ops.paper_type(kernel)] = seconds.get(ops.paper_type(kernel), 0.0) + time
    total, reached, rows = sum(seconds.values()), 0.0, []
    for name, time in sorted(seconds.items(), key=lambda item: -item[1]):
        reached += time
        count = sum(op.count for op in profile.ops if ops.paper_type(op.type) == name)
        names = tuple(kernels[name])
        shares = _share(time, total), _share(reached, total)
        rows.append(OpRow(name, ops.op_class(name), names, time, *shares, count))
    return rows


def layer_rows(profile: Profile) -> list[LayerRow]:
    """Returns a profile's layers and roles, heaviest first."""
    by_layer: dict[str, dict[str, float]] = {}
    for (layer, phase), time in profile.seconds_by("layer", "phase").items():
        by_layer.setdefault(layer, dict.fromkeys(PHASES, 0.0))[phase] += time
    total = sum(time for phases in by_layer.values() for time in phases.values())
    rows = [LayerRow(layer, p, _share(sum(p.values()), total)) for layer, p in by_layer.items()]
    return sorted(rows, key=lambda row: -row.share)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
