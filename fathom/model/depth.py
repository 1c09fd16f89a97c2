"""The description of a network of many equal blocks, from those of networks of a few.

With one block more, a step has further operations at some places: those of the block, as many and
in the same order as the block's before it. Numbers in them (in names, sizes, counts) grow evenly
from block to block, and so do those of the operations around them. So two descriptions give those
of all depths; a third shows whether that is so.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from fathom.results.description import Description

_TRACED = (3, 4, 5)  # blocks: the first ones may differ
_WINDOW = 48  # operations by which places are recognized
_NUMBER = re.compile(r"\d+")

Value: TypeAlias = Any  # of a record: a number, a string, a sequence or a dictionary
Counts = tuple[int, ...]  # how much each of some values counts; the sum is 1


class IrregularError(Exception):
    """Descriptions of several depths do not differ by equal blocks."""


def describe(at: Callable[[int], Description], depth: int) -> Description:
    """Returns the description of a network of some depth.

    Args:
        at: traces and describes the network with a number of equal blocks.
        depth: the number of them.
    """
    if depth <= sum(_TRACED):  # is as quickly traced
        return at(depth)
    computed = set(Description.model_computed_fields)
    short, middle, long = (at(blocks).model_dump(exclude=computed) for blocks in _TRACED)
    try:
        if _deeper(short, middle, 2) == long:
            return Description.model_validate(_deeper(middle, long, 1 + depth - _TRACED[-1]))
    except IrregularError:
        pass
    return at(depth)


def _deeper(short: Value, long: Value, blocks: int) -> Value:
    """Returns a value of a description with more blocks than ``short``; ``long`` has one more."""
    return _combined((short, long), (1 - blocks, blocks))


def _combined(values: Sequence[Value], counts: Counts) -> Value:
    """Returns the sum of numbers, as often as each counts; of others, that of the numbers in them.

    Raises:
        IrregularError: they are not alike.
    """
    first = values[0]
    if all(value == first for value in values):
        return first
    if len({type(value) for value in values}) > 1:
        raise IrregularError
    if isinstance(first, int):
        return sum(value * count for value, count in zip(values, counts, strict=True))
    if isinstance(first, str):
        if len({_text(value) for value in values}) > 1:
            raise IrregularError
        numbers = zip(*(map(int, _NUMBER.findall(value)) for value in values), strict=True)
        sums = iter([_combined(each, counts) for each in numbers])
        return _NUMBER.sub(lambda found: str(next(sums)), first)
    if isinstance(first, dict):
        if len({tuple(value) for value in values}) == 1:
            return {name: _combined([each[name] for each in values], counts) for name in first}
        return dict(_combined([tuple(value.items()) for value in values], counts))
    if len({len(value) for value in values}) == 1:
        return type(first)(_combined(each, counts) for each in zip(*values, strict=True))
    if len(values) > 2:
        raise IrregularError
    return type(first)(_repeated(values[0], values[1], counts[1]))


def _repeated(short: Sequence[Value], long: Sequence[Value], blocks: int) -> Iterator[Value]:
    """Yields the elements of a sequence with more blocks than ``short``; ``long`` has one more."""
    j = 0
    for i in range(len(short) + 1):
        more = _inserted(short[i:], long[j:])
        if more:
            if more > i:
                raise IrregularError
            for block in range(1, blocks + 1):
                for k in range(more):
                    three = short[i - more + k], long[j - more + k], long[j + k]
                    yield _combined(three, (1 - blocks, blocks - block, block))
            j += more
        if i < len(short):
            yield _combined((short[i], long[j]), (1 - blocks, blocks))
            j += 1


def _inserted(short: Sequence[Value], long: Sequence[Value]) -> int:
    """Returns how many elements ``long`` has before those of ``short``."""
    most = len(long) - len(short)
    if not most or (short and _key(short[0]) == _key(long[0])):
        return 0
    if not short:
        return most
    wanted = [_kind(value) for value in short[:_WINDOW]]
    found = [_kind(value) for value in long[: most + _WINDOW]]
    return max(range(most + 1), key=lambda count: _common(wanted, found[count:]))


def _common(first: Sequence[Value], second: Sequence[Value]) -> int:
    """Returns how many elements two sequences begin with alike."""
    differing = (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(differing, min(len(first), len(second)))


def _key(value: Value) -> Value:
    """Returns what equal blocks have in common."""
    if isinstance(value, dict):
        return {name: _key(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    return _text(value) if isinstance(value, str) else value


def _kind(value: Value) -> Value:
    """Returns what operations at the same place have in common, whatever the depth."""
    return _text(value["name"]) if isinstance(value, dict) else _key(value)


def _text(value: str) -> str:
    return _NUMBER.sub("0", value)
