from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from fathom import VGG, AlexNet, Autoenc, FathomError, MemNet, Residual
from fathom.options import (
    Allowed,
    Execution,
    Hyperparameters,
    Setup,
    build,
    hyperparameter,
    sort,
    unknown_option,
)
from fathom.system.device import parse


@dataclass(frozen=True)
class Chosen(Hyperparameters):
    batch_size: int = 8
    rate: float = 0.1
    mirror: bool = True
    shape: str = "round"
    places: int | Literal["all"] = 3


@dataclass(frozen=True)
class Limited(Hyperparameters):
    batch_size: int = hyperparameter(8, "a step", minimum=1)
    share: float = hyperparameter(0.5, "of all", above=0, maximum=1)
    dropout: float = hyperparameter(0.0, "of a layer", below=1)
    year: int = hyperparameter(2015, "of the paper", choices=(2013, 2015))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("batch_size", 0, "batch_size must be at least 1, not 0"),
        ("share", 0, "share must be more than 0, not 0.0"),
        ("share", 1.5, "share must be at most 1, not 1.5"),
        ("share", float("inf"), "share must be a finite number, not inf"),
        ("dropout", 1, "dropout must be less than 1, not 1.0"),
        ("dropout", -0.5, "dropout must not be negative, not -0.5"),
        ("year", 2014, "year must be one of 2013, 2015, not 2014"),
    ],
)
def test_a_value_that_is_not_allowed_is_an_error_that_says_what_is(name, value, message):
    with pytest.raises(FathomError) as error:
        build(Limited, {name: value})
    assert str(error.value) == message


def test_an_empty_choice_is_named():
    with pytest.raises(ValueError, match=r"must be one of small, large, not nothing$"):
        Allowed(choices=("small", "large")).check("")


def test_a_hyperparameter_without_limits_must_not_be_negative_or_infinite():
    for value in (-1, float("nan")):
        with pytest.raises(FathomError, match="rate must "):
            build(Chosen, {"rate": value})


def test_text_is_converted_to_the_type_of_its_field():
    chosen = build(Chosen, {"batch_size": "4", "rate": "1e-3", "mirror": "False", "shape": "flat"})
    assert chosen == Chosen(4, 0.001, False, "flat")


@pytest.mark.parametrize(("value", "expected"), [("all", "all"), ("4", 4), (5, 5)])
def test_a_word_may_stand_for_a_number_where_it_is_declared(value, expected):
    assert build(Chosen, {"places": value}).places == expected


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
        ("places", "most", "a whole number or all"),
        ("batch_size", 4.5, "a whole number"),
        ("batch_size", True, "a whole number"),
        ("rate", True, "a number"),
        ("rate", None, "a number"),
        ("rate", "fast", "a number"),
        ("mirror", "yes", "true or false"),
        ("mirror", 1, "true or false"),
        ("shape", None, "text"),
        ("shape", ["round"], "text"),
        ("shape", b"round", "text"),
        ("rate", {1}, "a number"),
        ("rate", 10**400, "a number"),
        ("batch_size", np.zeros([9, 9]), "a whole number"),
    ],
)
def test_a_value_of_another_type_is_an_error_that_says_what_is_expected(name, value, expected):
    with pytest.raises(FathomError, match=f"{name} must be {expected}, not ") as error:
        build(Chosen, {name: value})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("options", [[], {1, 2}, 5, "batch_size=4", b"", {1: 2}, {None: 1}])
def test_options_that_are_not_values_by_name_are_an_error_in_one_line(options):
    for build_model in (
        lambda: Autoenc("/cpu:0", options),
        lambda: Autoenc("/cpu:0").setup(options),
    ):
        with pytest.raises(FathomError, match="must be") as error:
            build_model()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("device", [b"cpu", 0, ["cpu"], "cpu\n", "gpu:x"])
def test_what_is_no_device_is_an_error_in_one_line(device):
    with pytest.raises(FathomError, match="unknown device") as error:
        parse(device)
    assert "\n" not in str(error.value)


def test_an_unknown_name_is_an_error_that_suggests_the_nearest_and_lists_the_known():
    with pytest.raises(FathomError, match=r"'bach_size': did you mean batch_size\? .*mirror"):
        build(Chosen, {"bach_size": 4})
    assert str(unknown_option("option", "foo", [])) == "unknown option 'foo': there are none"


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


@pytest.mark.parametrize(
    ("batch_size", "rate", "remedy"),
    [
        (4, 0.01, "for batches of 128: for 4, try --set learning_rate=0.00031 (linear"),
        (128, 0.01, "lower the learning rate, or look at the data"),
        (4, 0.5, "lower the learning rate, or look at the data"),
    ],
)
def test_a_small_batch_that_diverges_needs_a_lower_rate(batch_size, rate, remedy):
    hyperparameters = AlexNet.Hyperparameters(batch_size=batch_size, learning_rate=rate)
    assert remedy in hyperparameters.remedy_for_divergence()


def test_the_words_that_may_stand_for_a_number_are_described():
    assert Allowed(minimum=1).describe(int | Literal["all"]) == "whole number >= 1 or all"


def test_microbatches_are_a_number_or_chosen_by_the_workload():
    assert Execution().microbatches == "auto"
    assert build(Execution, {"microbatches": "2"}).microbatches == 2
    with pytest.raises(FathomError, match=r"^microbatches must be at least 1, not 0$"):
        build(Execution, {"microbatches": 0})
    with pytest.raises(FathomError, match="microbatches must be a whole number or auto, not 'x'"):
        build(Execution, {"microbatches": "x"})


@pytest.mark.parametrize(
    "option",
    [{"quantize": "weights"}, {"rounding": "nearest"}, {"overflow": "saturate"}],
    ids=lambda option: next(iter(option)),
)
def test_options_of_fixed_point_are_refused_elsewhere(option):
    assert Execution(precision="fixed16", **option)
    with pytest.raises(FathomError, match=f"^{next(iter(option))} has no effect in bfloat16: omit"):
        Execution(precision="bfloat16", **option)


def test_an_option_that_another_one_switches_off_is_refused_unless_it_has_its_default():
    for name, switch in (
        ("random_noise", "temporal_encoding"),
        ("linear_start_epochs", "linear_start"),
        ("linear_start_patience", "linear_start"),
    ):
        with pytest.raises(FathomError, match=f"{name} has no effect with {switch}=false"):
            MemNet("cpu", {name: "1", switch: "false"})
        assert MemNet("cpu", {name: 1, switch: True}).hyperparameters.batch_size
    same = {"random_noise": 0.1, "linear_start_epochs": 20, "linear_start": False}
    assert not MemNet("cpu", same).hyperparameters.linear_start
    for model_class in (AlexNet, VGG, Residual):
        with pytest.raises(FathomError, match="colour_shift has no effect with augment=false"):
            model_class("cpu", {"colour_shift": 0.2, "augment": False})


def test_a_run_has_as_many_threads_as_operations_at_once():
    assert Execution(threads=2, inter_op_threads=2)
    assert Execution(inter_op_threads=2)
    with pytest.raises(FathomError, match="inter_op_threads=3 exceeds threads=2"):
        Execution(threads=2, inter_op_threads=3)
