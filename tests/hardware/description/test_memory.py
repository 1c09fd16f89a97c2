"""Results are held until the last operation that reads them has run."""

from fathom.hardware.description import memory
from fathom.results.description import Description
from tests.hardware.accelerators import steps


def operation(name, size, *producers, kind="reduction"):
    return steps.operation(
        **{"name": name, "kind": kind, "bounds": {}, "macs": 0, "output_bytes": size},
        **{"producers": producers, "result_bytes": size},
    )


def step(*operations):
    return steps.description(*operations, held_bytes=1000)


def test_a_result_is_held_until_its_last_reader_has_run():
    described = step(
        operation("a", 100), operation("b", 20, "a"), operation("c", 30, "b"), operation("d", 5)
    )
    table = memory.lifetimes(described).set_index("name")
    assert memory.schedule(described.operations) == ["a", "b", "c", "d"]  # what follows goes on
    assert table.loc["a", ["first", "last"]].tolist() == [0, 1]
    assert table.loc["d", ["first", "last"]].tolist() == [3, 3]  # of the step itself
    assert memory.peak_bytes(described) == 1000 + 100 + 20


def test_the_last_that_an_operation_made_able_to_run_is_first():
    rows = [
        operation("a", 1),
        operation("b", 1, "a"),
        operation("c", 1, "a"),
        operation("d", 1, "c"),
    ]
    assert memory.schedule(step(*rows).operations) == ["a", "c", "d", "b"]


def test_updates_wait_for_all_gradients():
    first = operation("update a", 0, "gradient a").model_copy(update={"phase": "update"})
    second = operation("update b", 0, "gradient b").model_copy(update={"phase": "update"})
    described = step(operation("gradient a", 100), operation("gradient b", 50), first, second)
    assert memory.schedule(described.operations)[:2] == ["gradient a", "gradient b"]
    assert memory.peak_bytes(described) == 1000 + 150


def test_an_elementwise_operation_writes_over_what_nothing_else_reads():
    over = operation("b", 100, "a", kind="elementwise")
    assert memory.peak_bytes(step(operation("a", 100), over)) == 1000 + 100
    read_again = operation("c", 1, "a", "b")
    assert memory.peak_bytes(step(operation("a", 100), over, read_again)) == 1000 + 201


def test_a_reader_of_a_statistic_does_not_hold_the_rest():
    norm = operation("norm", 102, "a")
    statistic = operation("late", 0, "b").model_copy(
        update={"producers": ("norm", "b"), "small_reads": ("norm",)}
    )
    over = operation("relu", 100, "norm", kind="elementwise")  # over the norm's largest result
    described = step(operation("a", 1), norm, over, operation("b", 100, "relu"), statistic)
    table = memory.lifetimes(described).set_index("name")
    assert table.loc["norm", "last"] == table.loc["relu", "first"] - 1
    assert memory.peak_bytes(described) == 1000 + 200


def test_what_a_loop_carries_round_is_no_reason_to_wait():
    rows = [operation("loop/body/a", 4, "loop/body/b"), operation("loop/body/b", 4, "loop/body/a")]
    assert memory.schedule(step(*rows).operations) == ["loop/body/a", "loop/body/b"]


def test_an_operation_that_reads_its_last_iteration_writes_over_what_else_it_reads():
    total = operation("loop/body/sum", 100, "loop/body/sum", "a", kind="elementwise")
    assert memory.peak_bytes(step(operation("a", 100), total)) == 1000 + 100


def test_results_of_no_operation_of_the_step_are_inputs():
    rows = operation("a", 100, "x"), operation("b", 20, "a", "x", kind="elementwise")
    update = operation("update", 0, "x").model_copy(update={"phase": "update"})
    assert memory.peak_bytes(step(*rows, update)) == 1000 + 100 + 20


def test_an_older_description_is_read_and_tells_no_memory():
    text = step(operation("a", 100)).model_copy(update={"held_bytes": None}).to_json()
    assert memory.peak_bytes(Description.parse(text, "old.json")) is None
