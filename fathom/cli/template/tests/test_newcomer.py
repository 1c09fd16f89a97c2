"""The conformance suite on the newcomer workload, and tests of what is its own."""

import numpy as np
import pytest
from fathom_newcomer.model import Newcomer
from fathom_newcomer.points import Points

from fathom.errors import FathomError
from fathom.testing.conformance import *  # noqa: F403

WORKLOADS = ("newcomer",)


def test_the_network_learns_the_synthetic_points():
    model = Newcomer("cpu")
    model.setup()
    model.run(n_steps=300)
    assert model.evaluate()["accuracy"] > 0.9


def test_the_same_seed_draws_the_same_points(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Points.synthesize(tmp_path / name, seed=3, train_size=20, test_size=10)
    first, second = Points.load(tmp_path / "a"), Points.load(tmp_path / "b")
    assert len(first.train_points) == 20
    np.testing.assert_array_equal(first.train_points, second.train_points)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("0.1,0.2\n", "has 2 columns, expected 3"),
        ("0.1,two,0\n", "is malformed"),
        ("0.1,0.2,3\n", "has a value that is not finite, or a class that is not"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(text, message, tmp_path):
    Points.synthesize(tmp_path, seed=0, train_size=20, test_size=10)
    (tmp_path / "points.csv").write_text(text)
    with pytest.raises(FathomError, match=f"points.csv {message}") as error:
        Points.load(tmp_path)
    assert "\n" not in str(error.value)
