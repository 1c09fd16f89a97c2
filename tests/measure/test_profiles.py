import io
import json

import numpy as np
import pytest
from rich.console import Console
from synthetic_folder import ENVIRONMENT, op, profile

from fathom.errors import FathomError
from fathom.measure import frames
from fathom.measure.profile import tables, view
from fathom.measure.profile.profiling import add_up
from fathom.measure.profile.xplane import OpEvent
from fathom.results.profile import GpuTime, Profile
from fathom.results.records import Processor

GPU = GpuTime(kernel_seconds=1.0, api_seconds=2.0, memcpy_seconds=0.5)


OPS = (
    op("_MklMatMul", [0.004, 0.004], "fc", "backward", count=2),
    op("_FusedMatMul", [0.002, 0.002], "fc", "forward", count=1),
    op("ResourceApplyAdam", [0.002] * 2, "optimizer", "optimizer", count=1),
    op("Mystery", [0.001, 0.003], "loss", "forward", count=0.5),
)


def small_profile(ops=OPS, **changes):
    fields = {
        "step_seconds": np.array([0.011, 0.011]),
        "unprofiled_step_seconds": np.array([0.01, 0.01, 0.01]),
        "outside_seconds": np.array([0.001, 0.0012]),
    }
    return profile(ops, **fields | changes)


def event(name, op_type, self_s, line="/host:CPU/worker"):
    return OpEvent(name, op_type, 0.0, self_s, self_s, line)


def place(name, _):
    return name.split("/")[0], "forward"


def test_ops_are_added_up_by_type_layer_phase_and_device_in_each_step():
    gpu = "/device:GPU:0/Stream #13"
    ops = add_up(
        [
            [event("fc/a", "MatMul", 1.0), event("fc/b", "MatMul", 2.0), event("fc/a", "Add", 0.5)],
            [event("fc/a", "MatMul", 4.0), event("conv/a", "MatMul", 1.0, gpu)],
        ],
        place,
    )
    assert [(op.type, op.layer, op.on, op.seconds.tolist(), op.count) for op in ops] == [
        ("MatMul", "fc", "cpu", [3.0, 4.0], 1.5),
        ("MatMul", "conv", "gpu", [0.0, 1.0], 0.5),
        ("Add", "fc", "cpu", [0.5, 0.0], 0.5),
    ]
    assert {op.phase for op in ops} == {"forward"}


def test_shares_follow_from_the_times():
    profile = small_profile()
    assert profile.steps == 2
    assert profile.op_seconds == pytest.approx(0.020)
    assert profile.outside_share == pytest.approx(0.1)
    assert frames.overhead(profile).value == pytest.approx(0.1)
    seconds = frames.profile_ops(profile).groupby("layer").seconds.sum() / profile.steps
    assert seconds.to_dict() == pytest.approx({"fc": 0.006, "optimizer": 0.002, "loss": 0.002})


def test_a_table_has_the_papers_types_with_their_kernels():
    table = tables.op_types(frames.profile_ops(small_profile()))
    assert table.type.tolist() == ["MatMul", "ApplyAdam", "Mystery"]
    assert table["class"].tolist() == ["B", "F", ""]
    assert table.kernels[0] == "_MklMatMul _FusedMatMul"
    assert table.share.tolist() == pytest.approx([0.6, 0.2, 0.2])
    assert table.cumulative_share.tolist() == pytest.approx([0.6, 0.8, 1.0])
    assert table["count"].tolist() == [3, 1, 0.5]


def test_an_op_shorter_than_the_cost_of_tracing_it_is_marked():
    profile = small_profile(tracing_seconds_per_op=0.0021)  # 3 MatMul take 6 ms, an Adam 2 ms
    table = tables.op_types(frames.profile_ops(profile)).set_index("type")
    assert table.dominated.to_dict() == {"MatMul": True, "ApplyAdam": True, "Mystery": False}
    flags = profile.to_plain()["dominated_by_tracing"]
    assert flags == ["ResourceApplyAdam", "_FusedMatMul", "_MklMatMul"]
    unknown = small_profile()
    assert unknown.dominated_by_tracing == []
    assert not tables.op_types(frames.profile_ops(unknown)).dominated.any()


def test_a_table_has_each_layer_by_phase():
    table = tables.layers(frames.profile_ops(small_profile()))
    assert table.iloc[0].tolist() == pytest.approx(["autoenc", "fc", 0.002, 0.004, 0, 0, 0.6])
    assert set(table.layer[1:]) == {"optimizer", "loss"}


LIFE = {
    "run_steps": 9,
    "numbers": [1, 8],
    "windows": [0, 1],
    "step_seconds": [1.0, 1.0],
    "work": [1.0, 1.0],
    "ops": [{"type": "Add", "seconds": [0.5, 0.5], "count": 1.0}],
}


@pytest.mark.parametrize("gpu", [None, GPU])
def test_a_profile_survives_its_file(tmp_path, gpu):
    profile = small_profile(gpu=gpu)
    profile.write(tmp_path / "profile.json")
    document = json.loads((tmp_path / "profile.json").read_text())
    again = Profile.read(tmp_path / "profile.json")
    assert again.to_plain() == profile.to_plain()
    assert (document["steps"], document["schema"]) == (2, 2)
    assert again.ops[0].seconds.dtype == np.float64


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema": 1}, r"another schema \(schema is 1, not 2\)"),
        ({"ops": [{"type": "Add"}]}, "damaged"),
        ({"step_seconds": ["soon"]}, "damaged"),
        ({"step_seconds": [-1.0, 1.0]}, "damaged"),
        ({"step_seconds": [1.0]}, "differ in their steps"),
        ({"work": [1.0]}, "differ in their steps"),
        ({"traced_step_seconds": [1.0]}, "are no pairs"),
        ({"life": LIFE | {"windows": [0]}}, "windows differ in their steps"),
        ({"life": LIFE | {"numbers": []}}, "numbers"),
        ({"step_seconds": [], "outside_seconds": [], "ops": []}, "step_seconds is empty"),
    ],
)
def test_a_damaged_profile_is_refused_in_one_line(change, reason):
    document = small_profile().to_plain() | change
    with pytest.raises(FathomError, match=reason) as error:
        Profile.parse(json.dumps(document), "a.json")
    assert "a.json" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_profile_of_an_older_version_is_read():
    document = small_profile().to_plain() | {"life": LIFE}
    assert Profile.parse(json.dumps(document), "a.json").to_plain()["life"] == LIFE
    for name in ("life", "traced_step_seconds", "tracing_seconds_per_op", "dominated_by_tracing"):
        del document[name]
    old = Profile.parse(json.dumps(document), "a.json")
    assert (old.life, old.tracing_seconds_per_op) == (None, None)
    assert frames.overhead(old).value == pytest.approx(0.1)
    assert not frames.overhead(old).known


def test_fields_of_a_later_version_are_left_out():
    document = small_profile(gpu=GPU).to_plain() | {"new": 1}
    for section in (document["ops"][0], document["gpu"]):
        section["new"] = 1
    assert Profile.parse(json.dumps(document), "a.json").gpu == GPU


def test_a_profile_with_a_missing_field_is_refused():
    document = small_profile().to_plain()
    del document["device"]
    with pytest.raises(FathomError, match="device"):
        Profile.parse(json.dumps(document), "a.json")


@pytest.mark.parametrize("cpu_seconds", [1.0, 2.0])
def test_a_disturbed_profile_says_so(cpu_seconds):
    used = Processor(cpu_seconds=cpu_seconds, wall_seconds=2.0)
    alone = ENVIRONMENT | {"threads": 1}
    text = shown(profile([op("Add", [1.0])], processor=used, environment=alone))
    sentence = "the steps had it 50% of their time: profile again" in text
    assert sentence == (cpu_seconds == 1.0)


def shown(profile):
    screen = Console(file=io.StringIO(), width=200)
    view.show(profile, screen)
    return screen.file.getvalue()


def test_ops_and_the_time_outside_them_add_up_to_the_step_that_is_shown():
    ops = (op("Add", [0.004, 0.006]), op("Mul", [0.001, 0.001]))
    seconds = {"step_seconds": np.array([0.007, 0.009]), "outside_seconds": np.array([0.002] * 2)}
    text = shown(small_profile(ops=ops, **seconds))
    assert "step: mean 10.000 ms without the profiler, 8.000 ms with it" in text
    assert "with it: ops 6.000 ms: forward 100.0%" in text
    assert "outside ops: 2.000 ms, 25.0% of the step\n" in text
    seconds["step_seconds"] -= 0.001  # of which two ops shared one millisecond
    text = shown(small_profile(ops=ops, **seconds))
    assert "outside ops: 2.000 ms, 28.6% of the step; ops ran at once for 1.000 ms" in text


def test_single_slow_steps_do_not_change_the_overhead():
    without = np.full(24, 0.010)
    traced = without * np.array([1.05, 1.06, 1.04] * 8)
    traced[3], without[7] = 0.1, 0.2
    added = frames.overhead(
        small_profile(traced_step_seconds=traced, unprofiled_step_seconds=without)
    )
    assert 0.03 < added.low < 0.05 < added.high < 0.07


def test_an_overhead_below_zero_is_called_too_small_to_be_measured():
    without = np.full(6, 0.010)
    traced = without * np.array([0.95, 0.96, 0.94] * 2)
    changes = {"traced_step_seconds": traced, "unprofiled_step_seconds": without}
    assert "too small to be measured (95 % interval -6.0% to -4.0%" in shown(
        small_profile(**changes)
    )


def test_the_note_on_short_ops_is_there_only_with_a_mark():
    long, short = op("MatMul", [1.0], count=1), op("Add", [1e-6], count=10)
    text = shown(profile([long, short], tracing_seconds_per_op=1e-6))
    assert "*" not in text
    text = shown(profile([long, op("Add", [0.1], count=10)], tracing_seconds_per_op=0.02))
    assert "Add *" in text
    assert "* shorter than the cost of tracing an op" in text
