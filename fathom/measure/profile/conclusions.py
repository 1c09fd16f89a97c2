"""What a profile says in three sentences: what takes the time, what limits it, what to try."""

import pandas as pd

from fathom.measure import frames
from fathom.measure.profile import tables
from fathom.results.profile import Profile

_BFLOAT16 = {"avx512_bf16", "amx_bf16"}  # instruction sets
_LIMITS = ("compute", "memory", "neither", "outside")


def sentences(profile: Profile) -> list[str]:
    """Returns the three sentences; what limits it only from a profile that has its roofs."""
    ops = frames.profile_ops(profile)
    if profile.roofs is None or not profile.op_work:
        return [_takes(profile, ops)]
    roofs = profile.roofs
    work = frames.profile_work(profile)
    table = tables.under_roofs(ops, work, roofs.flops_per_second, roofs.bytes_per_second)
    table = table[table.attainable > 0]
    limits = _limits(profile, table)
    limit = max(_LIMITS, key=lambda name: limits[name])
    return [_takes(profile, ops), _is_limited(limit, limits[limit], table), _try(limit, profile)]


def _takes(profile: Profile, ops: pd.DataFrame) -> str:
    types, layers = tables.op_types(ops), tables.layers(ops)
    second = f" and {types.type[1]} {types.share[1]:.0%}" if len(types) > 1 else ""
    return (
        f"{types.type[0]} takes {types.share[0]:.0%} of the time in ops{second}; the heaviest "
        f"layer or role is {layers.layer[0]} with {layers.share[0]:.0%}; no op runs in "
        f"{profile.outside_share:.0%} of the step."
    )


def _limits(profile: Profile, table: pd.DataFrame) -> dict[str, float]:
    """Returns the share of the step that each of ``_LIMITS`` limits.

    Ops under 1 % of the time in ops, and those without described work, are left out.
    """
    near = table.times <= tables.NEAR
    in_ops = table.share * (1 - profile.outside_share)
    shares = {bound: in_ops[near & (table.bound == bound)].sum() for bound in _LIMITS[:2]}
    far = in_ops[table.times > tables.NEAR].sum()
    return shares | {"neither": far, "outside": profile.outside_share}


def _is_limited(limit: str, share: float, table: pd.DataFrame) -> str:
    largest = f"The largest part of the step, {share:.0%}, "
    if limit == "neither":
        far = table[table.times > tables.NEAR].iloc[0]
        return (
            f"{largest}is in ops far from both roofs: {far.type} of {far.layer} ({far.phase}) "
            f"takes {far.times:.1f} times what arithmetic and memory allow."
        )
    why = {
        "compute": "is in ops near the processor's peak: its arithmetic limits them.",
        "memory": "is in ops near the memory's bandwidth: moving data limits them.",
        "outside": "has no op running: the calls of ops limit it.",
    }
    return largest + why[limit]


def _try(limit: str, profile: Profile) -> str:
    """Returns what may help against a limit, as options of a run."""
    has = profile.environment
    narrow = "--precision bfloat16" if _BFLOAT16 & {*has.cpu_flags} else ""
    narrow = narrow if profile.precision == "float32" else ""
    wider = "more --threads" if profile.threads < has.cores_available else ""
    larger = "a larger --batch-size, whose ops are larger"
    fused = "" if len(profile.compiled_step_seconds) else "--xla, which makes one op of several"
    advice = {
        "compute": [narrow, wider],
        "memory": [fused, narrow],
        "neither": [larger, fused],
        "outside": [fused, larger],
    }[limit]
    options = ", or ".join(filter(None, advice))
    return f"Try {options}." if options else "No option makes it faster: try a smaller network."
