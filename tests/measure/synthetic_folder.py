"""Makes profiles, runs and folders with known answers."""

from pathlib import Path

import numpy as np
import pandas as pd

from fathom.hardware.description.ops import paper_type
from fathom.measure import frames
from fathom.measure.report import published
from fathom.measure.runs.folder import Folder, write_run
from fathom.results.characterization import Machine, Run
from fathom.results.profile import Life, OpTime, OpWork, Profile, SampledOp, Timeline
from fathom.results.steps import Steps

ENVIRONMENT = {
    "cpu_model": "Test CPU",
    "cpu_generation": None,
    "onednn": None,
    "cpu_flags": ["avx2", "fma"],
    "cores_available": 4,
    "memory_bytes": 8 * 2**30,
    "platform": "Linux",
    "python": "3.11.9",
    "tensorflow": "2.21.0",
    "keras": "3.12.0",
    "numpy": "2.3.5",
    "cuda": "12.5.1",
    "cudnn": "9",
    "switches": {},
    "gpu": None,
    "gpu_number": None,
    "gpus_visible": None,
    "device": "/cpu:0",
    "threads": 4,
    "intra_op_threads": 4,
    "inter_op_threads": 1,
    "microbatches": 1,
    "precision": "float32",
    "xla": "off",
    "git_commit": None,
    "fathom": None,
    "source": None,
    "command": "python",
}
MACHINE = Machine(
    environment=ENVIRONMENT,
    gemm_flops_per_second={"1": 1e11, "2": 2e11, "4": 4e11},
    triad_bytes_per_second={"1": 1e10, "2": 2e10, "4": 2e10},
)
SECTIONS = {"import": 2.0, "init": 0.5, "load": 0.5, "setup": 1.0, "run": 5.0, "wall": 9.5}
WORKLOADS = tuple(published.breakdown().index)
LAYERS = [
    {
        "name": name,
        "kind": "Dense",
        "output_shape": (10,),
        "parameters": 110,
        "macs": 100,
        "activations": 10,
        "reads_input": name == "fc1",
    }
    for name in ("fc1", "fc2")
]
COST = {
    "parameters": 220,
    "forward_macs_per_example": 200,
    "forward_flops_per_example": 400,
    "training_flops_per_example": 1000,
}


def op(op_type, seconds, layer="fc1", phase="forward", on="cpu", count=1):
    seconds = np.asarray(seconds, np.float64)
    return OpTime(type=op_type, layer=layer, phase=phase, on=on, seconds=seconds, count=count)


def life(numbers, work=1.0, **seconds):
    """Windows of two steps each over a run; the time of each op type is that of a unit of work."""
    n = len(numbers)
    ops = (
        SampledOp(type=name, seconds=np.asarray(each, np.float64) * work, count=1)
        for name, each in seconds.items()
    )
    return Life(
        run_steps=max(numbers) + 1,
        numbers=tuple(numbers),
        windows=tuple(i // 2 for i in range(n)),
        step_seconds=np.ones(n),
        work=np.full(n, work),
        ops=tuple(ops),
    )


def timeline(ops):
    """The timeline of the first step of a profile whose ops run one after another."""
    seconds = np.array([each.seconds[0] for each in ops])
    return Timeline(
        step=0,
        threads=("main",),
        thread=(0,) * len(seconds),
        op=tuple(range(len(seconds))),
        start_seconds=np.cumsum(seconds) - seconds,
        seconds=seconds,
    )


def profile(ops, workload="autoenc", threads=1, mode="train", device="/cpu:0", **changes):
    """A profile whose steps take 1.25 times the time of their ops, but for ops that take none."""
    ops = tuple(ops)
    in_ops = sum(each.seconds for each in ops)
    step_seconds = np.where(in_ops > 0, in_ops * 1.25, 1.0)
    fields = {
        "workload": workload,
        "mode": mode,
        "batch_size": 8,
        "threads": threads,
        "device": device,
        "precision": "float32",
        "step_seconds": step_seconds,
        "unprofiled_step_seconds": step_seconds / 1.1,
        "compiled_step_seconds": np.array([]),
        "outside_seconds": in_ops * 0.25,
        "work": np.ones(len(in_ops)),
        "ops": ops,
        "timeline": timeline(ops),
        "gpu": None,
        "cost": COST | {"layers": LAYERS},
        "environment": ENVIRONMENT,
    }
    return Profile(**fields | changes)


def paper_profile(workload, threads=1, steps=6, seed=0, **changes):
    """A profile with the shares of the paper's row; types that scale do so perfectly."""
    noise = np.random.default_rng(seed).normal(1, 0.01, steps)
    scales = {"MatMul", "Conv2D", "Conv2DBackFilter", "Conv2DBackInput"}
    ops = [
        op(
            {"Add": "AddV2", "ApplyAdam": "ResourceApplyAdam"}.get(op_type, op_type),
            noise * percent / 1e3 / (threads if op_type in scales else 1),
            *_place(op_type),
        )
        for op_type, percent in published.breakdown().loc[workload].items()
        if percent
    ]
    work = tuple(
        OpWork(
            type=paper_type(each.type), layer=each.layer, phase=each.phase, flops=10**6, bytes=10**5
        )
        for each in ops
    )
    return profile(ops, workload, threads, **{"op_work": work} | changes)


def long_names(workload, **changes):
    """A profile with many types and layers whose names are long."""
    ops = [
        op(f"AnOpTypeWithALongName{i}", [1.0 / (i + 1)] * 6, f"a_layer_with_a_very_long_name_{i}")
        for i in range(15)
    ]
    return profile(ops, workload, **changes)


def steps(seconds, work=1.0, call=()):
    """The steps of a result document, the first of them warm-up; ``work`` of each, or of all."""
    n = len(seconds)
    return Steps(
        first=0,
        warmup=1,
        seconds=list(seconds),
        input_wait=[0.001] * n,
        loss=[1.5] * n,
        work=np.broadcast_to(work, n).astype(float).tolist(),
        call=list(call),
    ).to_plain()


def result(seconds=0.1, mode="train", batch_size=8, cpu_seconds=None, **environment):
    """A result document of ten steps that all take about as long, together of this CPU time."""
    each = [seconds * (1 + 0.01 * (i % 3 - 1)) for i in range(10)]
    return {
        "schema": 1,
        "workload": "autoenc",
        "mode": mode,
        "data": {"name": "mnist", "directory": "data", "kind": "synthetic"},
        "hyperparameters": {"batch_size": batch_size, "hidden": 500},
        "seed": 0,
        "environment": ENVIRONMENT | environment,
        "sections": dict(SECTIONS),
        "steps": steps(each),
        "throughput": {
            "example": "image",
            "examples_per_second": batch_size / seconds,
            "examples_per_second_with_input": batch_size / (seconds + 0.001),
            "flops_per_second": 2e11,
        },
        "cost": dict(COST),
        "memory": {"peak_resident_bytes": 2**30, "peak_gpu_bytes": None},
        "processor": {
            "cpu_seconds": cpu_seconds,
            "wall_seconds": sum(each),
            "involuntary_switches": 7,
            "frequency_mhz": 2600.0,
            "steal_seconds": 0.5,
        },
        "metrics": {},
    }


def run(workload="autoenc", purpose=("modes",), **changes):
    """A timing run, a profile run or a failed one, by what ``changes`` has."""
    kind = "profile" if "profile" in changes else "timing"
    fields = {
        "kind": kind,
        "purpose": purpose,
        "workload": workload,
        "mode": "train",
        "device": "/cpu:0",
        "threads": None,
        "cores": 4,
        "repeat": 0,
        "precision": "float32",
        "batch_size": None,
        "argv": ("python",),
        "status": "done",
        "reason": None,
        "wall_s": 10.0,
        "result": result() if kind == "timing" else None,
        "profile": None,
    } | changes
    if fields["profile"]:
        fields |= {name: getattr(fields["profile"], name) for name in ("mode", "threads", "device")}
    if fields["result"]:
        fields["result"] = fields["result"] | {"workload": workload, "mode": fields["mode"]}
    if fields["status"] == "failed":
        fields |= {"result": None, "profile": None}
    parts = ("workload", "mode", "kind", "threads", "cores", "repeat")
    name = "-".join([*(str(fields[part]) for part in parts), fields["device"].strip("/")])
    return Run(**{"id": name.replace(":", "")} | fields)


def folder(runs, machine=MACHINE, path=Path("nowhere")):
    """A folder of runs that was never written."""
    return Folder(path, machine, tuple(runs))


def ops_of(*profiles):
    """The op times of profiles, as a folder has them."""
    return pd.concat([frames.profile_ops(p, str(i)) for i, p in enumerate(profiles)])


def runs_of(*runs):
    """The frame of runs, as a folder has it."""
    return folder(runs).runs_frame()


def write(path, runs, machine=MACHINE):
    """Writes a folder of runs and returns its path."""
    (path / "runs").mkdir(parents=True, exist_ok=True)
    machine.write(path / "machine.json")
    for each in runs:
        write_run(each, path)
    return path


def suite(workloads=WORKLOADS, device="/cpu:0"):
    """All runs of a characterization of these workloads; steps are twice as fast on two cores."""
    runs = []
    for workload in workloads:
        for mode, seconds in (("train", 0.3), ("infer", 0.1)):
            runs.append(run(workload, mode=mode, device=device, result=result(seconds, mode)))
        for threads in (1, 2, 4):
            purpose = ("profile", "threads") if threads == 1 else ("threads",)
            runs.append(run(workload, purpose, profile=paper_profile(workload, threads)))
        for cores, seconds in ((1, 0.4), (2, 0.2)):
            runs.append(run(workload, ("cores",), cores=cores, result=result(seconds)))
        for repeat in (1, 2, 3):
            wall_s = 9.0 + repeat / 2
            runs.append(
                run(workload, ("repeats",), repeat=repeat, wall_s=wall_s, result=result(0.3))
            )
        for size in (1, 4, 16):
            swept = {"id": f"{workload}-batch{size}", "batch_size": size}
            runs.append(run(workload, ("batches",), result=result(0.1, batch_size=size), **swept))
    return runs


def _place(op_type):
    """Returns layer and phase of a type in ``paper_profile``."""
    if op_type.startswith("Apply"):
        return "optimizer", "optimizer"
    if op_type == "CrossEntropy":
        return "loss", "forward"
    return ("fc2", "backward") if "Back" in op_type or "Grad" in op_type else ("fc1", "forward")
