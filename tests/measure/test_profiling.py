import csv
import gzip
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from commands import fathom, refusal
from recounting import recount

from fathom import Autoenc, FathomError
from fathom.core.training.compilation import copied
from fathom.measure.profile.profiling import profile_model
from fathom.results.profile import Profile
from fathom.system.rates import Ceiling
from fathom.system.threads import intra_op_threads_in_use

SMALL = {"batch_size": 10, "hidden_units": 30, "steps_per_call": 1}
STEPS = 4


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    model = Autoenc("/cpu:0", SMALL)
    model.setup()
    profile, place = profile_model(model, STEPS, folder)
    return profile, place, folder / "trace.xplane.pb"


@pytest.fixture(autouse=True)
def known_rates(monkeypatch):
    """Measures no rates of the machine, which takes a second and much memory."""
    monkeypatch.setattr("fathom.system.rates.gemm_ceiling", lambda *_: Ceiling(1e11, 1.0))
    monkeypatch.setattr("fathom.system.rates.triad_ceiling", lambda: Ceiling(1e10, 1.0))


def test_every_step_is_timed_with_and_without_the_profiler(profiled):
    profile, _, _ = profiled
    assert (profile.workload, profile.mode, profile.batch_size) == ("autoenc", "train", 10)
    assert profile.steps == STEPS
    assert len(profile.traced_step_seconds) == len(profile.unprofiled_step_seconds) == STEPS
    assert 0 <= profile.tracing_seconds_per_op < 1e-3  # a difference, cut off at 0
    assert profile.life is None
    assert profile.op_seconds <= profile.step_seconds.sum() * profile.threads
    assert 0 < profile.outside_share < 1
    assert (profile.outside_seconds < profile.step_seconds).all()
    timed = profile.step_seconds.sum() + profile.unprofiled_step_seconds.sum()
    assert profile.processor.wall_seconds > 0.9 * timed
    assert profile.processor.cpu_seconds > 0


def test_the_overhead_is_that_of_the_very_steps_that_give_the_op_times(profiled):
    profile, _, _ = profiled
    assert profile.traced_step_seconds == pytest.approx(profile.step_seconds, rel=0.5)
    pairs = zip(profile.traced_step_seconds, profile.unprofiled_step_seconds, strict=True)
    assert len(list(pairs)) == STEPS
    assert profile.processor.minor_faults is not None


def test_a_copy_of_a_step_has_the_same_graph_and_is_called_as_directly():
    model = Autoenc("/cpu:0", SMALL)
    model.setup()
    step = model.compiled.step.single
    copy = copied(step)
    assert copy.graph is step.graph
    assert type(copy) is type(step)
    assert copy.name != step.name


def test_a_profile_that_is_interrupted_leaves_no_trace_beside_the_one_before(
    profiled, tmp_path, monkeypatch
):
    profiled[0].write(tmp_path / "profile.json")

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("fathom.measure.profile.profiling.seconds_per_op", interrupted)
    options = ["--steps=1", "--batch-size=5", "--set=hidden_units=20", "--device=cpu"]
    (tmp_path / ".fathom").write_text('{"command": "profile"}')
    assert fathom("profile", "autoenc", *options, f"--out={tmp_path}") == 130
    assert {path.name for path in tmp_path.iterdir()} == {".fathom", "trace.xplane.pb"}


def test_a_model_whose_calls_run_several_steps_is_refused(tmp_path):
    model = Autoenc("/cpu:0", SMALL | {"steps_per_call": 5})
    model.setup()
    with pytest.raises(FathomError, match="runs 5 steps"):
        profile_model(model, STEPS, tmp_path)


def test_the_timeline_has_every_op_of_one_step_in_its_time(profiled):
    profile, _, _ = profiled
    line = profile.timeline
    assert Counter(line.op) == {i: op.count for i, op in enumerate(profile.ops)}
    assert (np.diff(line.start_seconds) >= 0).all()
    assert 0 <= line.start_seconds[0] < line.start_seconds[-1] < profile.step_seconds[line.step]
    assert len(line.threads) == len(set(line.thread)) >= 1


def test_every_op_has_a_layer_or_a_role(profiled):
    profile, _, _ = profiled
    layers = {op.layer for op in profile.ops}
    assert "unknown" not in layers
    assert {"encoder_hidden", "decoder_logits", "loss", "optimizer"} <= layers
    assert {op.phase for op in profile.ops} == {"forward", "backward", "optimizer"}


def test_each_layer_is_met_in_both_directions_and_each_variable_is_updated_once(profiled):
    profile, _, _ = profiled
    for layer in ("encoder_hidden", "encoder_gaussian", "decoder_hidden", "decoder_logits"):
        phases = {op.phase for op in profile.ops if op.layer == layer}
        assert {"forward", "backward"} <= phases
        (adam,) = [op for op in profile.ops if (op.type, op.layer) == ("ResourceApplyAdam", layer)]
        assert (adam.count, adam.phase) == (2, "optimizer")


def test_the_cost_of_each_layer_is_told(profiled):
    profile, _, _ = profiled
    layers = {layer.name: layer for layer in profile.cost.layers}
    assert layers["decoder_logits"].macs == 30 * 784


def test_an_independent_count_of_the_trace_finds_the_same(profiled):
    profile, _, path = profiled
    theirs, count = recount(path)
    ours = Counter()
    for op in profile.ops:
        ours[op.type] += op.seconds.sum()
    assert dict(ours) == pytest.approx(theirs, abs=1e-8)
    assert sum(op.count for op in profile.ops) * STEPS == pytest.approx(count)


def test_xprof_finds_the_same_times(profiled, tmp_path):
    tools = pytest.importorskip("xprof.convert.raw_to_tool_data", reason="xprof is not installed")
    path = shutil.copy(profiled[2], tmp_path)  # xprof keeps files of its own beside the trace
    content, _ = tools.xspace_to_tool_data([str(path)], "framework_op_stats", {})
    table = json.loads(content)[0]
    names = [column["id"] for column in table["cols"]]
    theirs = Counter()
    for row in table["rows"]:
        cells = dict(zip(names, (cell.get("v") for cell in row["c"]), strict=True))
        if cells["host_or_device"] == "Host" and cells["type"] != "IDLE":
            theirs[cells["type"]] += cells["total_self_time"] * 1e-6
    ours, _ = recount(Path(path), marked=False)
    assert dict(theirs) == pytest.approx(ours, abs=1e-9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "new" / "folder"
    options = ["--steps=3", "--batch-size=5", "--set", "hidden_units=20", "--device=cpu"]
    assert fathom("profile", "autoenc", *options, "--life=6", "--out", out) == 0
    return out


def test_the_command_writes_the_profile_its_tables_and_the_trace(folder):
    profile = Profile.read(folder / "profile.json")
    assert (profile.steps, profile.batch_size) == (3, 5)
    assert (profile.life.run_steps, profile.life.numbers) == (6, (1, 2, 3, 4, 5))
    with (folder / "ops.csv").open() as file:
        ops = list(csv.DictReader(file))
    assert {row["dominated"] for row in ops} <= {"True", "False"}
    assert sum(float(row["share"]) for row in ops) == pytest.approx(1)
    assert float(ops[-1]["cumulative_share"]) == pytest.approx(1)
    assert {"MatMul", "ApplyAdam"} <= {row["type"] for row in ops}
    with (folder / "layers.csv").open() as file:
        layers = list(csv.DictReader(file))
    assert sum(float(row["share"]) for row in layers) == pytest.approx(1)
    assert (folder / "plugins/profile/fathom/trace.xplane.pb").resolve() == (
        folder / "trace.xplane.pb"
    ).resolve()


def test_a_characterization_has_what_it_keeps_alone_written(tmp_path):
    options = ["--steps=1", "--batch-size=5", "--set=hidden_units=20", "--device=cpu", "--raw"]
    assert fathom("profile", "autoenc", *options, f"--out={tmp_path}") == 0
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == [".fathom", "profile.json", "trace.xplane.pb"]


def test_the_trace_for_perfetto_has_named_tracks_of_nested_events(folder):
    with gzip.open(folder / "trace.json.gz") as file:
        events = json.load(file)["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert "/host:CPU" in names
    slices = [event for event in events if event["ph"] == "X"]
    ops = [event for event in slices if "args" in event]
    assert {"encoder_hidden", "optimizer"} <= {op["args"]["layer"] for op in ops}
    assert "MatMul" in {op["args"]["paper_type"] for op in ops}
    assert [event["name"] for event in slices if "step" in event["name"]] == [
        f"step {number}" for number in range(3)
    ]
    assert all(event["dur"] > 0 for event in slices)
    assert not overlapping(slices)


def overlapping(slices):
    """Returns the slices of a track that end within one after which they began, in nanoseconds."""
    found, ends = [], {}
    for event in sorted(slices, key=lambda each: (each["ts"], -each["dur"])):
        start, end = (round(1000 * ts) for ts in (event["ts"], event["ts"] + event["dur"]))
        around = ends.setdefault((event["pid"], event["tid"]), [])
        while around and around[-1] <= start:
            around.pop()
        found += [event] if around and end > around[-1] else []
        around.append(end)
    return found


def test_a_table_for_a_person_is_printed(capsys):
    assert (
        fathom("profile", "autoenc", "--infer", "--steps=2", "--batch-size=5", "--device=cpu") == 0
    )
    output = capsys.readouterr().out
    for words in (
        "the profiler's overhead",
        "outside ops",
        "B Matrix Operations",
        "decoder_logits",
        "of the time in ops",
        "The largest part of the step",
        "Try ",
    ):
        assert words in output
    assert "backward" not in output
    assert ("threads, one operation at a time" in output) == (intra_op_threads_in_use() > 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--steps=0"], "--steps must be at least 1"),
        (["--device=gpu:7"], "gpu:7 is not available"),
        (["--set", "hidden_units"], "NAME=VALUE"),
        (["--set", "hiden_units=3"], "did you mean hidden_units"),
        (["--out=/proc/nowhere"], "cannot make"),
        (["--life=1"], "--life must be at least 5"),
    ],
)
def test_a_wrong_option_is_one_line(capsys, options, reason):
    assert reason in refusal(capsys, fathom("profile", "autoenc", *options))


@pytest.mark.slow
def test_a_step_that_xla_compiles_is_profiled_op_by_op_with_its_time_beside(capsys, monkeypatch):
    monkeypatch.setattr(Autoenc, "default_xla", "step")
    assert fathom("profile", "autoenc", "--steps=2", "--batch-size=5", "--device=cpu") == 0
    output = capsys.readouterr().out
    assert "MatMul" in output
    assert "whole batches compiled by XLA take: mean" in output


@pytest.mark.parametrize(
    ("microbatches", "products"), [pytest.param(1, 11, marks=pytest.mark.slow), (2, 22)]
)
def test_a_profile_says_how_its_batches_are_divided_and_has_the_ops_of_all_parts(
    capsys, tmp_path, microbatches, products
):
    arguments = [f"--microbatches={microbatches}", f"--out={tmp_path}", "--raw"]
    assert (
        fathom("profile", "autoenc", "--steps=2", "--batch-size=6", "--device=cpu", *arguments) == 0
    )
    printed = capsys.readouterr().out
    assert ("batch 6 in 2 microbatches, float32" in printed) == (microbatches == 2)
    profile = Profile.read(tmp_path / "profile.json")
    assert profile.environment.microbatches == microbatches
    assert sum(op.count for op in profile.ops if "MatMul" in op.type) == products
    assert "unknown" not in {op.layer for op in profile.ops}
