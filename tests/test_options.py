from dataclasses import dataclass

import numpy as np
import pytest

from fathom import Autoenc, FathomError
from fathom.options import Execution, Hyperparameters, Setup, build, sort


@dataclass(frozen=True)
class Chosen(Hyperparameters):
    batch_size: int = 8
    rate: float = 0.1
    mirror: bool = True
    shape: str = "round"


def test_text_is_converted_to_the_type_of_its_field():
    chosen = build(Chosen, {"batch_size": "4", "rate": "1e-3", "mirror": "False", "shape": "flat"})
    assert chosen == Chosen(4, 0.001, False, "flat")


def test_a_whole_number_serves_where_a_number_is_asked_for():
    assert build(Chosen, {"rate": 1}) == Chosen(rate=1.0)


def test_the_numbers_of_numpy_serve_and_become_pythons():
    chosen = build(Chosen, {"batch_size": np.int64(3), "rate": np.float32(0.5)})
    assert chosen == Chosen(batch_size=3, rate=0.5)
    assert [type(chosen.batch_size), type(chosen.rate)] == [int, float]


@pytest.mark.parametrize("value", [2**31, str(2**31)])
def test_a_whole_number_that_is_too_large_for_a_size_is_an_error(value):
    assert build(Chosen, {"batch_size": 2**31 - 1}).batch_size == 2147483647
    with pytest.raises(FathomError, match="batch_size must be at most 2147483647, not 2147483648"):
        build(Chosen, {"batch_size": value})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("batch_size", "4.5", "a whole number"),
        ("batch_size", 4.5, "a whole number"),
        ("batch_size", True, "a whole number"),
        ("rate", True, "a number"),
        ("rate", None, "a number"),
        ("rate", "fast", "a number"),
        ("mirror", "yes", "true or false"),
        ("mirror", 1, "true or false"),
    ],
)
def test_a_value_of_another_type_is_an_error_that_says_what_is_expected(name, value, expected):
    with pytest.raises(FathomError, match=f"{name} must be {expected}, not "):
        build(Chosen, {name: value})


def test_an_unknown_name_is_an_error_that_suggests_the_nearest_and_lists_the_known():
    with pytest.raises(FathomError, match=r"'bach_size': did you mean batch_size\? .*mirror"):
        build(Chosen, {"bach_size": 4})


def test_options_are_sorted_by_the_dataclass_that_knows_them():
    values = {"seed": 1, "rate": 0.5, "threads": 2}
    assert sort(values, Chosen, Execution) == [{"rate": 0.5}, {"seed": 1, "threads": 2}]
    with pytest.raises(FathomError, match="unknown option 'colour'"):
        sort({"colour": 1}, Chosen, Execution)


@pytest.mark.parametrize(
    "chosen", [{"resume": True}, {"checkpoint_every": 5}, {"checkpoint_dir": "", "resume": True}]
)
def test_checkpoints_need_a_folder(chosen):
    with pytest.raises(FathomError, match="--checkpoint-dir"):
        Setup(**chosen)


@pytest.mark.parametrize("chosen", [{"n_steps": 2.5}, {"n_steps": "3"}, {"warmup": 0.5}])
def test_a_number_of_steps_that_is_not_whole_is_an_error(chosen):
    with pytest.raises(FathomError, match="must be a whole number, not "):
        Autoenc("/cpu:0").run(**chosen)


def test_before_setup_there_is_no_number_of_steps_done():
    with pytest.raises(FathomError, match="call setup"):
        _ = Autoenc("/cpu:0").steps_done
