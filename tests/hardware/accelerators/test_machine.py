"""Machines are files whose every number has a source."""

import json

import pytest

from fathom import FathomError
from fathom.hardware.accelerators import machine


@pytest.mark.parametrize("name", machine.names())
def test_each_machine_can_be_read(name):
    loaded = machine.load(name)
    assert all(loaded.sources.values())
    assert min(loaded.flops.values()) > loaded.bandwidth / 100


def test_the_ridge_point_of_the_p100_is_that_of_the_seed():
    assert machine.load("p100").ridge("float32") == pytest.approx(13.7, abs=0.05)


LEVELS = (("L1", 1.0), ("L2", 2.0))


def own(**changes):
    """Returns the text of a user's machine."""
    given = {
        "schema": 1,
        "title": "mine",
        "flops": {"float32": 1e12},
        "bandwidth": 1e11,
        "sources": {"flops": "a", "bandwidth": "b"},
    }
    return json.dumps({name: value for name, value in (given | changes).items() if value != ""})


def test_a_users_machine_is_a_small_file(tmp_path):
    (tmp_path / "m.json").write_text(own())
    assert machine.load(str(tmp_path / "m.json")).ridge("float32") == 10


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bandwidth": ""}, "bandwidth is missing"),
        ({"bandwidth": -1.0}, "bandwidth is -1.0, not above 1e-100"),
        ({"bandwidth": "fast"}, 'bandwidth is "fast", not a number'),
        ({"flops": {}}, "flops is empty"),
        ({"flops": {"float32": 0.0}}, "flops.float32 is 0.0"),
        ({"area_mm2": 100.0}, "area_mm2 has no source"),
        ({"clock": 1.0}, "clock"),
        ({"bandwidth": 1e-300}, "bandwidth is 1e-300, not above 1e-100"),
        (
            {"array": {"elements": 2**60, "clock_hz": 1e9, "pipeline_depth": 1, "word_bytes": 4}},
            "array.elements is 1152921504606846976, not below",
        ),
        (
            {"levels": [{"name": n, "size_bytes": 1.0, "bandwidth": b} for n, b in LEVELS]},
            "each of the levels must be slower",
        ),
        ({"levels": [{"name": "memory", "size_bytes": 1.0}]}, "a name of its own"),
        ({"schema": 2}, "of a newer schema"),
        ({"schema": 2**63}, "schema is 9223372036854775808, not "),
    ],
)
def test_a_wrong_field_is_named_in_one_line(tmp_path, changes, message):
    (tmp_path / "m.json").write_text(own(**changes))
    with pytest.raises(FathomError, match=r"m\.json") as error:
        machine.load(str(tmp_path / "m.json"))
    assert message in str(error.value)
    assert "measure again" not in str(error.value) or "schema" in message
    assert "\n" not in str(error.value)


def test_an_unknown_machine_or_precision_is_named_with_those_that_there_are(tmp_path):
    with pytest.raises(FathomError, match=r"unknown machine 'p10'.*p100"):
        machine.load("p10")
    with pytest.raises(FathomError, match="cannot read"):
        machine.load(str(tmp_path / "none.json"))
    with pytest.raises(FathomError, match="no rate for int8; it has float16, float32"):
        machine.load("p100").peak("int8")
