"""Collectives send the bytes of their closed forms, at each level of the network."""

import math

import pytest

from fathom import FathomError
from fathom.hardware.accelerators import machine, network
from fathom.hardware.accelerators.machine import Link

FAST, SLOW = 100.0, 10.0  # bytes per second
SIZE = 6400.0


def cluster(fast=0.0, slow=0.0, most=None):
    links = (
        Link(name="in", devices=8, bandwidth=FAST, latency=fast),
        Link(name="out", devices=most, bandwidth=SLOW, latency=slow),
    )
    return machine.load("h100").model_copy(update={"links": links})


def test_a_group_lies_on_the_levels_that_join_equal_parts_of_it():
    def levels(members, stride=1):
        found = network.group(cluster(), members, stride)
        return [(joined, link.name) for joined, link in found]

    assert levels(1) == []
    assert levels(8) == [(8, "in")]
    assert levels(64) == [(8, "in"), (8, "out")]
    assert levels(16, stride=4) == [(2, "in"), (8, "out")]
    assert levels(16, stride=8) == [(16, "out")]
    assert levels(12) == [(4, "in"), (3, "out")]
    assert levels(9) == [(9, "out")]


def test_more_nodes_than_the_links_join_are_refused():
    assert network.group(cluster(most=64), 64)
    with pytest.raises(FathomError, match="join 64 of them"):
        network.group(cluster(most=64), 128)
    with pytest.raises(FathomError, match="K20M has no links"):
        network.group(machine.load("k20m"), 2)


@pytest.mark.parametrize("members", [2, 8, 64, 512])
@pytest.mark.parametrize(
    ("collective", "sent"),
    [
        (network.all_reduce, lambda n: 2 * (n - 1) / n),
        (network.reduce_scatter, lambda n: (n - 1) / n),
        (network.all_gather, lambda n: (n - 1) / n),
        (network.all_to_all, lambda n: (n - 1) / n),
    ],
)
def test_the_bytes_are_those_of_one_ring_over_all(collective, sent, members):
    found = collective(SIZE, network.group(cluster(), members))
    assert sum(found.sent.values()) == pytest.approx(SIZE * sent(members))


def test_few_bytes_of_a_sum_leave_a_server():
    found = network.all_reduce(SIZE, network.group(cluster(), 64))
    assert found.sent == {"in": 2 * 7 / 8 * SIZE, "out": pytest.approx(2 * 7 / 8 * SIZE / 8)}
    assert found.spent["out"] == pytest.approx(found.sent["out"] / SLOW)
    exchanged = network.all_to_all(SIZE, network.group(cluster(), 64))
    assert exchanged.sent == {"in": 7 / 64 * SIZE, "out": 56 / 64 * SIZE}


def test_a_small_sum_goes_through_a_tree_and_a_large_one_through_a_ring():
    members = network.group(cluster(slow=1.0), 256, stride=8)
    small, large = (network.all_reduce(size, members) for size in (1e-3, 1e9))
    assert small.seconds == pytest.approx(2 * math.log2(256) + 2e-3 / SLOW)
    assert large.seconds == pytest.approx(2 * 255 + 2 * 255 / 256 * 1e9 / SLOW)
    ring = network.all_gather(1e-3, members)
    assert ring.seconds == pytest.approx(255, rel=1e-3)


def test_a_message_takes_the_link_to_the_next_node():
    found = network.send(SIZE, network.group(cluster(slow=3.0), 4, stride=8))
    assert found.spent == {"out": 3.0 + SIZE / SLOW}
    assert network.send(SIZE, network.group(cluster(), 1)).seconds == 0
