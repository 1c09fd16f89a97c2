"""What a trace tells of a GPU: constructed ones, and two steps of AlexNet on an H100."""

from collections import Counter
from pathlib import Path

import pytest
from traces import TraceBuilder, own_times

from fathom.measure.profile import gpu, xplane
from fathom.system import private
from fathom.system.device import CPU, GPU


@pytest.fixture
def path(tmp_path):
    built = TraceBuilder().plane("/host:CPU").line("python").step(0, 20)
    built.line("worker").event("net/conv:Conv2D", 0, 1).event("net/size:Shape", 1, 1)
    built.event("cuLaunchKernel", 0.2, 0.5).event("cuMemcpyHtoDAsync_v2", 12, 2)
    built.event("cuStreamSynchronize", 12.5, 1)  # inside the copy: counted once
    built.event("cuLaunchKernel", 21, 0.5)  # after the step, as those of 22 and 25
    built.plane("/device:GPU:0").line("Stream #13(Compute)")
    built.event("implicit_gemm", 2, 5, tf_op="net/conv:Conv2D").event("Memset", 8, 1)
    built.event("implicit_gemm", 22, 5, tf_op="net/conv:Conv2D")
    built.line("Stream #14(MemcpyH2D)").event("MemcpyH2D", 13, 3).event("MemcpyH2D", 25, 3)
    built.line("TensorFlow Ops").event("net/conv", 2, 5, tf_op="net/conv:Conv2D")  # said twice
    return built.write(tmp_path)


def test_an_op_with_gpu_kernels_counts_by_its_kernels(path):
    (ops,) = xplane.read(path).ops_by_step()
    assert own_times(ops) == pytest.approx({"Conv2D": 5e-6, "Shape": 1e-6})
    assert {op.op_type: op.on_gpu for op in ops} == {"Conv2D": True, "Shape": False}


def test_kernels_copies_and_calls_are_added_up_over_the_steps_and_over_the_trace(path):
    in_steps, whole = gpu.read(path)
    use = [
        (each.kernel_seconds, each.memcpy_seconds, each.api_seconds) for each in (in_steps, whole)
    ]
    assert use[0] == pytest.approx((5e-6, 3e-6, 2.5e-6))
    assert use[1] == pytest.approx((10e-6, 6e-6, 3e-6))
    calls = {
        name: (count, pytest.approx(seconds)) for name, (count, seconds) in whole.calls.items()
    }
    assert calls == {
        "cuLaunchKernel": (2, 1e-6),
        "cuMemcpyHtoDAsync_v2": (1, 1e-6),
        "cuStreamSynchronize": (1, 1e-6),
    }


def test_the_sessions_of_a_process_are_added_up(path, monkeypatch):
    monkeypatch.setattr(
        gpu, "read", lambda _: (gpu.GpuUse(), gpu.GpuUse(1.0, 2.0, {"cuInit": (1, 3.0)}))
    )
    on_gpu = gpu.Sessions(GPU)
    for _ in range(2):
        with on_gpu.session():
            pass
    assert on_gpu.gpu == gpu.GpuUse(2.0, 4.0, {"cuInit": (2, 6.0)})


def test_without_a_gpu_no_use_is_read():
    on_cpu = gpu.Sessions(CPU)
    with on_cpu.session():
        pass
    with on_cpu.on_gpu(), on_cpu.session():  # the first does not start the profiler
        pass
    assert on_cpu.gpu is None


def test_without_a_launch_among_the_calls_their_time_is_not_known():
    """TensorFlow 2.21 records allocations alone."""
    allocations = {"cuMemAlloc_v2": (2, 1e-6)}
    assert gpu.GpuUse(1e-3, 0.0, allocations).api_seconds is None
    assert gpu.GpuUse(0.0, 0.0, allocations).api_seconds == 1e-6
    launches = allocations | {"cuLaunchKernel": (1, 2e-6)}
    assert gpu.GpuUse(1e-3, 0.0, launches).api_seconds == pytest.approx(3e-6)


def test_a_function_compiled_by_xla_is_named_by_its_kernels(tmp_path):
    built = TraceBuilder().plane("/host:CPU").line("python").step(0, 20)
    built.plane("/device:GPU:0").line("Stream #13(Compute)")
    call = {"tf_op": "net/norm/PartitionedCall:PartitionedCall"}
    built.event("loop_fusion", 2, 5, hlo_module="a_inference_LRN_436__.1", **call)
    built.event("another", 8, 1, **call)
    (ops,) = xplane.read(built.write(tmp_path)).ops_by_step()
    assert [op.op_type for op in ops] == ["LRN", "PartitionedCall"]


# ------------------------------------------------------------------ AlexNet on an H100

ALEXNET = Path(__file__).parent / "gpu_traces" / "alexnet-h100.xplane.pb"


def test_each_step_of_alexnet_has_the_same_kernels():
    steps = xplane.read(ALEXNET).ops_by_step()
    first, second = (Counter((op.op_type, op.on_gpu) for op in ops) for ops in steps)
    assert first == second
    of_layers = {"Conv2D", "_FusedConv2D", "MaxPool", "MaxPoolGrad", "MatMul", "LRN", "LRNGrad"}
    assert {(kind, True) for kind in of_layers} <= set(first)
    assert not [kind for kind, _ in first if "PartitionedCall" in kind]


def test_the_time_of_alexnets_kernels_is_recounted():
    """From the file itself: kernels and copies, and which of them name an op."""
    seconds = Counter()
    for plane in private.parse_trace(ALEXNET.read_bytes()).planes:
        if not plane.name.startswith("/device:GPU"):
            continue
        names = {number: each.name for number, each in plane.stat_metadata.items()}
        for event in (event for line in plane.lines for event in line.events):
            kind = plane.event_metadata[event.metadata_id].name
            copied = "copies" if kind.startswith("Memcpy") else "kernels"
            seconds[copied if kind != "Memset" else "memsets"] += event.duration_ps * 1e-12
            if any(names[stat.metadata_id] == "tf_op" for stat in event.stats):
                seconds["ops"] += event.duration_ps * 1e-12
    used, _ = gpu.read(ALEXNET)
    assert used.kernel_seconds == pytest.approx(seconds["kernels"])
    assert used.memcpy_seconds == pytest.approx(seconds["copies"])
    assert used.api_seconds is None
    ops = [op for ops in xplane.read(ALEXNET).ops_by_step() for op in ops if op.on_gpu]
    assert sum(op.self_s for op in ops) == pytest.approx(seconds["ops"])
