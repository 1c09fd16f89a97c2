"""A parser of StableHLO's text, as JAX and ``fathom export --to stablehlo`` write it.

It knows the structure alone (functions, operations, regions, types), an operation a line. No
package on PyPI reads it without a compiler: JAX's parser is a private part of ``jaxlib``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fathom.hardware.networks.rows import Value

_TYPE = re.compile(r"tensor<((?:[^<>]|<[^<>]*>)*)>|![\w.]+")
_OPERAND = re.compile(r"%[\w.$-]+(?:#\d+)?")
_RESULTS = re.compile(r"(%[\w.$-]+(?::\d+)?(?:, %[\w.$-]+(?::\d+)?)*) = ")
_NAME = re.compile(r'"?([\w.]+)"?')
_FUNCTION = re.compile(r"func\.func (?:public |private )?@([\w.$-]+|\"[^\"]*\")\((.*)\{$")
_ARGUMENT = re.compile(r"(%[\w.$-]+): (tensor<(?:[^<>]|<[^<>]*>)*>|![\w.]+)")
_PLACE = re.compile(r'^#(\w+) = loc\("([^"]*)"')
_DTYPES = {"f": "float", "i": "int", "ui": "uint", "bf": "bfloat", "complex<f": "complex"}


class MalformedError(ValueError):
    """A text that is not as StableHLO is printed."""


@dataclass
class Op:
    """An operation.

    Attributes:
        type: such as ``stablehlo.add``.
        results: names.
        text: all but results, regions and types.
        operands: names, in order.
        types: those at the end; of the operands and results, as the operation prints them.
        regions: the blocks in it.
        place: what the framework says of where it comes from; empty if it does not.
    """

    type: str
    results: list[str]
    text: str
    operands: list[str]
    types: list[Value]
    regions: list["Block"]
    place: str = ""


@dataclass
class Block:
    """Operations with the names of the block's arguments."""

    arguments: dict[str, Value] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)


def parse(text: str) -> dict[str, Block]:
    """Returns the functions of a module by name.

    Raises:
        MalformedError: it is not as printed, or the end is missing.
    """
    found_places = filter(None, map(_PLACE.match, text.splitlines()))
    places: dict[str, str] = {found[1]: found[2] for found in found_places}
    lines = iter([line.strip() for line in text.splitlines() if line.strip()])
    functions = {}
    for line in lines:
        line, _ = _split_place(line)
        if found := _FUNCTION.match(line):
            arguments = _arguments(found[2].partition(") -> ")[0])
            functions[found[1]], _ = _block(lines, places, 0)
            functions[found[1]].arguments = arguments
    if not functions:
        raise MalformedError("it has no function")
    return functions


def value_of(kind: str) -> Value:
    """Returns what a type says of a tensor; open sizes are -1."""
    found = _TYPE.fullmatch(kind)
    if found is None:
        raise MalformedError(f"{kind[:40]} is no type")
    if found[1] is None:
        return Value((), "token")
    *sizes, element = (
        found[1].partition(",")[0].split("x") if "<" not in kind[7:] else _complex(kind)
    )
    if not all(size == "?" or size.isdecimal() for size in sizes):
        raise MalformedError(f"{kind[:40]} is no type")
    shape = tuple(-1 if size == "?" else int(size) for size in sizes)
    named = re.fullmatch(r"(bf|f|i|ui|complex<f)(\d+)(\w*)>?", element)
    if element == "i1" or named is None:
        return Value(shape, "bool" if element == "i1" else element)
    bits = 2 * int(named[2]) if named[1].startswith("complex") else int(named[2])
    suffix = f"_{named[3].lower()}" if named[3] else ""
    return Value(shape, f"{_DTYPES[named[1]]}{bits}{suffix}")


def _complex(kind: str) -> list[str]:
    """Returns sizes and element of a tensor of complex numbers."""
    sizes, _, element = kind.removeprefix("tensor<").removesuffix(">").rpartition("complex")
    return [*filter(None, sizes.split("x")), f"complex{element}"]


def _block(lines: Iterator[str], places: dict[str, str], depth: int) -> tuple[Block, str]:
    """Reads operations up to the end of a block; returns them, and what follows the end."""
    if depth > 100:
        raise MalformedError("more than 100 blocks are within each other")
    block = Block()
    for line in lines:
        line, place = _split_place(line)
        if line.startswith("}"):
            return block, line[1:].strip()
        if line.startswith("^"):
            block.arguments = _arguments(line)
            continue
        regions: list[Block] = []
        opened = line.endswith("{")
        while line.endswith("{"):
            region, after = _block(lines, places, depth + 1)
            regions.append(region)
            line = f"{line[:-1].rstrip()} {after}"
            line, inner_place = _split_place(line)
            place = place or inner_place
        if opened and line.startswith(("cond ", "reducer", "do ")):  # of the operation before
            if not block.ops:
                raise MalformedError(f"{line[:20]} belongs to no operation")
            block.ops[-1].regions += regions
            block.ops[-1].place = block.ops[-1].place or places.get(place, "")
            continue
        block.ops.append(_op(line, regions, places.get(place, "")))
    raise MalformedError("the end of a block is missing")


def _arguments(text: str) -> dict[str, Value]:
    return {name: value_of(kind) for name, kind in _ARGUMENT.findall(text)}


def _op(line: str, regions: list[Block], place: str) -> Op:
    results: list[str] = []
    if found := _RESULTS.match(line):
        for each in found[1].split(", "):
            base, _, count = each.partition(":")
            if len(count) > 4:
                raise MalformedError("an operation has 10,000 results or more")
            results += [f"{base}#{i}" for i in range(int(count))] if count else [base]
        line = line[found.end() :]
    name = _NAME.match(line)
    if name is None:
        raise MalformedError(f"{line[:40]} is no operation")
    text, _, types = line.rpartition(" : ")
    text = text or line
    kinds = [value_of(each[0]) for each in _TYPE.finditer(types)]
    return Op(name[1], results, text, _OPERAND.findall(text), kinds, regions, place)


def _split_place(line: str) -> tuple[str, str]:
    """Returns a line without the places that it names, and the name of the last one."""
    place = ""
    while (start := line.rfind(" loc(")) >= 0:
        depth, end, quoted = 0, start + 4, False
        for end in range(start + 4, len(line)):
            if line[end] == '"':
                quoted = not quoted
            elif not quoted:
                depth += {"(": 1, ")": -1}.get(line[end], 0)
                if not depth:
                    break
        place = place or line[start + 5 : end].lstrip("#")
        line = line[:start] + line[end + 1 :]
    return line.rstrip(), place
