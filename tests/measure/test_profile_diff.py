import numpy as np
import pandas as pd
import pytest
from commands import fathom, refusal
from synthetic_folder import ENVIRONMENT, op, profile
from traces import TraceBuilder

from fathom.measure.profile import diff, files
from fathom.measure.profile.files import PROFILE, TRACE

MATMUL, OTHER_MATMUL = ("fc1/MatMul:MatMul", "fc1/MatMul:_MklMatMul")


def write_trace(path, *ops):
    """Writes a trace of two equal steps of 1,000 us with these labels and times in us."""
    trace = TraceBuilder().plane("/host:CPU").line("thread")
    for step in range(2):
        trace.step(2000 * step, 1000)
        for number, (label, duration) in enumerate(ops):
            trace.event(label, 2000 * step + 100 * number, duration)
    trace.write(path.parent).rename(path)


@pytest.fixture
def folder(tmp_path):
    """Writes a profile's folder with op times in a step and the labels and times in its trace."""

    def write(name, seconds, *ops, **changes):
        out = tmp_path / name
        out.mkdir()
        times = [op(op_type, [each] * 2) for op_type, each in seconds.items()]
        profile(times, **changes).write(out / PROFILE)
        write_trace(out / TRACE, *ops)
        return out

    return write


@pytest.fixture
def two(folder):
    environment = ENVIRONMENT | {"tensorflow": "2.20.0"}
    settings = {"settings": {"hidden_units": 100, "seed": 0}}
    new = folder(
        "new",
        {"AddV2": 1.0, "MatMul": 2.0},
        (MATMUL, 80),
        ("b:AddV2", 20),
        settings={"hidden_units": 500, "seed": 0},
    )
    old = {"MatMul": 4.5, "Pow": 1.5}
    return new, folder(
        "old", old, (OTHER_MATMUL, 30), ("c:Pow", 40), environment=environment, **settings
    )


def test_op_types_are_compared_by_the_papers_names_in_order_of_the_difference(two):
    table = diff.op_types(*map(diff.read, two))
    assert table.type.tolist() == ["MatMul", "Pow", "Add"]
    np.testing.assert_allclose(table.difference, [-2.5, -1.5, 1])
    np.testing.assert_allclose(table.seconds, [2, 0, 1])
    np.testing.assert_allclose(table.ratio, [2 / 4.5, 0, np.nan])
    np.testing.assert_allclose(table.share, [2 / 3, 0, 1 / 3])
    np.testing.assert_allclose(table.other_share, [3 / 4, 1 / 4, 0])
    assert table[["count", "other_count"]].to_numpy().tolist() == [[1, 1], [0, 1], [1, 0]]


def test_ops_are_compared_by_name_whatever_kernel_ran(two):
    table = diff.ops(*(each / TRACE for each in two)).set_index("op")
    assert table.index.tolist() == ["fc1/MatMul", "c", "b"]
    assert table.type.tolist() == ["MatMul", "", "AddV2"]
    assert table.other_type.tolist() == ["_MklMatMul", "Pow", ""]
    np.testing.assert_allclose(table.difference, [50e-6, -40e-6, 20e-6])
    np.testing.assert_allclose(table.share, [0.8, 0, 0.2])
    assert table["count"].tolist() == [1, 0, 1]


def test_two_stored_profiles_are_shown_side_by_side_without_verdict(two, tmp_path, capsys):
    out = tmp_path / "out"
    assert fathom("profile", two[0], "--against", two[1], "--out", out) == 0
    shown = capsys.readouterr().out
    assert "differs: tensorflow: 2.21.0, other 2.20.0" in shown
    assert "differs: hidden_units: 500, other 100" in shown
    assert "differs: seed" not in shown
    assert "MatMul, other _MklMatMul" in shown
    assert "No verdict: each profile is from one process" in shown
    types, ops = (pd.read_csv(out / f"{name}_against.csv") for name in ("op_types", "ops"))
    assert types.seconds_a_step.sum() == pytest.approx(3)
    assert ops.other_seconds_a_step.sum() == pytest.approx(70e-6)
    page = (out / "against.html").read_text()
    assert "differs: tensorflow: 2.21.0, other 2.20.0" in page
    assert "op types, by difference (3 rows)" in page
    assert '<td class="number">2,000</td>' in page  # ms of MatMul
    assert "<td>_MklMatMul</td>" in page


def test_a_new_profile_removes_the_comparison_of_the_one_before(two, tmp_path):
    out = tmp_path / "out"
    assert fathom("profile", two[0], "--against", two[1], "--out", out) == 0
    (out / TRACE).write_bytes((two[0] / TRACE).read_bytes())
    files.write(diff.read(two[0]), lambda *_: ("fc1", "forward"), out)
    assert (out / PROFILE).exists()
    assert not [*out.glob("*against*")]


def test_a_stored_profile_is_shown_again(two, capsys):
    assert fathom("profile", two[0]) == 0
    shown = capsys.readouterr().out
    assert "B Matrix Operations" in shown
    assert "No verdict" not in shown


def test_a_stored_profile_is_shown_without_its_trace(two, capsys):
    (two[0] / TRACE).unlink()
    assert fathom("profile", two[0]) == 0
    assert "B Matrix Operations" in capsys.readouterr().out
    error = refusal(capsys, fathom("profile", two[0], "--against", two[1]))
    assert f"{two[0]} has no trace.xplane.pb: profile again with --out" in error


@pytest.mark.filterwarnings("error")
def test_an_older_profile_without_unprofiled_steps_tells_what_is_known(two, folder, capsys):
    older = folder("older", {"Mul": 1.0}, ("a:Mul", 1), unprofiled_step_seconds=np.array([]))
    assert fathom("profile", older, "--against", two[1]) == 0
    shown = capsys.readouterr().out
    assert "nan" not in shown
    assert "step: mean 1,250.000 ms with the profiler\n" in shown
    assert "median step without" not in shown


def test_of_many_ops_the_others_have_one_row(folder, capsys, monkeypatch):
    ops = [(f"scope/op{i}:Mul", 1 + i) for i in range(9)]
    many = [(f"{'a_long_scope/' * 5}op{i}:Mul", 10) for i in range(9)]
    both = [folder(name, {"Mul": 1.0}, *each) for name, each in (("a", ops), ("b", many))]
    monkeypatch.setattr(diff, "_MOST_ROWS", 5)
    assert fathom("profile", both[0], "--against", both[1]) == 0
    shown = capsys.readouterr().out
    assert "13 others" in shown
    assert "_scope/a_long_scope/op0 " in shown


def test_what_cannot_be_compared_is_one_line(two, folder, tmp_path, capsys):
    new, old = two
    vgg = folder("vgg", {"Mul": 1.0}, ("a:Mul", 1), workload="vgg")
    cut = folder("cut", {"Mul": 1.0}, ("a:Mul", 1))
    (cut / TRACE).write_bytes((cut / TRACE).read_bytes()[:-7])
    bare = folder("bare", {"Mul": 1.0}, ("a:Mul", 1))
    (bare / TRACE).unlink()
    for arguments, reason in (
        ([new, "--against", vgg], f"{vgg} is a profile of vgg, not of autoenc"),
        (["autoenc", "--against", vgg], f"{vgg} is a profile of vgg, not of autoenc"),
        ([new, "--against", cut], "is truncated or not a profiler trace"),
        ([new, "--against", bare], f"{bare} has no trace.xplane.pb: profile again with --out"),
        ([new, "--against", tmp_path], "cannot read"),
        ([new, "--against", old, "--out", old], "--out would replace the profile"),
        (["autoencoder"], "unknown workload or folder 'autoencoder': did you mean autoenc?"),
    ):
        assert reason in refusal(capsys, fathom("profile", *arguments))
