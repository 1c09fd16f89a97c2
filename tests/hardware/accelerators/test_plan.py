"""A plan of parallelism is a text such as ``data=8,tensor=8,sequence``."""

import pytest

from fathom import FathomError
from fathom.hardware.accelerators.plan import Plan, parse


def test_a_text_gives_degrees_and_flags():
    plan, complete = parse("data=8,tensor=4,pipeline=2,expert=4,sharded=1,sequence,recompute")
    assert plan == Plan(8, 4, 2, 4, 1, sequence=True, recompute=True)
    assert complete
    assert plan.nodes == 64
    assert parse("") == (Plan(), False)
    assert parse("tensor=2")[0].on(8) == Plan(data=4, tensor=2)


def test_nodes_are_numbered_along_tensor_first():
    plan = Plan(data=2, tensor=3, pipeline=2)
    places = [plan.place(rank) for rank in range(plan.nodes)]
    assert places[:4] == [(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 0, 0)]
    assert places[6] == (0, 0, 1)
    assert len(set(places)) == plan.nodes


def test_a_pipeline_waits_by_the_closed_form():
    assert Plan(pipeline=8, microbatches=16).bubble == 7 / 16
    assert Plan(pipeline=8, microbatches=16, interleaved=4).bubble == 7 / 64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data", "data is no degree of parallelism: write data=8"),
        ("data=0", "data must be from 1 to 1,048,576"),
        ("data=9999999", "data must be from 1 to"),
        ("tensor=-1,data=1", "is no degree"),
        ("data=2,data=2", "data is given twice"),
        ("sequence=1", "sequence takes no number"),
        ("pipelin=2", "unknown parallelism 'pipelin': did you mean pipeline"),
        ("data=4,sharded=4", "sharded must be 1, 2 or 3"),
        ("data=4,expert=3", "expert=3 must divide data=4"),
        ("data=1,interleaved=2", "give pipeline=N"),
        ("data=1,sequence", "give tensor=N"),
    ],
)
def test_an_impossible_plan_is_refused_in_a_line(text, message):
    with pytest.raises(FathomError) as error:
        parse(text)
    assert message in str(error.value)


def test_the_nodes_must_be_a_multiple():
    with pytest.raises(FathomError, match="12 nodes cannot be divided by tensor=8"):
        parse("tensor=8")[0].on(12)
    with pytest.raises(FathomError, match="at least 1"):
        parse("")[0].on(0)
