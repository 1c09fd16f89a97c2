import numpy as np
import pandas as pd
import pytest
from synthetic_folder import (
    ENVIRONMENT,
    folder,
    life,
    op,
    paper_profile,
    profile,
    result,
    run,
    runs_of,
)

from fathom.measure import frames
from fathom.measure.profile import tables
from fathom.results.profile import GpuTime
from fathom.results.records import Processor

FAILED = run("speech", status="failed", reason="killed", threads=2)


def test_an_op_time_is_a_row_for_each_step_under_the_papers_name():
    ops = [op("_FusedMatMul", [3.0, 4.0], "fc1", count=2), op("Foo", [1.0, 1.0], "", "backward")]
    frame = frames.profile_ops(profile(ops))
    assert frame.seconds.tolist() == [3, 4, 1, 1]
    assert frame.step.tolist() == [0, 1, 0, 1]
    first, last = frame.iloc[0], frame.iloc[-1]
    names = ["workload", "mode", "device", "threads", "precision", "on", "kernel", "type", "class"]
    assert first[names].tolist() == [
        *("autoenc", "train", "/cpu:0", 1, "float32", "cpu", "_FusedMatMul", "MatMul", "B"),
    ]
    assert (first["layer"], first["phase"], first["count"]) == ("fc1", "forward", 2)
    assert last[["type", "class", "layer", "phase"]].tolist() == ["Foo", "", "", "backward"]


def test_the_op_times_of_a_folder_add_up_by_type():
    profiles = [profile([op("MatMul", [1.0, 2.0]), op("Add", [1.0, 1.0])]), paper_profile("vgg")]
    ops = folder([run(each.workload, profile=each) for each in profiles]).ops()
    seconds = ops[ops.workload == "autoenc"].groupby("type").seconds.sum()
    assert seconds.to_dict() == {"MatMul": 3, "Add": 2}
    assert ops.run.nunique() == 2
    assert ops.seconds.sum() == pytest.approx(sum(each.op_seconds for each in profiles))


def test_a_step_of_a_timing_is_a_row_and_says_whether_it_counts():
    steps = folder([run(), run("vgg", profile=paper_profile("vgg"))]).steps()
    assert steps.workload.unique().tolist() == ["autoenc"]
    assert steps.counted.tolist() == [False] + [True] * 9
    assert steps.seconds[steps.counted].median() == pytest.approx(0.1)


def test_a_run_whose_one_thread_lacked_the_processor_is_disturbed():
    runs = runs_of(*(run(result=result(0.2, cpu_seconds=s, threads=1)) for s in (1.0, 2.0, None)))
    assert runs.disturbed.tolist() == [True, False, False]
    assert runs.cpu_share.tolist()[:2] == [pytest.approx(0.5, abs=0.01), pytest.approx(1, abs=0.01)]
    assert runs.involuntary_switches.tolist() == [7, 7, 7]
    assert runs.frequency_mhz.tolist() == [2600.0] * 3
    assert runs.steal_seconds.tolist() == [0.5] * 3


def test_a_profile_whose_one_thread_lacked_the_processor_is_disturbed():
    used = [Processor(cpu_seconds=s, wall_seconds=2.0, involuntary_switches=3) for s in (1.0, 2.0)]
    alone = ENVIRONMENT | {"threads": 1}
    runs = runs_of(
        *(run("vgg", profile=paper_profile("vgg", processor=p, environment=alone)) for p in used),
        run("vgg", profile=paper_profile("vgg", environment=alone)),  # of an older file
    )
    assert runs.disturbed.tolist() == [True, False, False]
    assert runs.cpu_share.tolist()[:2] == [0.5, 1]
    assert runs.involuntary_switches.tolist()[:2] == [3, 3]


def test_a_run_is_a_row_with_what_it_measured():
    gpu = GpuTime(kernel_seconds=1.0, api_seconds=2.0, memcpy_seconds=0.5)
    timing, profiled, failed = runs_of(
        run(mode="infer"),
        run("vgg", profile=paper_profile("vgg", gpu=gpu)),
        FAILED,
    ).to_dict("records")
    assert (timing["status"], timing["threads"], timing["batch_size"]) == ("done", 4, 8)
    assert (timing["flops"], timing["init_s"], timing["setup_s"]) == (400, 0.5, 1)
    assert timing["median_s"] == pytest.approx(0.1)
    assert np.isnan(timing["op_s"])
    assert profiled["profiled_steps"] == 6
    assert profiled["outside_share"] == pytest.approx(0.2)
    assert [profiled[name] for name in ("kernel_s", "api_s", "memcpy_s")] == [1, 2, 0.5]
    assert (failed["reason"], failed["threads"]) == ("killed", 2)
    assert np.isnan(failed["median_s"])
    created = [(each["xla"], each["microbatches"]) for each in (timing, profiled)]
    assert created == [("off", 1), ("off", 1)]


def test_a_layer_of_a_profiled_network_is_a_row():
    layers = folder([run(profile=profile([op("Add", [1.0, 1.0])], work=np.array([1.0, 2.0])))])
    assert layers.layers()[["layer", "macs", "examples"]].to_numpy().tolist() == [
        ["fc1", 100, 12],
        ["fc2", 100, 12],
    ]


def test_a_step_of_a_window_is_a_row_with_its_time_per_unit_of_work():
    windows = life([1, 2, 8], work=2.0, MatMul=[3.0, 3.0, 6.0], FusedMatMul=[1.0, 1.0, 1.0])
    frame = folder([run(profile=profile([op("Add", [1.0])], life=windows))]).life()
    assert frame.type.tolist() == ["MatMul"] * 3
    assert frame.step.tolist() == [1, 2, 8]
    assert frame.window.tolist() == [0, 0, 1]
    assert frame.seconds.tolist() == [4.0, 4.0, 7.0]


@pytest.mark.parametrize("name", ["ops", "steps", "layers", "life", "api_calls", "runs_frame"])
def test_frames_of_nothing_have_their_columns(name):
    some = getattr(folder([run(), run("vgg", profile=paper_profile("vgg"))]), name)()
    none = getattr(folder([FAILED]), name)()
    assert list(none.columns) == list(some.columns)


def test_changing_a_frame_does_not_change_the_folder():
    measured = folder([run("vgg", profile=paper_profile("vgg"))])
    ops = measured.ops()
    ops["seconds"] = 0.0
    assert measured.ops().seconds.sum() > 0
    pd.testing.assert_frame_equal(measured.ops(), measured.ops())


def test_ops_of_one_paper_type_count_together():
    ops = [op("MatMul", [1, 2]), op("_MklNativeFusedMatMul", [3, 4], "fc2"), op("Foo", [9, 9])]
    table = tables.op_types(frames.profile_ops(profile(ops)))
    assert table.type.tolist() == ["Foo", "MatMul"]
    assert table.seconds.tolist() == [9, 5]
    assert table.kernels.tolist() == ["Foo", "_MklNativeFusedMatMul MatMul"]
    assert table["count"].tolist() == [1, 2]


def test_shares_add_up_to_1_and_an_unmapped_type_keeps_its_name():
    shares = tables.shares(frames.profile_ops(profile([op("MatMul", [3.0]), op("Foo", [1.0])])))
    assert shares.loc["autoenc"].to_dict() == {"MatMul": 0.75, "Foo": 0.25}


def test_an_op_without_time_has_no_share():
    table = tables.op_types(frames.profile_ops(profile([op("MatMul", [0.0])])))
    assert table.share.tolist() == [0]
