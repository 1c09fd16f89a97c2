"""Tells from which operation of a step each kernel of a bare program comes.

The header that XLA's ahead-of-time compiler writes calls kernels in the order of the compiled
module's instructions, each of which names an operation of the graph. A fusion stands for several:
it names the one whose result it computes.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fathom.errors import FathomError

_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}  # no call
_COMPUTATION = re.compile(r"(ENTRY )?%(\S+) \(.*\{$")
_INSTRUCTION = re.compile(r"  (?:ROOT )?%\S+ = .*? ([a-z][\w-]*)\(")
_ORIGIN = re.compile(r'op_name="([^"]*)"')
_CALLED = re.compile(r"(?:condition|body|to_apply|\w+_computations?)=(?:%([^,\s]+)|\{([^}]*)\})")
_CALL = re.compile(r"// ([A-Za-z ]+) Thunk\n\s*\{\n")


@dataclass(frozen=True)
class _Instruction:
    kind: str
    origin: str
    called: tuple[str, ...]  # computations, a loop's condition first


def marked(header: str, module: str, layer: Callable[[str], str]) -> tuple[str, list[str]]:
    """Returns the header with each call's layer, as ``ROI_ENTER(3);``, and the layers by number.

    Args:
        header: as the compiler wrote it.
        module: the compiled module as text, its instructions in the order in which they run.
        layer: returns the layer of an operation; it is not asked of instructions that name none,
            which belong to the layer before.

    Returns:
        the header, and the layers in the order in which the step comes to them, from number 1 on.

    Raises:
        FathomError: the header has other calls than the module.
    """
    computations, entry = _parsed(module)
    calls = list(_CALL.finditer(header))
    kinds = iter([call[1] for call in calls])
    origins = list(_origins(computations, entry, kinds))
    if len(origins) != len(calls) or next(kinds, None):
        raise FathomError(
            f"program cannot mark layers: XLA's header has {len(calls)} calls, "
            f"its module {len(origins)}"
        )
    numbers: dict[str, int] = {}
    pieces, end, number = [], 0, 0
    for call, origin in zip(calls, origins, strict=True):
        if origin:
            number = numbers.setdefault(layer(origin), len(numbers) + 1)
        pieces += [header[end : call.end()], f"ROI_ENTER({number});\n"]
        end = call.end()
    return "".join([*pieces, header[end:]]), list(numbers)


def _parsed(module: str) -> tuple[dict[str, list[_Instruction]], str]:
    """Returns the instructions of each computation that call something, and the entry's name."""
    computations: dict[str, list[_Instruction]] = {}
    entry, current = "", []
    for line in module.splitlines():
        if head := _COMPUTATION.match(line):
            current = computations[head[2]] = []
            entry = head[2] if head[1] else entry
        elif (found := _INSTRUCTION.match(line)) and found[1] not in _FREE:
            origin = _ORIGIN.search(line)
            named = sorted(_CALLED.finditer(line), key=lambda each: each[0].startswith("body"))
            called = tuple(re.findall(r"[^\s,%]+", " ".join(n[1] or n[2] for n in named)))
            current.append(_Instruction(found[1], origin[1] if origin else "", called))
    return computations, entry


def _origins(
    computations: dict[str, list[_Instruction]], name: str, kinds: Iterator[str]
) -> Iterator[str]:
    """Yields the operation of each call of a computation, and of what it calls."""
    for instruction in computations[name]:
        yield instruction.origin
        kind = next(kinds, "")
        while instruction.kind == "sort" and kind == "Copy":  # of what is sorted in place
            yield instruction.origin
            kind = next(kinds, "")
        parts: tuple[str, ...] = ()
        if kind == "For Loop":  # how often it runs is known: nothing asks
            parts = instruction.called[1:]
        elif kind == "While Loop":
            parts = (*instruction.called, instruction.called[0])
        elif kind in ("Call", "Conditional"):  # small calls are kernels
            parts = instruction.called
        for part in parts:
            yield from _origins(computations, part, kinds)
