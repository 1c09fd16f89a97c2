"""Steps are predicted from measured operations and from other workloads' steps, never their own."""

import json

import numpy as np
import pytest
import synthetic_folder
from commands import run

from fathom import FathomError, __main__
from fathom.hardware.accelerators import machine, prediction
from fathom.hardware.accelerators.machine import Machine
from fathom.results.calibration import Calibration, Ideal, ProductTime, StepTime, TransferTime
from fathom.system import rates, threads
from tests.hardware.accelerators.steps import (
    CONVOLUTION,
    MOVING,
    description,
    operation,
)

RATE, BANDWIDTH, DISPATCH, CALL = 1e10, 1e9, 1e-6, 1e-4  # MACs/s, bytes/s, s, s


def product(kind, phase, size, rate=RATE):
    seconds = size**3 / rate
    return ProductTime(kind=kind, phase=phase, groups=1, M=size, N=size, K=size, seconds=seconds)


PRODUCTS = [product("matrix product", "forward", size) for size in (8, 64, 512)]
PRODUCTS += [product("convolution", "forward", size, 2 * RATE) for size in (8, 64, 512)]
TRANSFERS = [TransferTime(size_bytes=n, seconds=n / BANDWIDTH) for n in (10**3, 10**6, 10**9)]


def calibrated(steps=(), threads=1):
    calibration = Calibration(
        threads=threads,
        precision="float32",
        products=tuple(PRODUCTS),
        transfers=tuple(TRANSFERS),
        dispatch_seconds=DISPATCH,
        call_seconds=CALL,
        steps=tuple(steps),
    )
    sources = dict.fromkeys(("flops", "bandwidth", "calibration"), "made up")
    return Machine(
        title="a machine",
        flops={"float32": 2 * RATE},
        bandwidth=BANDWIDTH,
        calibration=calibration,
        sources=sources,
    )


def steps_of(workloads, noise=0.0, seed=0):
    """Steps that take 1.5 times their products, half of their transfers, and all dispatches."""
    random = np.random.default_rng(seed)
    for name in workloads:
        for batch_size in (1, 4, 16):
            ideal = Ideal(
                product_seconds=batch_size * random.uniform(0.01, 0.1),
                transfer_seconds=batch_size * random.uniform(0.01, 0.1),
                dispatch_seconds=random.uniform(0.001, 0.01),
                call_seconds=0.0,
            )
            seconds = (
                1.5 * ideal.product_seconds + 0.5 * ideal.transfer_seconds + ideal.dispatch_seconds
            )
            yield StepTime(
                workload=name,
                mode="train",
                batch_size=batch_size,
                xla="off",
                seconds=seconds * np.exp(noise * random.normal()),
                ideal=ideal,
            )


def test_each_operation_takes_the_time_of_its_kind_and_shape():
    rates = prediction.Rates(calibrated().calibration)
    macs = 10**9  # so many that the bytes do not count
    rows = [
        operation(macs=macs, bounds={"batch": 1, "M": 60, "N": 70, "K": 64}),
        operation(name="c", kind="convolution", macs=macs, bounds=CONVOLUTION),
        operation(name="d", kind="recurrent product", macs=macs, repeats=10),
        MOVING,
    ]
    ideal = rates.ideal(description(*rows), "off", 4)
    expected = macs / RATE + macs / (2 * RATE) + macs / RATE
    assert ideal.product_seconds == pytest.approx(expected)
    assert ideal.transfer_seconds == pytest.approx(MOVING.working_set_bytes / BANDWIDTH)
    assert ideal.dispatch_seconds == pytest.approx(13 * DISPATCH)
    assert ideal.call_seconds == pytest.approx(CALL / 4)
    assert rates.ideal(description(*rows), "step", 1).dispatch_seconds == 0


def test_a_product_of_few_operations_waits_for_its_bytes():
    ideal = prediction.Rates(calibrated().calibration).ideal(
        description(operation(macs=1)), "off", 1
    )
    assert ideal.product_seconds == pytest.approx(3e6 / BANDWIDTH)


def test_a_kind_that_was_not_measured_is_refused_by_name():
    found = calibrated().calibration
    few = found.model_copy(update={"products": found.products[:3]})
    step = description(operation(kind="convolution", bounds=CONVOLUTION))
    with pytest.raises(FathomError, match="the calibration has no convolution: repeat fathom cali"):
        prediction.Rates(few).ideal(step, "off", 1)


def test_the_factors_of_other_workloads_are_found():
    *others, own = steps_of(["a", "b", "c", "d", "e"])
    found = prediction.predict(own.ideal, "off", "e", calibrated(others))
    assert found.seconds == pytest.approx(own.seconds, rel=1e-6)
    assert found.low == pytest.approx(found.high, rel=1e-6)
    assert found.workloads == 4


def test_a_workloads_own_steps_are_not_used():
    steps = list(steps_of(["a", "b", "c", "d", "e"], noise=0.1))
    changed = [
        each.model_copy(update={"seconds": 100.0}) if each.workload == "e" else each
        for each in steps
    ]
    before, after = (
        prediction.predict(steps[-1].ideal, "off", "e", calibrated(each))
        for each in (steps, changed)
    )
    assert before == after
    assert before != prediction.predict(steps[-1].ideal, "off", "f", calibrated(changed))


@pytest.mark.slow
def test_intervals_hold_the_stated_share_of_unseen_workloads():
    workloads = [f"w{i}" for i in range(12)]
    inside = []
    for seed in range(10):
        checked = prediction.check(list(steps_of(workloads, noise=0.2, seed=seed)))
        inside += [found.low <= step.seconds <= found.high for step, found in checked]
    assert 0.82 <= np.mean(inside) <= 0.96


def test_operations_are_measured_with_the_memory_of_a_run(monkeypatch, capsys):
    done = []

    def measure(*_):
        done.append("measured")
        raise FathomError("that is enough")

    monkeypatch.setattr("fathom.measure.runs.calibration.measure", measure)
    monkeypatch.setattr(
        "fathom.system.processor.keep_freed_memory", lambda: done.append("freed memory is kept")
    )
    in_use = threads.set_threads(None)  # a process has one number
    assert run(__main__.main, ["calibrate", f"--threads={in_use}", "--out=here.json"]) == 2
    assert done == ["freed memory is kept", "measured"]
    assert "that is enough" in capsys.readouterr().err


def test_a_machine_file_says_that_one_thread_measured_the_memory(tmp_path, monkeypatch):
    found, rate = calibrated().calibration, rates.Ceiling(1e9, 1.0)
    monkeypatch.setattr("fathom.measure.runs.calibration.measure", lambda *_: found)
    monkeypatch.setattr(rates, "gemm_ceiling", lambda *_: rate)
    monkeypatch.setattr(rates, "triad_ceiling", lambda: rate)
    in_use, file = threads.set_threads(None), tmp_path / "here.json"
    assert run(__main__.main, ["calibrate", f"--threads={in_use}", f"--out={file}"]) == 0
    sources = machine.load(str(file)).sources
    assert f"{in_use} thread(s)" in sources["flops"]
    assert "calibrate, 1 thread: triad" in sources["bandwidth"]


def test_predictions_are_of_workloads_not_of_files(capsys):
    for arguments in (["gpt", "--dim=batch=3"], ["network.onnx"]):
        assert run(__main__.main, ["predict", *arguments, "--machine=p100"]) == 2
        error = capsys.readouterr().err
        assert "unrecognized arguments: --dim" in error or "unknown workload" in error
    assert run(__main__.main, ["predict", "--help"]) == 0
    assert "network's file" not in capsys.readouterr().out


def test_a_folder_without_timings_on_these_threads_is_refused_at_once(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("fathom.cli.predict._processor", lambda _: "any")
    monkeypatch.setattr("fathom.measure.runs.calibration.measure", None)  # it is not called
    in_use = threads.set_threads(None)  # a process has one number
    timing = synthetic_folder.run(result=synthetic_folder.result(threads=in_use + 1))
    folder = synthetic_folder.write(tmp_path, [timing])
    command = ["calibrate", str(folder), f"--threads={in_use}", f"--out={tmp_path / 'here.json'}"]
    assert run(__main__.main, command) == 2
    assert f"1 on {in_use + 1} thread(s); --threads must be" in capsys.readouterr().err


def test_factors_are_bounded():
    slow = [
        each.model_copy(update={"seconds": 1e3 * each.seconds}) for each in steps_of(["a", "b"])
    ]
    for steps in (slow, list(steps_of(["a", "b"]))):
        factors = prediction._fit(steps)
        assert factors.min() > 0.1 - 1e-9
        assert factors.max() < 10 + 1e-9


def test_a_machine_without_enough_measurements_is_refused():
    ideal = next(steps_of(["a"])).ideal
    with pytest.raises(FathomError, match="3 other workloads, and 4 are needed"):
        prediction.predict(ideal, "off", "d", calibrated(list(steps_of(["a", "b", "c", "d"]))))
    steps = list(steps_of(["a", "b", "c", "d"]))
    compiled = [each.model_copy(update={"xla": "step", "workload": "e"}) for each in steps[:3]]
    with pytest.raises(FathomError, match="that XLA compiles whole, as this one, of fewer than 2"):
        prediction.predict(ideal, "step", "f", calibrated([*steps, *compiled]))
    checked = prediction.check([*steps, *compiled])
    assert {step.workload for step, _ in checked} == {"a", "b", "c", "d"}
    with pytest.raises(FathomError, match="is not calibrated: fathom calibrate writes"):
        prediction.predict(ideal, "off", "d", machine.load("a100"))


def test_the_command_predicts_a_step_that_was_not_run(tmp_path, capsys):
    file = tmp_path / "here.json"
    in_use = threads.set_threads(None)  # a process has one number
    calibrated(steps_of(["a", "b", "c", "d"]), in_use).write(file)
    arguments = ["predict", "autoenc", "--infer", "--batch-size=3", "--machine", str(file)]
    assert run(__main__.main, arguments) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "autoenc, infer, batch size 3, on a machine" in printed
    assert "examples/s 90% interval: " in printed
    assert "corrected by measured steps of 4 other workloads" in printed
    assert run(__main__.main, ["roofline", "autoenc", "--machine", str(file)]) == 0
    assert json.loads(file.read_text())["calibration"]["threads"] == in_use
