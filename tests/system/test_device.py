import functools
import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from fathom import Autoenc, AutoencFwd, FathomError, MemNet
from fathom.deepq import DeepQ, DeepQFwd
from fathom.modern.dlrm import DLRMFwd
from fathom.modern.llama import LlamaFwd
from fathom.options import PRECISIONS
from fathom.system import device, environment
from fathom.system import threads as threading
from fathom.system.device import CPU
from fathom.system.precision import computing_in, select_precision

GPU = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")


@pytest.mark.parametrize("name", ["cpu", "/cpu:0", "CPU:0", "/device:CPU:0"])
def test_the_cpu_has_several_names(name):
    assert device.select(name) == CPU


@pytest.mark.parametrize("name", ["tpu", "gpu:x", "cpu:1", "gpu:99", ""])
def test_a_device_that_is_not_there_is_an_error(name):
    with pytest.raises(FathomError, match="device"):
        device.select(name)


def test_threads_cannot_change_once_tensorflow_runs():
    tf.zeros([1]).numpy()
    current = threading.set_threads(None)
    assert threading.set_threads(current, shares=2) == current
    with pytest.raises(FathomError, match=f"threads={current + 1} cannot be set any more"):
        threading.set_threads(current + 1)


def test_the_precision_holds_for_the_block_alone():
    before = keras.config.dtype_policy()
    with computing_in("bfloat16"):
        assert keras.layers.Dense(1).compute_dtype == "bfloat16"
    assert keras.config.dtype_policy() == before


def test_inter_op_threads_cannot_change_either_and_are_recorded():
    tf.zeros([1]).numpy()
    current = threading.inter_op_threads_in_use()
    assert threading.set_inter_op_threads(None, current) == current
    with pytest.raises(FathomError, match=f"inter_op_threads={current + 1} cannot be set any more"):
        threading.set_inter_op_threads(None, current + 1)
    threads = threading.set_threads(None)
    with pytest.raises(FathomError, match=f"threads={threads + 1} cannot be set any more"):
        threading.set_inter_op_threads(threads + 1)  # even where operations have one thread each
    recorded = environment.describe(CPU, 1, "float32", "off")
    assert recorded["inter_op_threads"] == current
    assert recorded["intra_op_threads"] == threading.intra_op_threads_in_use()


def test_a_model_whose_threads_a_later_one_has_changed_is_refused(monkeypatch):
    model = Autoenc("cpu", {"hidden_units": 8, "latents": 2})
    model.build()
    monkeypatch.setitem(threading._in_use, "threads", model.threads + 1)
    with pytest.raises(FathomError, match=f"a later one has set {model.threads + 1} for the whole"):
        model.build()


def losses_on_two_threads(*options):
    command = [sys.executable, "-m", "fathom", "run", "autoenc", "--train", "--steps=40"]
    options = ["--threads=2", "--device=cpu", "--quiet", "--json=-", *options]
    done = subprocess.run([*command, *options], capture_output=True, timeout=120, check=True)
    result = json.loads(done.stdout)
    environment = result["environment"]
    used = environment["inter_op_threads"], environment["microbatches"]
    return result["steps"]["loss"], used


@pytest.mark.slow
def test_operations_at_once_change_no_result():
    one, used = losses_on_two_threads("--inter-op-threads=1", "--batch-size=101")
    assert used == (1, 1)
    assert losses_on_two_threads("--batch-size=101") == (one, (2, 1))


@pytest.mark.slow
def test_microbatches_repeat_their_results_and_change_them_by_rounding_only():
    one, used = losses_on_two_threads("--inter-op-threads=1")
    assert used == (1, 1)
    two = losses_on_two_threads()
    assert two == losses_on_two_threads()
    assert two[1] == (2, 2)
    assert two[0] != one
    np.testing.assert_allclose(two[0], one, rtol=1e-5)


@pytest.fixture
def pools(monkeypatch):
    """The sizes of the thread pools of a TensorFlow that does not run yet."""
    sizes = {}
    for pool in ("intra", "inter"):
        name = f"{pool}_op_parallelism_threads"
        set_size = functools.partial(sizes.__setitem__, pool)
        monkeypatch.setattr(tf.config.threading, f"set_{name}", set_size)
        monkeypatch.setattr(tf.config.threading, f"get_{name}", lambda pool=pool: sizes[pool])
    monkeypatch.setattr(threading, "_in_use", {})
    return sizes


@pytest.mark.parametrize(
    ("threads", "chosen", "used"), [(1, None, 1), (2, None, 2), (8, None, 2), (2, 3, 3), (2, 1, 1)]
)
def test_two_operations_run_at_once_on_two_threads_or_more(pools, threads, chosen, used):
    assert threading.set_inter_op_threads(threads, chosen) == used
    assert pools == {"inter": used}


@pytest.mark.parametrize(("threads", "shares", "share"), [(1, 2, 1), (3, 2, 1), (8, 2, 4)])
def test_an_operation_may_have_a_share_of_the_threads_of_a_run(pools, threads, shares, share):
    assert threading.set_threads(threads, shares) == threads
    assert (threading.threads_in_use(), threading.intra_op_threads_in_use()) == (threads, share)


@pytest.mark.parametrize(
    ("workload", "options", "threads"),
    [
        (Autoenc, {}, 1),
        (Autoenc, {"inter_op_threads": 1}, 2),
        (Autoenc, {"batch_size": 7}, 2),  # no multiple of two microbatches
        (Autoenc, {"batch_size": 1}, 1),  # one example cannot be divided
        (Autoenc, {"xla": True}, 2),
        (AutoencFwd, {}, 2),
        (AutoencFwd, {"batch_size": 1}, 1),
        (DLRMFwd, {}, 2),
        (DLRMFwd, {"batch_size": 1}, 1),
        (DeepQ, {}, 1),
        (DeepQFwd, {}, 2),
        (DeepQFwd, {"batch_size": 1}, 1),
        (MemNet, {}, 1),
        (MemNet, {"xla": True}, 2),
        (LlamaFwd, {"phase": "decode"}, 1),
        (LlamaFwd, {"phase": "decode", "width": 768}, 2),
        (LlamaFwd, {"phase": "prefill"}, 1),  # two microbatches
        (LlamaFwd, {"phase": "prefill", "microbatches": 1}, 2),
    ],
)
def test_small_operations_have_their_share_of_two_threads(pools, workload, options, threads):
    workload("/cpu:0", {"threads": 2, **options})
    assert pools["intra"] == threads


@pytest.fixture
def gpu(monkeypatch):
    """Pretends a GPU of some compute capability."""

    def pretend(capability):
        details = {"device_name": "Test GPU", "compute_capability": capability}
        monkeypatch.setattr(tf.config, "get_visible_devices", lambda _: [GPU])
        monkeypatch.setattr(tf.config.experimental, "get_device_details", {GPU: details}.get)

    yield pretend
    tf.config.experimental.enable_tensor_float_32_execution(False)


def computes_in_tf32():
    return tf.config.experimental.tensor_float_32_execution_enabled()


@pytest.mark.parametrize("precision", [name for name in PRECISIONS if name != "tf32"])
def test_tensorflows_tf32_is_off_unless_chosen(precision):
    tf.config.experimental.enable_tensor_float_32_execution(True)
    select_precision(precision, CPU)
    assert not computes_in_tf32()


def test_a_model_in_float32_turns_tf32_off():
    tf.config.experimental.enable_tensor_float_32_execution(True)
    Autoenc("/cpu:0")
    assert not computes_in_tf32()


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (12, 0)])
def test_tf32_is_on_for_a_gpu_that_has_it(gpu, capability):
    gpu(capability)
    select_precision("tf32", device.GPU)
    assert computes_in_tf32()
    select_precision("float32", device.GPU)
    assert not computes_in_tf32()


@pytest.mark.parametrize("capability", [(7, 5), None])
def test_tf32_is_refused_on_an_older_gpu(gpu, capability):
    gpu(capability)
    tf.config.experimental.enable_tensor_float_32_execution(False)  # TensorFlow's default is True
    with pytest.raises(FathomError, match=r"8\.0 or more; Test GPU has [07]\.[05]$"):
        select_precision("tf32", device.GPU)
    assert not computes_in_tf32()


def test_tf32_is_refused_on_a_cpu():
    with pytest.raises(FathomError, match="tf32 is for GPUs only"):
        Autoenc("/cpu:0", {"precision": "tf32"})


@pytest.fixture
def two_gpus(monkeypatch):
    """A machine with two GPUs, on which TensorFlow does not run yet."""
    gpus = [tf.config.PhysicalDevice(f"GPU {i}", "GPU") for i in range(2)]
    visible = list(gpus)

    def show(device, kind):
        assert kind == "GPU"
        visible[:] = [device]

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: visible)
    monkeypatch.setattr(tf.config, "set_visible_devices", show)
    return visible


@pytest.mark.parametrize(("name", "number"), [("gpu:1", 1), ("gpu", 0), (None, 0), ("/gpu:1", 1)])
def test_a_gpu_is_the_only_one_that_the_process_sees(two_gpus, name, number):
    assert device.select(name) == device.GPU
    assert [gpu.name for gpu in two_gpus] == [f"GPU {number}"]
    assert device.gpu_number() == number


def test_a_run_on_the_cpu_hides_no_gpu(two_gpus):
    assert device.select("cpu") == CPU
    assert [gpu.name for gpu in two_gpus] == ["GPU 0", "GPU 1"]


def test_another_gpu_cannot_be_used_once_tensorflow_runs(two_gpus, monkeypatch):
    def refuse(device, kind):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "set_visible_devices", refuse)
    with pytest.raises(FathomError, match="gpu:1 cannot be used any more"):
        device.select("gpu:1")


def test_the_environment_tells_the_number_of_the_gpu(two_gpus, monkeypatch):
    device.select("gpu:1")
    named = lambda gpu: {"device_name": gpu.name}  # noqa: E731
    monkeypatch.setattr(tf.config.experimental, "get_device_details", named)
    described = environment.describe(device.GPU, 1, "float32", "off")
    assert (described["gpu"], described["gpu_number"], described["gpus_visible"]) == ("GPU 1", 1, 1)
    assert environment.describe(CPU, 1, "float32", "off")["gpu_number"] is None


def test_a_gpu_that_cannot_be_used_is_named_in_one_line(monkeypatch):
    def fail(kind):
        raise tf.errors.InternalError(None, None, "cudaSetDevice() on GPU:0 failed.\nout of memory")

    monkeypatch.setattr(tf.config, "list_logical_devices", fail)
    CPU.start()
    with pytest.raises(FathomError) as error:
        device.GPU.start()
    assert str(error.value) == (
        "the GPU cannot be used: cudaSetDevice() on GPU:0 failed. out of memory; nvidia-smi lists "
        "what else uses it"
    )
