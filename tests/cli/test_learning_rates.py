"""What ``fathom quality --scale-rate`` and a diverged training say of learning rates."""

import pytest

from fathom import __main__, workloads
from fathom.cli import quality

SEQ2SEQ = workloads.load("seq2seq")
SUTSKEVER = {"size": "sutskever", "batch_size": 32}


def arguments(workload, *settings):
    command = ["quality", workload, "--target=loss=1", "--batches=32"]
    return __main__._parser().parse_args([*command, *(f"--set={each}" for each in settings)])


@pytest.mark.parametrize(
    ("workload", "settings", "rate"),
    [
        ("seq2seq", [], 0.5 / 64),
        ("seq2seq", ["size=sutskever"], 0.7 / 128),
        ("seq2seq", ["size=sutskever", "learning_rate=0.1"], 0.1 / 128),
        ("memnet", ["linear_start=false"], 0.01 / 32),
    ],
)
def test_a_rate_is_scaled_from_the_workloads_own_batch_size_and_rate(workload, settings, rate):
    args = arguments(workload, *settings)
    model_class = workloads.load(workload)
    assert quality._rate_of_an_example(args, model_class) == pytest.approx(rate)


def test_the_settings_are_those_of_the_size():
    found = quality._settings(arguments("seq2seq", "size=sutskever"))
    assert (found["layers"], found["units"], found["attention"]) == ("4", "1000", "False")
    found = quality._settings(arguments("gpt", "size=gpt2", "prompt_tokens=800"))
    assert (found["context"], found["new_tokens"]) == ("1024", "128")


def test_the_remedy_for_divergence_is_of_the_chosen_size():
    remedy = SEQ2SEQ.Hyperparameters.of(SUTSKEVER).remedy_for_divergence()
    assert "batches of 128: for 32, try --set learning_rate=0.17 " in remedy
