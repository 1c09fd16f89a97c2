"""``fathom scale`` prints a row for each number of nodes, and what a node sends."""

import json

import pytest
from commands import fathom, refusal

from fathom.testing.descriptors import descriptor
from tests.hardware.accelerators.steps import blocks


@pytest.fixture
def scale(tmp_path):
    path = tmp_path / "step.json"
    step = blocks(4).model_copy(update={"workload": "gpt"})
    path.write_text(json.dumps(step.to_plain()))

    described = f"--description={path}"
    return lambda *arguments: fathom("scale", "gpt", described, "--machine=a100", *arguments)


def numbers(out):
    """Returns the first column of the table."""
    return [line.split()[0] for line in out.splitlines() if line.split()[-1:] and "%" in line]


def test_nodes_share_the_examples_or_more(scale, capsys):
    assert scale("--nodes=1,2,8") == 0
    assert numbers(capsys.readouterr().out) == ["1", "2", "8"]
    assert scale("--parallelism=data=2,tensor=2,pipeline=2,microbatches=2") == 0
    out = capsys.readouterr().out
    assert numbers(out) == ["1", "8"]  # beside one node
    assert "each of 8 nodes sends in a step" in out
    assert all(purpose in out for purpose in ("tensor", "pipeline", "gradients"))
    assert scale("--parallelism=tensor=2", "--nodes=2,16", "--fusion=elementwise") == 0
    assert numbers(capsys.readouterr().out) == ["2", "16"]


def test_a_fused_step_takes_the_same_memory_in_the_roofline(tmp_path, capsys):
    path = tmp_path / "step.json"
    path.write_text(json.dumps(descriptor("autoenc").model(False).describe().to_plain()))
    step = ("autoenc", f"--description={path}", "--machine=a100", "--fusion=elementwise")
    assert fathom("scale", *step, "--nodes=1") == 0
    held = needed(capsys)
    assert fathom("roofline", *step) == 0
    assert needed(capsys) == held


def needed(capsys):
    """Returns the line on the memory."""
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "holds at least" in line)
    return line


def test_weak_scaling_takes_more_nodes_than_examples(scale, capsys):
    assert scale("--nodes=64") == 2
    assert scale("--nodes=64,16384", "--weak") == 0
    out = capsys.readouterr().out
    assert "weak" in out
    assert numbers(out) == ["64", "16,384"]


def test_what_computes_a_whole_graph_is_not_divided_by_its_batch(capsys):
    command = ("scale", "gcn", "--machine=a100")
    assert fathom(*command, "--nodes=1") == 0
    assert "would compute the whole graph" in refusal(capsys, fathom(*command, "--nodes=1,2"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--parallelism=data=2", "--nodes=2"), "--nodes follows from data=N"),
        (("--parallelism=tensor=3", "--nodes=4"), "4 nodes cannot be divided by tensor=3"),
        (("--parallelism=tensor=0", "--nodes=4"), "tensor must be from 1"),
        (("--parallelism=model",), "unknown parallelism 'model'"),
    ],
)
def test_an_impossible_plan_is_a_line(scale, arguments, message, capsys):
    assert message in refusal(capsys, scale(*arguments))
