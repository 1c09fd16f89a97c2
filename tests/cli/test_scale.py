"""``fathom scale`` prints a row for each number of nodes, and what a node sends."""

import json

import pytest

from fathom.__main__ import main
from tests.hardware.accelerators.steps import blocks


@pytest.fixture
def scale(tmp_path, capsys):
    path = tmp_path / "step.json"
    step = blocks(4).model_copy(update={"workload": "gpt"})
    path.write_text(json.dumps(step.to_plain()))

    def run(*arguments):
        given = ["scale", "gpt", f"--description={path}", "--machine=a100", *arguments]
        with pytest.raises(SystemExit) as stop:
            main(given)
        printed = capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    return run


def numbers(out):
    """Returns the first column of the table."""
    return [line.split()[0] for line in out.splitlines() if line.split()[-1:] and "%" in line]


def test_nodes_share_the_examples_or_more(scale):
    code, out, _ = scale("--nodes=1,2,8")
    assert (code or 0, numbers(out)) == (0, ["1", "2", "8"])
    _, out, _ = scale("--parallelism=data=2,tensor=2,pipeline=2,microbatches=2")
    assert numbers(out) == ["1", "8"]  # beside one node
    assert "each of 8 nodes sends in a step" in out
    assert all(purpose in out for purpose in ("tensor", "pipeline", "gradients"))
    _, out, _ = scale("--parallelism=tensor=2", "--nodes=2,16", "--fusion=elementwise")
    assert numbers(out) == ["2", "16"]


def test_weak_scaling_takes_more_nodes_than_examples(scale):
    assert scale("--nodes=64")[0] == 2
    code, out, _ = scale("--nodes=64", "--weak")
    assert code in (0, None)
    assert "weak" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--parallelism=data=2", "--nodes=2"), "--nodes follows from data=N"),
        (("--parallelism=tensor=3", "--nodes=4"), "no multiple of tensor=3"),
        (("--parallelism=model",), "unknown parallelism 'model'"),
    ],
)
def test_an_impossible_plan_is_a_line(scale, arguments, message):
    code, _, error = scale(*arguments)
    assert code == 2
    assert message in error
    assert error.count("\n") == 1
