import pytest
from synthetic_folder import ENVIRONMENT, op, profile

from fathom.measure.profile import conclusions
from fathom.results.profile import OpWork, Roofs

ROOFS = Roofs(flops_per_second=100.0, bytes_per_second=10.0)


def sentences_of(ops, work, outside=0.25, **changes):
    """The sentences on a profile of one op of each type, with its FLOPs and bytes."""
    created = profile(
        [op(kind, [seconds] * 2) for kind, seconds in ops.items()],
        op_work=tuple(
            OpWork(type=kind, layer="fc1", phase="forward", flops=flops, bytes=size)
            for kind, (flops, size) in work.items()
        ),
        **{"roofs": ROOFS} | changes,
    )
    return conclusions.sentences(
        created.model_copy(update={"outside_seconds": outside * created.step_seconds})
    )


def test_an_op_at_the_rate_of_a_matrix_product_is_limited_by_arithmetic():
    takes, limits, advice = sentences_of(
        {"MatMul": 1.0, "Mul": 0.1}, {"MatMul": (90, 1), "Mul": (0, 0)}
    )
    assert takes == (
        "MatMul takes 91% of the time in ops and Mul 9%; the heaviest layer or role is fc1 with "
        "100%; no op runs in 25% of the step."
    )
    assert limits.startswith(
        "The largest part of the step, 68%, is in ops near the processor's peak"
    )
    assert "more --threads" in advice  # one of four cores
    assert "bfloat16" not in advice


def test_a_processor_with_bfloat16_is_told_to_use_it():
    narrow = ENVIRONMENT | {"cpu_flags": ["amx_bf16"]}
    *_, advice = sentences_of({"MatMul": 1.0}, {"MatMul": (90, 1)}, environment=narrow, threads=4)
    assert advice == "Try --precision bfloat16."
    *_, advice = sentences_of({"MatMul": 1.0}, {"MatMul": (90, 1)}, threads=4)
    assert advice == "No option makes it faster: try a smaller network."


def test_an_op_that_moves_as_many_bytes_as_the_memory_allows_is_limited_by_memory():
    _, limits, advice = sentences_of({"Mul": 1.0}, {"Mul": (1, 9)})
    assert limits.startswith("The largest part of the step, 75%, is in ops near the memory's")
    assert "--xla" in advice


def test_an_op_far_from_its_roof_is_named_with_its_distance():
    _, limits, advice = sentences_of({"MatMul": 1.0}, {"MatMul": (20, 1)})
    assert limits.endswith(
        "MatMul of fc1 (forward) takes 5.0 times what arithmetic and memory allow."
    )
    assert "--batch-size" in advice


def test_a_step_that_is_mostly_outside_ops_is_limited_by_calls():
    _, limits, advice = sentences_of({"MatMul": 1.0}, {"MatMul": (90, 1)}, outside=0.6)
    assert limits == (
        "The largest part of the step, 60%, has no op running: the calls of ops limit it."
    )
    assert advice.startswith("Try --xla")


def test_ops_without_described_work_limit_nothing():
    _, limits, _ = sentences_of(
        {"Odd": 3.0, "Cast": 2.0, "Mul": 1.0}, {"Mul": (1, 9), "Cast": (0, 0)}
    )
    assert "25%, has no op running" in limits


@pytest.mark.parametrize("changes", [{"roofs": None}, {"op_work": ()}])
def test_a_profile_without_roofs_or_work_says_only_what_takes_the_time(changes):
    created = profile([op("MatMul", [1.0])], **{"roofs": ROOFS} | changes)
    assert len(conclusions.sentences(created)) == 1
