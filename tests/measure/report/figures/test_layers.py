import pytest
from legibility import assert_legible
from synthetic_folder import long_names, op, ops_of, paper_profile, profile

from fathom.measure.report.figures import layers


def test_layers_have_their_forward_and_backward_time():
    ops = [
        op("MatMul", [1.0, 3.0], "fc1"),
        op("MatMul", [4.0, 4.0], "fc1", "backward"),
        op("ResourceApplyAdam", [1.0, 1.0], "optimizer", "optimizer"),
        op("Foo", [1.0, 1.0], "unknown", "other"),
    ]
    times = layers.layer_times(ops_of(profile(ops)))
    assert times["layer or role"].tolist() == ["fc1", "optimizer", "unknown"]
    assert times.iloc[0].tolist() == ["autoenc", "fc1", 2, 4, 0, 0, 6 / 8]
    table = layers.phases(times)
    assert table.iloc[0, 1:5].tolist() == pytest.approx([2 / 8, 4 / 8, 1 / 8, 1 / 8])
    assert table["has a layer or role"].tolist() == [pytest.approx(7 / 8)]
    assert layers.summary(ops_of(profile(ops))).startswith("87.5 % of autoenc's time in ops has")


def test_the_share_with_a_layer_has_an_interval_between_processes():
    both = [profile([op("MatMul", [t]), op("Foo", [1.0], "unknown")]) for t in (7.0, 7.2)]
    assert layers.summary(ops_of(*both)).startswith("87.7 (85.7 to 89.6) % of")


def test_long_names_are_shortened():
    assert_legible(
        layers.draw(layers.layer_times(ops_of(paper_profile("vgg"), long_names("seq2seq"))))
    )
