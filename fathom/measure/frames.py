"""Profiles and runs as tidy pandas frames: one row per observation.

All analyses read measurements from here. docs/report.md lists the columns.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from fathom.hardware.description.ops import op_class, paper_type
from fathom.measure.report import pairs
from fathom.measure.report.intervals import Interval
from fathom.results.characterization import Run
from fathom.results.distribution import Distribution
from fathom.results.profile import Profile
from fathom.results.records import RunResult

_WHAT_RAN = ("workload", "mode", "device", "threads", "precision")
OP_COLUMNS = (
    *("run", *_WHAT_RAN, "kernel", "type", "class", "layer", "phase", "on", "count"),
    *("tracing", "step", "seconds"),
)
LIFE_COLUMNS = ("run", *_WHAT_RAN, "type", "class", "run_steps", "window", "step", "seconds")
_CALL_COLUMNS = ("run", *_WHAT_RAN, "call", "count", "seconds")
STEP_COLUMNS = (
    *("run", *_WHAT_RAN, "step", "seconds", "input_wait", "loss", "work", "call", "counted"),
)
_LAYER_COLUMNS = (
    *("run", *_WHAT_RAN, "layer", "kind", "parameters", "macs", "activations", "reads_input"),
    *("forward_passes", "examples"),
)
WORK_COLUMNS = ("run", *_WHAT_RAN, "type", "layer", "phase", "flops", "bytes")
_SECTIONS = ("init", "load", "setup", "run", "evaluate")  # of a result
_PROCESSOR = ("involuntary_switches", "frequency_mhz", "steal_seconds")
_PROGRAM = ("xla", "microbatches")
GENERATION = (  # of inference that generates token by token
    *("prefill_tokens_per_second", "seconds_to_first_token"),
    *("decode_tokens_per_second", "seconds_per_output_token", "cache_bytes"),
)
_DISTRIBUTION = ("workers", "gradient_bytes", "sent_bytes", "collective_share")
_GPU_TIMES = ("kernel", "api", "memcpy")
_RUN_COLUMNS = (
    *("run", "kind", "purpose", *_WHAT_RAN, "on", "cores", "repeat", "batch_size"),
    *("chosen_batch_size", "status", "reason", "wall_s", "gpu"),
    *("cpu_share", "first_cpu_share", "disturbed", *_PROCESSOR, *_PROGRAM),
    # of a timing
    *("data", "settings", "parameters", "forward_macs", "flops", "median_s"),
    *("work_per_second", "work_varies", "examples_per_second", "flops_per_second"),
    *("joules_per_step", "flops_per_joule"),
    *(f"{name}_s" for name in _SECTIONS),
    *("peak_resident_bytes", "peak_gpu_bytes", *GENERATION, *_DISTRIBUTION),
    *("waiting_s", "link_bytes_per_second", "link_latency_s"),
    # of a profile
    *("profiled_steps", "step_s", "unprofiled_s", "compiled_s", "op_s", "outside_share"),
    *("overhead", "overhead_low", "overhead_high"),
    *(f"{name}_s" for name in (*_GPU_TIMES, *(f"process_{name}" for name in _GPU_TIMES))),
)
_INTEGERS = (
    *("threads", "cores", "repeat", "batch_size", "chosen_batch_size", "profiled_steps"),
    *("parameters", "forward_macs", "flops", "involuntary_switches"),
    *("peak_resident_bytes", "peak_gpu_bytes", "cache_bytes"),
    *("workers", "gradient_bytes", "microbatches"),
)


def profile_ops(profile: Profile, run: str = "") -> pd.DataFrame:
    """Returns one row per op type, layer, phase, device and step of a profile."""
    tracing = np.nan if profile.tracing_seconds_per_op is None else profile.tracing_seconds_per_op
    ops = pd.DataFrame(
        {
            "run": run,
            **_what_ran(profile),
            "kernel": op.type,
            "type": paper_type(op.type),
            "class": op_class(paper_type(op.type)),
            "layer": op.layer,
            "phase": op.phase,
            "on": op.on,
            "count": op.count,
            "tracing": tracing,
        }
        for op in profile.ops
    )
    frame = ops.loc[ops.index.repeat(profile.steps)].reset_index(drop=True)
    frame["step"] = np.tile(np.arange(profile.steps), len(ops))
    frame["seconds"] = np.ravel([op.seconds for op in profile.ops])
    return frame.reindex(columns=list(OP_COLUMNS))


def life_ops(profile: Profile, run: str = "") -> pd.DataFrame:
    """Returns one row per op type and step of a profile's windows over a whole run."""
    life = profile.life
    if life is None:
        return pd.DataFrame(columns=list(LIFE_COLUMNS))
    known = {"run": run, **_what_ran(profile), "run_steps": life.run_steps}
    each = [
        pd.DataFrame(
            {
                **known,
                "type": paper_type(op.type),
                "class": op_class(paper_type(op.type)),
                "window": life.windows,
                "step": life.numbers,
                "seconds": op.seconds / life.work,
            }
        )
        for op in life.ops
    ]
    by = [name for name in LIFE_COLUMNS if name != "seconds"]
    summed = joined(each, LIFE_COLUMNS).groupby(by, sort=False, as_index=False)
    return summed.agg({"seconds": "sum"})[list(LIFE_COLUMNS)]


def api_calls(runs: Iterable[Run]) -> pd.DataFrame:
    """Returns one row per function of a GPU's driver or runtime and profile."""
    rows = [
        {"run": run.id, **_what_ran(run.profile), "call": call.name, **dict(call)}
        for run in runs
        if run.profile and run.profile.gpu and run.profile.gpu.process
        for call in run.profile.gpu.process.calls
    ]
    return pd.DataFrame(rows, columns=list(_CALL_COLUMNS))


def overhead(profile: Profile) -> Interval:
    """Returns the profiler's relative overhead on a step; NaN if it was not measured.

    From pairs of steps by their ranks, which single disturbed steps hardly change; no interval with
    few pairs, nor for older files without pairs, of which it is the ratio of two medians.
    """
    traced, untraced = profile.traced_step_seconds, profile.unprofiled_step_seconds
    if len(traced):
        found = pairs.ratio(untraced.tolist(), traced.tolist())
        return Interval(found.value - 1, found.low - 1, found.high - 1)
    return Interval(_median(profile.step_seconds) / _median(untraced) - 1)


def layers(runs: Iterable[Run]) -> pd.DataFrame:
    """Returns one row per layer of the profiled networks."""
    rows = []
    for profile, name in ((run.profile, run.id) for run in runs if run.profile):
        examples = profile.batch_size * float(profile.work.mean())
        known = {"run": name, **_what_ran(profile), "examples": examples}
        rows += [{**known, "layer": layer.name, **dict(layer)} for layer in profile.cost.layers]
    return pd.DataFrame(rows, columns=list(_LAYER_COLUMNS))


def profile_work(profile: Profile, run: str = "") -> pd.DataFrame:
    """Returns one row per op type, layer and phase of a profile: the work of a mean step."""
    mean_work = float(profile.work.mean())
    rows = [
        {"run": run, **_what_ran(profile), **dict(each)}
        | {name: getattr(each, name) * mean_work for name in ("flops", "bytes")}
        for each in profile.op_work
    ]
    return pd.DataFrame(rows, columns=list(WORK_COLUMNS))


def runs(all_runs: Iterable[Run]) -> pd.DataFrame:
    """Returns one row per run, including failed ones, with missing values where necessary."""
    frame = pd.DataFrame([_run(run) for run in all_runs], columns=list(_RUN_COLUMNS))
    return frame.astype(dict.fromkeys(_INTEGERS, "Int64"))


def _run(run: Run) -> dict[str, object]:
    row = {name: getattr(run, name) for name in _RUN_COLUMNS if hasattr(run, name)}
    row |= {
        "run": run.id,
        "on": device_kind(run.device),
        "chosen_batch_size": run.batch_size,
        "gpu": run.environment and run.environment.gpu,
    }
    record = run.result or run.profile
    row |= {name: getattr(record.processor, name) for name in _PROCESSOR} if record else {}
    row |= {name: getattr(record.environment, name) for name in _PROGRAM} if record else {}
    row |= _timing(run.result) if run.result else {}
    return row | (_profile(run.profile) if run.profile else {})


def _timing(result: RunResult) -> dict[str, object]:
    """Returns the columns of a run from its result."""
    cost, hyperparameters, data = result.cost, result.hyperparameters, result.data
    flops = {"train": cost.training_flops_per_example, "infer": cost.forward_flops_per_example}
    same = data.name + (" (synthetic)" if data.kind == "synthetic" else "")
    return {
        "threads": result.environment.threads,
        "precision": result.environment.precision,
        "batch_size": hyperparameters.batch_size,
        "data": f"{data.name} ({data.kind})",
        "settings": hyperparameters.to_plain() | result.options.to_plain() | {"data": same},
        "parameters": cost.parameters,
        "forward_macs": cost.forward_macs_per_example,
        "flops": flops[result.mode],
        "median_s": result.steps.median,
        "work_per_second": result.steps.work_per_second,
        "work_varies": result.steps.work_varies,
        "examples_per_second": result.throughput.examples_per_second,
        "flops_per_second": result.throughput.flops_per_second,
        "joules_per_step": result.energy.joules_per_step,
        "flops_per_joule": result.energy.flops_per_joule,
        **{f"{name}_s": getattr(result.sections, name) or 0.0 for name in _SECTIONS},
        "peak_resident_bytes": result.memory.peak_resident_bytes,
        "peak_gpu_bytes": result.memory.peak_gpu_bytes,
        **{name: getattr(result.generation, name, None) for name in GENERATION},
        **_distribution(result.distribution),
    }


def _distribution(record: Distribution | None) -> dict[str, object]:
    """Returns the columns of a distributed training; missing values for any other."""
    link = record and record.link
    return {
        **{name: getattr(record, name, None) for name in _DISTRIBUTION},
        "waiting_s": max(record.waiting_seconds, default=None) if record else None,
        "link_bytes_per_second": link and link.bytes_per_second,
        "link_latency_s": link and link.latency_seconds,
    }


def _profile(profile: Profile) -> dict[str, object]:
    """Returns the columns of a run from its profile."""
    added = overhead(profile)
    process = profile.gpu.process if profile.gpu else None
    return {
        "threads": profile.threads,
        "precision": profile.precision,
        "batch_size": profile.batch_size,
        "profiled_steps": profile.steps,
        "step_s": _median(profile.step_seconds),
        "unprofiled_s": _median(profile.unprofiled_step_seconds),
        "compiled_s": _median(profile.compiled_step_seconds),
        "op_s": profile.op_seconds / profile.steps,
        "outside_share": profile.outside_share,
        "overhead": added.value,
        "overhead_low": added.low,
        "overhead_high": added.high,
        **{f"{n}_s": getattr(profile.gpu, f"{n}_seconds", np.nan) for n in _GPU_TIMES},
        **{f"process_{n}_s": getattr(process, f"{n}_seconds", np.nan) for n in _GPU_TIMES},
    }


def result_steps(result: RunResult, run: str) -> pd.DataFrame:
    """Returns one row per step of a timing."""
    steps, environment = result.steps, result.environment
    numbers = np.arange(len(steps.seconds))
    return pd.DataFrame(
        {
            "run": run,
            "workload": result.workload,
            "mode": result.mode,
            **{name: getattr(environment, name) for name in ("device", "threads", "precision")},
            "step": steps.first + numbers,
            "seconds": steps.seconds,
            "input_wait": steps.input_wait,
            "loss": steps.loss,
            "work": steps.work,
            "call": steps.call,
            "counted": np.isin(numbers, steps.numbers),
        }
    )


def _what_ran(profile: Profile) -> dict[str, object]:
    return {name: getattr(profile, name) for name in _WHAT_RAN}


def joined(frames: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    """Returns the rows of frames together; these columns even if there are none."""
    if not frames:
        return pd.DataFrame(columns=list(columns))
    return pd.concat(frames, ignore_index=True)[list(columns)]


def _median(seconds: np.ndarray) -> float:
    return float(np.median(seconds)) if len(seconds) else np.nan


def device_kind(device: str) -> str:
    """Returns ``cpu`` or ``gpu`` of a TensorFlow device."""
    return "gpu" if "gpu" in device.lower() else "cpu"
