"""The time of messages between machines, by level of the network: one function a collective.

A collective of several levels goes level by level, each with what the levels within have left: the
bytes that a machine sends are those of one ring over all (Thakur, Rabenseifner and Gropp 2005), but
few of them leave a server. A message takes its level's latency and its bytes over the bandwidth.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fathom.errors import FathomError
from fathom.hardware.accelerators.machine import Link, Machine


@dataclass(frozen=True)
class Transfer:
    """What a machine sends, by level of the network.

    Attributes:
        sent: bytes.
        spent: seconds until the last machine has received them; one level follows the other.
    """

    sent: Mapping[str, float] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: "Transfer") -> "Transfer":
        """Returns both, one after the other."""
        sent, spent = Counter(self.sent), Counter(self.spent)
        sent.update(other.sent)
        spent.update(other.spent)
        return Transfer(sent, spent)

    def times(self, count: float) -> "Transfer":
        """Returns as many such transfers, one after the other."""
        sent = {name: count * size for name, size in self.sent.items()}
        return Transfer(sent, {name: count * seconds for name, seconds in self.spent.items()})

    @property
    def seconds(self) -> float:
        """Seconds over all levels."""
        return sum(self.spent.values())


Group = tuple[tuple[int, Link], ...]
"""Machines that communicate: how many each level of the network joins, more than 1, and its link;
from the innermost."""


def group(machine: Machine, members: int, stride: int = 1) -> Group:
    """Returns a group of machines, each of which is ``stride`` after the one before.

    A level that does not join equal parts of the group is not used.

    Raises:
        FathomError: the machine has no links, or they do not join as many.
    """
    if members == 1:
        return ()
    machine.require("links")
    levels, left = [], members
    for link in machine.links:
        reach = left if link.devices is None else link.devices // stride
        joined = left if reach >= left else math.gcd(left, max(1, reach))
        if joined > 1:
            levels.append((joined, link))
        left, stride = left // joined, stride * joined
    if left > 1:
        most = machine.links[-1].devices
        raise FathomError(f"the links of {machine.title} join {most} of them: use fewer nodes")
    return tuple(levels)


def reduce_scatter(size: float, members: Group) -> Transfer:
    """Returns the sum of tensors of which each machine keeps an equal part, in rings."""
    return _by_level(size, members, _ring)


all_gather = reduce_scatter  # the exchange of equal parts of a tensor takes as long


def all_reduce(size: float, members: Group) -> Transfer:
    """Returns the sum of tensors of ``size`` bytes, which each machine has afterwards.

    At each level in a ring or in a tree, whichever is faster, as NCCL chooses.
    """
    return _by_level(size, members, lambda *level: min(_ring_sum(*level), _tree_sum(*level)))


def all_to_all(size: float, members: Group) -> Transfer:
    """Returns the exchange in which a machine sends an equal part of its bytes to each machine."""
    count = math.prod(joined for joined, _ in members)
    found, inner = Transfer(), 1
    for joined, link in members:
        receivers = inner * (joined - 1)
        moved = size * receivers / count
        seconds = receivers * link.latency + moved / link.bandwidth
        found += Transfer({link.name: moved}, {link.name: seconds})
        inner *= joined
    return found


def send(size: float, members: Group) -> Transfer:
    """Returns a message from a machine to the next one of its group."""
    if not members:
        return Transfer()
    _, link = members[-1]
    return Transfer({link.name: size}, {link.name: link.latency + size / link.bandwidth})


_Level = tuple[float, float]  # seconds, and bytes that a machine sends


def _by_level(
    size: float, levels: Group, collective: Callable[[float, int, Link], _Level]
) -> Transfer:
    found = Transfer()
    for joined, link in levels:
        seconds, moved = collective(size, joined, link)
        found += Transfer({link.name: moved}, {link.name: seconds})
        size /= joined
    return found


def _ring(size: float, joined: int, link: Link) -> _Level:
    moved = (joined - 1) / joined * size
    return (joined - 1) * link.latency + moved / link.bandwidth, moved


def _ring_sum(size: float, joined: int, link: Link) -> _Level:
    seconds, moved = _ring(size, joined, link)
    return 2 * seconds, 2 * moved


def _tree_sum(size: float, joined: int, link: Link) -> _Level:
    """Returns a sum up a binary tree and down again, in pieces; the bytes are the mean."""
    hops = 2 * math.ceil(math.log2(joined))
    return hops * link.latency + 2 * size / link.bandwidth, 2 * (joined - 1) / joined * size
