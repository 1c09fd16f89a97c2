"""Time to quality: the first epoch that meets the target, and what it took."""

import contextlib
import math
import re
from types import SimpleNamespace

import pytest
from commands import fathom, refusal
from synthetic_folder import ENVIRONMENT

from fathom import FathomError, __main__
from fathom.cli import quality
from fathom.errors import DivergedError
from fathom.measure.runs import quality as quality_runs
from fathom.measure.runs.quality import train_until
from fathom.options import Execution
from fathom.results.quality import Quality
from fathom.results.records import Environment
from fathom.results.steps import Steps

SMALL = ("--set=hidden_units=4", "--set=latents=1", "--device=cpu", "--epochs=1")


class Sizes:
    batch_size, learning_rate = 4, 0.5


class Learner:
    """A model whose metric is a list, and whose steps take 1.5 s, but 10.5 s in the first call."""

    name, hyperparameters, steps_per_epoch, strategy = "learner", Sizes, 4, None
    execution = Execution(seed=7)
    failure = DivergedError

    def __init__(self, *values):
        self.values, self.epochs = values, 0

    def evaluate(self):
        return {"error": self.values[self.epochs], "examples": 9}

    def run(self, n_steps, warmup):
        if self.values[self.epochs + 1] is None:
            raise self.failure("the loss is NaN")
        seconds = [1.0 if self.epochs else 10.0] * 2 + [1.0] * 2
        self.steps = Steps(
            first=0,
            warmup=0,
            seconds=seconds,
            loss=[1.0] * n_steps,
            input_wait=[0.5] * n_steps,
            call=[0, 0, 2, 2],
        )
        self.epochs += 1


def train(*values, target, epochs=9):
    return train_until(Learner(*values), "error", target, epochs, lambda *_: None)


def test_training_ends_with_the_epoch_that_reaches_the_target():
    training, higher = train(0.9, 0.7, 0.3, 0.1, target=0.3)
    assert training.reached
    assert training.replicas == 1
    assert not higher
    assert [point.value for point in training.curve] == [0.9, 0.7, 0.3]
    assert [point.steps for point in training.curve] == [0, 4, 8]
    assert [point.seconds for point in training.curve] == [0, 6, 12]  # without the compilation


def test_the_first_step_of_each_shape_counts_as_a_median_one():
    """TensorFlow optimises the graph of a shape in it, as of all shapes in the first call."""

    class Bucketed(Learner):
        def run(self, n_steps, warmup):
            super().run(n_steps, warmup)
            if self.epochs == 2:  # its last step is the first of a further shape
                self.steps.seconds[3], self.steps.first_of_shape[3] = 50.0, True

    learner = Bucketed(0.9, 0.7, 0.3, 0.1)
    training, _ = train_until(learner, "error", 0.1, 9, lambda *_: None)
    assert [point.seconds for point in training.curve] == [0, 6, 12, 18]


def test_the_crossing_lies_between_two_evaluations():
    training, _ = train(0.9, 0.7, 0.3, target=0.4)
    assert training.seed == 7
    assert training.evaluation_seconds > 0
    crossing = training.crossing(0.4)
    assert crossing == pytest.approx((1.75, 7, 10.5))  # three quarters of the second epoch
    limited, _ = train(0.9, 0.8, 0.7, target=0.1, epochs=2)
    assert limited.crossing(0.1) == (2, 8, 12)


@pytest.mark.slow
def test_several_seeds_give_a_median_and_a_range(tmp_path, capsys):
    file = tmp_path / "q.json"
    command = ("quality", "autoenc", "--target=negative_elbo=1", "--batches=200", *SMALL)
    assert fathom(*command, f"--json={file}") == 0
    assert fathom(*command, f"--json={file}", "--seeds=2") == 0
    found = Quality.read(file)
    assert [each.seed for each in found.trainings] == [0, 1]
    assert found.trainings[0].curve[-1].value != found.trainings[1].curve[-1].value
    printed = " ".join(capsys.readouterr().out.split())
    assert "batch size 200, 1 replica: 0 of 2 seeds reached the target" in printed
    assert printed.count("seed 0: ") == 1  # which the file had
    found.model_copy(update={"higher_is_better": True}).write(file)
    error = refusal(capsys, fathom(*command, f"--json={file}", "--seeds=3"))
    assert "are on both sides of negative_elbo=1: choose a target beyond all" in error
    elsewhere = found.environment.model_copy(update={"threads": 99})
    found.model_copy(update={"environment": elsewhere}).write(file)
    error = refusal(capsys, fathom(*command, f"--json={file}", "--seeds=3"))
    assert "is of another experiment, which differs in threads: name a new file" in error


@pytest.mark.parametrize(
    ("changes", "options", "named"),
    [
        ({"cpu_model": "other"}, [], "cpu_model"),
        ({"inter_op_threads": 2, "tensorflow": "2"}, [], "inter_op_threads, tensorflow"),
        ({"device": "/gpu:0", "xla": "step"}, [], "device, xla"),
        ({"xla": "step", "microbatches": 2}, ["--microbatches=auto"], ""),
    ],
)
def test_seconds_of_other_machines_and_programs_are_not_mixed(changes, options, named):
    command = ["quality", "autoenc", "--target=negative_elbo=5", "--batches=8", *SMALL, *options]
    args, here = __main__._parser().parse_args(command), Environment(**ENVIRONMENT)
    refused = contextlib.nullcontext()
    if named:
        refused = pytest.raises(FathomError, match=f"differs in {named}:")
    with refused:
        quality._refuse_other_times(args, here.model_copy(update=changes), here)


def test_short_times_have_three_digits():
    training, _ = train(0.9, 0.7, 0.3, target=0.3)
    short = [point.model_copy(update={"seconds": point.seconds / 1e3}) for point in training.curve]
    training = training.model_copy(update={"curve": short, "evaluation_seconds": 0.00123})
    row = quality._row(training, SimpleNamespace(seed=0, target=0.3))
    assert row[7:9] == ["0.012", "0.00123 s"]
    words = quality._spread([training.crossing(0.3)])
    assert words == ": median epochs 2 (2 to 2), seconds 0.012 (0.012 to 0.012)"


def test_the_untrained_network_tells_which_way_is_better():
    assert train(0.1, 0.2, target=0.2)[1]
    with pytest.raises(FathomError, match="already"):
        train(0.2, target=0.2)


def test_a_network_on_the_other_side_of_the_target_is_not_trained():
    learner = Learner(0.9, 0.7, 0.3)
    with pytest.raises(FathomError, match="seed 7 and of those before are on both sides"):
        train_until(learner, "error", 0.3, 9, lambda *_: None, higher_before=True)
    assert learner.epochs == 0
    training, _ = train_until(learner, "error", 0.3, 9, lambda *_: None, higher_before=False)
    assert training.reached


def test_the_limit_and_a_divergence_end_a_training():
    limited, _ = train(0.9, 0.8, 0.7, target=0.1, epochs=2)
    assert (limited.reached, limited.failure, len(limited.curve)) == (False, "", 3)
    diverged, _ = train(0.9, 0.8, None, target=0.1)
    assert (diverged.reached, diverged.failure, len(diverged.curve)) == (
        False,
        "the loss is NaN",
        2,
    )


def test_another_failure_than_a_divergence_is_no_result(monkeypatch):
    monkeypatch.setattr(Learner, "failure", FathomError)
    with pytest.raises(FathomError, match="the loss is NaN"):
        train(0.9, 0.8, None, target=0.1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e100])
@pytest.mark.parametrize("target", [0.1, 2.0])
def test_a_metric_that_no_file_holds_is_a_divergence(value, target):
    training, _ = train(0.9, 0.8, value, target=target)
    assert (training.reached, training.failure) == (False, f"error is {value}")
    assert [point.value for point in training.curve] == [0.9, 0.8]
    with pytest.raises(FathomError, match=re.escape(f"network's error is {value}")):
        train(value, 0.8, target=target)


def test_what_sums_gradients_tells_experiments_apart():
    command = ["quality", "autoenc", "--target=negative_elbo=5", "--batches=8", *SMALL]
    gloo = ["--strategy=multi-worker", "--collectives=gloo"]
    plain, single, half = (
        quality._settings(__main__._parser().parse_args([*command, *more]))
        for more in ([], gloo, [*gloo, "--reduce-dtype=bfloat16"])
    )
    assert single == plain | {"collectives": "gloo"}
    assert half == single | {"reduce_dtype": "bfloat16"}


@pytest.mark.slow
def test_trainings_in_the_file_are_not_repeated(tmp_path, capsys):
    file = tmp_path / "q.json"
    command = ("quality", "autoenc", f"--json={file}", "--target=negative_elbo=5", *SMALL)
    assert fathom(*command, "--batches=1000,2000", "--scale-rate") == 0
    first = Quality.read(file)
    assert [each.batch_size for each in first.trainings] == [1000, 2000]
    assert [each.learning_rate for each in first.trainings] == pytest.approx([0.01, 0.02])
    assert "not reached" in capsys.readouterr().out
    assert fathom(*command, "--batches=500,2000", "--scale-rate") == 0
    assert [each.batch_size for each in Quality.read(file).trainings] == [500, 1000, 2000]
    assert "batch size 2000, seed" not in capsys.readouterr().out
    for other, named in (
        (("--seed=4", "--scale-rate"), "seed"),
        ((), "scale_rate"),
        (("--scale-rate", "--set=latents=2", "--precision=bfloat16"), "latents, precision"),
        (("--scale-rate", f"--data-dir={tmp_path}"), "data"),
    ):
        assert fathom(*command, "--batches=1000,2000", *other) == 2
        assert f"experiment, which differs in {named}:" in capsys.readouterr().err


def test_trainings_that_another_command_writes_meanwhile_stay(tmp_path, monkeypatch):
    file = tmp_path / "q.json"
    command = ("quality", "autoenc", f"--json={file}", "--target=negative_elbo=5", *SMALL)

    def train_beside_another(*arguments):
        monkeypatch.undo()
        assert fathom(*command, "--batches=1000") == 0
        return train_until(*arguments)

    monkeypatch.setattr(quality_runs, "train_until", train_beside_another)
    assert fathom(*command, "--batches=2000") == 0
    assert [each.batch_size for each in Quality.read(file).trainings] == [1000, 2000]


def test_mistakes_are_named_in_one_line(tmp_path, capsys):
    file = f"--json={tmp_path / 'q.json'}"
    for arguments, message in (
        (("--target=accuracy", "--batches=1,2"), "METRIC=VALUE"),
        (("--target=accuracy=x", "--batches=1,2"), "a number"),
        (("--target=a=1", "--batches=8,8"), "different batch sizes"),
        (("--target=bleu=1", "--batches=1000,2000", *SMALL), "no metric bleu: it has negative_"),
        (
            ("--target=a=1", "--batches=99999", "--set=steps_per_call=1", *SMALL),
            "fewer than 99999 examples: use smaller --batches",
        ),
    ):
        assert message in refusal(capsys, fathom("quality", "autoenc", file, *arguments))
