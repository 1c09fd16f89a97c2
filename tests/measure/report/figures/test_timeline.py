import numpy as np
import pytest
from legibility import assert_legible, labels_of
from synthetic_folder import folder, op, profile, run

from fathom.measure.report.figures import timeline
from fathom.results.profile import Timeline

OPS = (
    *(op("MatMul", [0.6, 0.6]), op("AddV2", [0.4, 0.4], "fc2"), op("Neg", [4e-4, 4e-4], "fc2")),
    op("Exp", [4e-4, 4e-4], "fc2"),
)


def with_timeline(**changes):
    """A profile of three ops, one of them short, of which the last runs three times at the end."""
    fields = {
        "step": 1,
        "threads": ("/host:CPU/a", "/host:CPU/b"),
        "thread": (0, 1, 0, 0, 0),
        "op": (0, 1, 2, 2, 2),
        "start_seconds": np.array([0.0, 0.1, 0.7, 0.7005, 1.2]),
        "seconds": np.array([0.6, 0.4, 4e-4, 4e-4, 4e-4]),
    }
    return profile(OPS, timeline=Timeline(**fields | changes))


def test_each_op_has_its_place_in_the_step():
    table = timeline.ops_of_step(with_timeline())
    assert table["op type"].tolist() == ["MatMul", "Add", "Neg", "Neg", "Neg"]
    assert table["kernel"].tolist()[1] == "AddV2"
    assert table["start (ms)"].tolist() == pytest.approx([0, 100, 700, 700.5, 1200])
    assert set(table.step) == {1}


def test_short_ops_that_follow_each_other_are_merged_and_others_are_not():
    rows = timeline.merged(timeline.ops_of_step(with_timeline()), 1250)
    assert rows["op type"].tolist() == ["MatMul", "2 short ops", "Neg", "Add"]
    assert rows["start (ms)"].tolist() == pytest.approx([0, 700, 1200, 100])
    ops = timeline.ops_of_step(with_timeline(op=(0, 1, 2, 3, 2)))
    assert timeline.merged(ops, 1250).kernel.tolist() == ["MatMul", "Neg Exp", "Neg", "AddV2"]
    assert rows["time (ms)"].tolist() == pytest.approx([600, 0.9, 0.4, 400])


def test_the_figure_has_a_line_for_each_thread_and_names_the_step():
    found = timeline.FIGURE.analyse(folder([run(profile=with_timeline())]))
    shown = labels_of(found.plot)
    assert {"thread 1", "thread 2", "autoenc, step 1", "MatMul", "Add"} <= shown
    assert "autoenc 5 ops in 1.25e+03 ms" in found.summary
    assert_legible(found.plot)


def test_an_older_profile_without_a_timeline_is_named():
    found = timeline.FIGURE.analyse(folder([run(profile=profile(OPS, timeline=None))]))
    assert found.plot is None
    assert "autoenc: profiled by an earlier version, without a timeline" in found.gaps


@pytest.mark.parametrize("changes", [{"op": (0, 1, 2, 2, 4)}, {"thread": (0, 2, 0, 0, 0)}])
def test_a_timeline_of_ops_or_threads_that_are_not_there_is_refused(changes):
    with pytest.raises(ValueError, match="timeline"):
        with_timeline(**changes)
