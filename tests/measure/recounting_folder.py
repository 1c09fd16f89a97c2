"""Writes a folder of a characterization whose numbers all differ, as a machine would give them."""

import numpy as np
import synthetic_folder
from synthetic_folder import ENVIRONMENT, life, op, profile, result, run

from fathom.options import QUANTIZED
from fathom.results.formats import Formats
from fathom.results.profile import ApiCall, GpuTime, OpWork, ProcessGpuTime

WORKLOADS = ("memnet", "vgg", "gcn")
KERNELS = {  # of TensorFlow's profiler, with the papers' names
    "MatMul": "MatMul",
    "_FusedMatMul": "MatMul",
    "Conv2D": "Conv2D",
    "AddV2": "Add",
    "Mul": "Mul",
    "ResourceApplyAdam": "ApplyAdam",
    "Softplus": "Softplus",
}
_PLACES = (("fc1", "forward"), ("fc2", "backward"), ("optimizer", "optimizer"))
_SECTIONS = ("import", "init", "load", "setup", "run", "evaluate", "wall")


def write(path, seed=0):
    """Writes runs of three workloads in every set but distributed training; returns the path."""
    random = np.random.default_rng(seed)
    runs = []
    for workload in WORKLOADS:
        runs += _timings(random, workload, work=19.3 if workload == "gcn" else 1.0)
        for threads in (1, 2):
            purpose = ("profile", "threads") if threads == 1 else ("threads",)
            for repeat in range(3):
                name = f"{workload}-profile-{threads}-{repeat}"
                one = _profile(random, workload, threads)
                runs.append(run(workload, purpose, profile=one, id=name, repeat=repeat))
        on_gpu = _profile(random, workload, 1, device="/gpu:0", gpu=_gpu(random))
        runs.append(run(workload, ("profile",), profile=on_gpu, id=f"{workload}-gpu"))
    rates = {
        "gemm_flops_per_second": {"1": 1.1e11, "2": 2.3e11, "4": 3.7e11},
        "triad_bytes_per_second": {"1": 1.3e10, "2": 2.1e10, "4": 2.2e10},
    }
    synthetic_folder.write(path, runs, synthetic_folder.MACHINE.model_copy(update=rates))
    (path / "formats").mkdir()
    _formats(random).write(path / "formats" / "memnet.json")
    return path


def _timings(random, workload, work):
    """Timings of both modes, on one to four cores, repeated, and of several batch sizes."""
    cases = [("modes", mode, 4, 8, 0) for mode in ("train", "infer")]
    cases += [("repeats", "train", 4, 8, repeat) for repeat in (1, 2, 3)]
    cases += [("cores", "train", cores, 8, repeat) for cores in (1, 2) for repeat in (0, 1)]
    cases += [("batches", "train", 4, size, 0) for size in (1, 4, 16)]
    for number, (purpose, mode, cores, size, repeat) in enumerate(cases):
        document = result(0.1, mode, size)
        seconds = 0.1 * random.lognormal(0, 0.2, 12) * size**0.8 / cores
        works = work * random.uniform(0.8, 1.2, 12) if work != 1 else np.ones(12)
        document["steps"] = synthetic_folder.steps(seconds * works, works)
        document["steps"]["input_wait"] = random.uniform(0, 0.1, 12).tolist()
        document["sections"] = {name: float(random.uniform(1, 3)) for name in _SECTIONS}
        document["throughput"]["examples_per_second"] = float(random.uniform(10, 1000))
        document["throughput"]["flops_per_second"] = float(random.uniform(1e9, 1e11))
        document["memory"]["peak_resident_bytes"] = int(random.integers(2**28, 2**30))
        yield run(
            workload,
            (purpose,),
            mode=mode,
            cores=cores,
            repeat=repeat,
            batch_size=size if purpose == "batches" else None,
            wall_s=float(random.uniform(20, 30)),
            result=document,
            id=f"{workload}-timing-{number}",
        )


def _profile(random, workload, threads, **changes):
    """A profile of six steps whose op types weigh differently in each workload."""
    weights = np.random.default_rng(len(workload)).lognormal(0, 1.5, len(KERNELS))
    ops = [
        op(kernel, weight * random.lognormal(-5, 0.2, 6) / threads, *place, count=i + 1)
        for i, (kernel, weight) in enumerate(zip(KERNELS, weights, strict=True))
        for place in _PLACES[: 1 + i % 3]
    ]
    ops[0] = ops[0].model_copy(update={"on": "gpu" if "device" in changes else "cpu"})
    in_ops = sum(each.seconds for each in ops)
    steps = in_ops * random.uniform(1.1, 1.3, 6)
    numbers = range(1, 40, 3)
    over_run = {name: random.lognormal(-5, 0.3, len(numbers)) for name in ("MatMul", "Mul")}
    work = {(KERNELS[each.type], each.layer, each.phase): None for each in ops}
    fields = {
        "step_seconds": steps,
        "outside_seconds": steps - in_ops,
        "traced_step_seconds": in_ops * random.uniform(1.05, 1.1, 6),
        "unprofiled_step_seconds": in_ops * random.uniform(0.95, 1.05, 6),
        "work": random.uniform(0.5, 1.5, 6),
        "op_work": tuple(
            OpWork(
                **dict(zip(("type", "layer", "phase"), place, strict=True)),
                flops=int(random.integers(10**8, 10**9)),
                bytes=int(random.integers(10**6, 10**8)),
            )
            for place in work
        ),
        "life": life(numbers, 1.7, **over_run) if threads == 1 else None,
    }
    return profile(ops, workload, threads, **fields | changes)


def _gpu(random):
    seconds = dict(zip(("kernel_seconds", "memcpy_seconds"), random.uniform(1, 9, 2), strict=True))
    calls = tuple(
        ApiCall(name=name, count=n + 1, seconds=float(random.uniform(1, 9)))
        for n, name in enumerate(("cudaFree", "cuLaunchKernel"))
    )
    process = ProcessGpuTime(**{name: 3 * each for name, each in seconds.items()}, calls=calls)
    return GpuTime(**seconds, api_seconds=float(random.uniform(1, 9)), process=process)


def _formats(random):
    """Trainings in floating point and in fixed point, whose updates are partly rounded to 0."""

    def ran(precision, bits):
        values = [int(each) for each in random.integers(1, 1000, 4)]
        tensors = [
            {"layer": "fc", "tensor": name, "kind": kind, "fraction": 10, "values": number}
            | {"saturated": float(random.uniform(0, 1)), "zeroed": float(random.uniform(0, 1))}
            for number, (name, kind) in zip(
                values,
                [(name, kind) for name in ("kernel", "bias") for kind in ("gradients", "updates")],
                strict=True,
            )
        ]
        fixed = {"quantized": list(QUANTIZED), "rounding": "nearest", "overflow": "saturate"}
        return {
            "precision": precision,
            "seed": 0,
            "metrics": {"error": float(random.uniform(0, 1))},
            "loss": float(random.uniform(0, 1)),
            "fixed_point": fixed | {"bits": bits, "tensors": tensors} if bits else None,
            "errors": {layer: float(random.uniform(0, 1)) for layer in ("fc1", "fc2")},
            "ended": "complete",
        }

    return Formats(
        workload="memnet",
        mode="train",
        steps=10,
        hyperparameters={"batch_size": 8},
        environment=ENVIRONMENT,
        runs=[ran("fixed16", 16), ran("float32", None), ran("fixed32", 32)],
    )
