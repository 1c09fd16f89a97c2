import pytest

from fathom.measure import nearest
from fathom.results.description import Description, Operation
from fathom.results.nearest import Nearest


def step(workload, bytes_by_kind, batch_size=1):
    """A step of operations without arithmetic, of so many bytes for each kind."""
    operations = tuple(
        Operation(
            **{"name": kind, "type": "A", "layer": "a", "phase": "forward", "dtype": "float32"},
            **{"kind": kind, "bounds": {"elements": 1}, "repeats": 1},
            **{"macs": 0, "flops": 0, "input_bytes": size, "weight_bytes": 0, "output_bytes": 0},
        )
        for kind, size in bytes_by_kind.items()
    )
    return Description(
        **{"workload": workload, "mode": "infer", "batch_size": batch_size},
        **{"precision": "float32", "inputs": {}, "parameters": 0, "operations": operations},
    )


ARCHETYPES = {
    "mover": step("mover", {"data movement": 10}, 8),
    "adder": step("adder", {"elementwise": 10}, 2),
    "summer": step("summer", {"reduction": 9, "elementwise": 1}),
}


MIXED = {"elementwise": 4, "data movement": 3}


def find(bytes_by_kind):
    return nearest.find(step("mine", bytes_by_kind, 4), ARCHETYPES)


def test_the_nearest_is_first_with_the_cosine_distance():
    found = find(MIXED)
    assert [(each.workload, each.batch_size) for each in found.archetypes] == [
        *(("adder", 2), ("mover", 8), ("summer", 1)),
    ]
    distances = [each.distance for each in found.archetypes]
    assert distances == pytest.approx([1 - 4 / 5, 1 - 3 / 5, 1 - 4 / 5 / 82**0.5])
    assert (found.network, found.batch_size) == ("mine", 4)


def test_the_sentences_tell_the_two_nearest_and_what_differs():
    first, near, adder, mover = nearest.sentences(find(MIXED))
    assert first == "mine is nearest to adder (distance 0.20) and mover (distance 0.40)."
    assert near == "That is near: half of the archetypes have another one within 0.89."
    assert adder == (
        "Like adder, it does elementwise operations at 1 FLOP/byte or less (57% of its work, 100% "
        "of adder's). It differs in data movement at 1 FLOP/byte or less (43% of its work, 0% of "
        "adder's) and elementwise operations at 1 FLOP/byte or less (57%, 100%)."
    )
    assert mover.startswith("Like mover, it does data movement")


def test_what_is_alike_and_what_is_far_is_said():
    same, apart = find({"elementwise": 1}), find({"look-up": 1})
    assert list(nearest.sentences(same))[2].endswith("(100% of its work, 100% of adder's).")
    listed = list(nearest.sentences(apart))
    assert listed[1].startswith("That is not near: ")
    assert listed[2].startswith("It has nothing in common with mover. It differs in look-ups")


def test_the_record_is_read_again(tmp_path):
    found = find(MIXED)
    found.write(tmp_path / "n.json")
    assert Nearest.read(tmp_path / "n.json") == found


def test_shares_that_round_to_more_than_the_whole_are_no_error():
    counts = (3391, 1021, 4320, 2020, 4095, 2308, 2200, 3312, 3535, 3857)
    (one,) = step("mine", {"elementwise": 1}).operations
    each = [one.model_copy(update={"flops": n, "input_bytes": 8 * n}) for n in counts]
    mine = step("mine", {"elementwise": 1}).model_copy(update={"operations": tuple(each)})
    assert list(nearest.find(mine, ARCHETYPES).work.values()) == [pytest.approx(1)]
