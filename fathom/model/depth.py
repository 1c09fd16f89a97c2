"""The description of a network of many equal blocks, from those of networks of a few.

With one block more, a step has further operations at some places: those of the block, as many and
in the same order as the block's before it. Numbers in them (in names, sizes, counts) grow evenly
from block to block, and so do those of the operations around them. So two descriptions give those
of all depths; a third shows whether that is so.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from fathom.errors import FathomError
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
    try:
        short, middle, long = (at(blocks).model_dump(exclude=computed) for blocks in _TRACED)
        if _deeper(short, middle, 2) == long:
            return Description.model_validate(_deeper(middle, long, 1 + depth - _TRACED[-1]))
    except (IrregularError, FathomError):  # few blocks may be too few for another hyperparameter
        pass
    return at(depth)


def _deeper(short: Value, long: Value, blocks: int) -> Value:
    """Returns a value of a description with more blocks than ``short``; ``long`` has one more."""
    return _sum((short, long), blocks)((1 - blocks, blocks))


def _sum(values: Sequence[Value], blocks: int = 0) -> Callable[[Counts], Value]:
    """Returns the sum of numbers, as often as each counts; of others, that of the numbers in them.

    It is a function of the counts, since many blocks differ in them alone.

    Raises:
        IrregularError: the values are not alike.
    """
    first = values[0]
    if all(value == first for value in values):
        return lambda counts: first
    if len({type(value) for value in values}) > 1:
        raise IrregularError
    if isinstance(first, int):
        return lambda counts: sum(map(operator.mul, values, counts))
    if isinstance(first, str):
        return _sum_in_text(values)
    if isinstance(first, dict):
        if len({tuple(value) for value in values}) == 1:
            return _sum_of_each({name: [each[name] for each in values] for name in first}, blocks)
        pairs = _sum([tuple(value.items()) for value in values], blocks)
        return lambda counts: dict(pairs(counts))
    if len({len(value) for value in values}) == 1:
        parts = [_sum(each, blocks) for each in zip(*values, strict=True)]
        return lambda counts: type(first)(part(counts) for part in parts)
    if len(values) > 2:
        raise IrregularError
    repeated = type(first)(_repeated(values[0], values[1], blocks))
    return lambda counts: repeated


def _sum_in_text(values: Sequence[str]) -> Callable[[Counts], str]:
    """Returns the sum of the numbers in texts that are otherwise the same."""
    if len({_text(value) for value in values}) > 1:
        raise IrregularError
    numbers = [*zip(*(map(int, _NUMBER.findall(value)) for value in values), strict=True)]
    between = _NUMBER.split(values[0])

    def at(counts: Counts) -> str:
        sums = (str(sum(map(operator.mul, each, counts))) for each in numbers)
        return "".join(map("".join, zip(between, (*sums, ""), strict=True)))

    return at


def _sum_of_each(fields: Mapping[str, Sequence[Value]], blocks: int) -> Callable[[Counts], Value]:
    """Returns the sums of the fields of records; most are the same in all of them."""
    same = {name: values[0] for name, values in fields.items()}
    differing = {
        name: _sum(values, blocks)
        for name, values in fields.items()
        if any(value != values[0] for value in values)
    }
    return lambda counts: same | {name: part(counts) for name, part in differing.items()}


def _repeated(short: Sequence[Value], long: Sequence[Value], blocks: int) -> Iterator[Value]:
    """Yields the elements of a sequence with more blocks than ``short``; ``long`` has one more."""
    j = 0
    for i in range(len(short) + 1):
        more = _inserted(short[i:], long[j:])
        if more:
            if more > i:
                raise IrregularError
            parts = [
                _sum((short[i - more + k], long[j - more + k], long[j + k])) for k in range(more)
            ]
            for block in range(1, blocks + 1):
                for part in parts:
                    yield part((1 - blocks, blocks - block, block))
            j += more
        if i < len(short):
            yield _deeper(short[i], long[j], blocks)
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
