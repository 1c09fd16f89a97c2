import argparse

import pytest

from fathom.cli.parser import Parser, add_options, checked, init_options, names, number, numbers
from fathom.errors import FathomError
from fathom.options import Hyperparameters, RunOptions


@pytest.mark.parametrize(
    ("kind", "limits", "text", "message"),
    [
        (int, {}, "-1", "must not be negative, not -1"),
        (int, {"minimum": 1}, "0", "must be at least 1, not 0"),
        (int, {}, "2.5", "must be a whole number, not '2.5'"),
        (int, {}, "2147483648", "must be at most 2147483647, not 2147483648"),
        (float, {"above": 0}, "0", "must be more than 0, not 0.0"),
        (float, {}, "inf", "must be a finite number, not inf"),
        (float, {}, "nan", "must be a finite number, not nan"),
    ],
)
def test_a_number_out_of_its_limits_is_refused_in_words(kind, limits, text, message):
    with pytest.raises(argparse.ArgumentTypeError) as error:
        number(kind, **limits)(text)
    assert str(error.value) == message


def test_lists_have_commas_and_each_entry_once():
    assert names("fruit", ("apple", "pear"))("pear,apple,pear") == ["pear", "apple"]
    assert numbers("4,1,4") == [1, 4]
    with pytest.raises(argparse.ArgumentTypeError, match="did you mean pear"):
        names("fruit", ("apple", "pear"))("apple,peer")
    for text in ("1,two", "0", "", "1,"):
        with pytest.raises(argparse.ArgumentTypeError, match="whole numbers from 1"):
            checked(numbers)(text)


def test_a_command_takes_an_option_as_it_is_declared_or_with_changes(capsys):
    parser = Parser(prog="tool")
    add_options(parser, "seed", "device", "threads")
    add_options(parser, "steps", default=20)
    args = parser.parse_args(["--device=gpu:1"])
    assert vars(args) == {"seed": 0, "device": "gpu:1", "threads": None, "steps": 20}
    with pytest.raises(SystemExit) as stop:
        parser.parse_args(["--threads=0"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == (
        "tool: error: --threads must be at least 1, not 0; --help lists the options\n"
    )


class Model:
    """What takes options."""

    Hyperparameters, RunOptions = Hyperparameters, RunOptions


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("batch_size", "NAME=VALUE"),
        ("precision=float32", "precision is not for --set: use --precision"),
        ("batch_sise=4", r"did you mean batch_size\? Known are batch_size$"),
    ],
)
def test_what_follows_set_is_an_assignment_to_a_hyperparameter(assignment, message):
    parser = Parser(prog="tool")
    add_options(parser, "set", "batch-size")
    with pytest.raises(FathomError, match=message):
        init_options(parser.parse_args(["--set", assignment]), Model)


def test_the_options_of_a_model_are_those_that_the_command_has_and_was_given():
    parser = Parser(prog="tool")
    add_options(parser, "set", "batch-size", "seed", "threads", "device")
    args = parser.parse_args(["--batch-size=8", "--device=cpu"])
    assert init_options(args, Model) == {"batch_size": 8, "seed": 0}
    args = parser.parse_args(["--set=batch_size=4", "--batch-size=8"])
    with pytest.raises(FathomError, match="exclude each other"):
        init_options(args, Model)
