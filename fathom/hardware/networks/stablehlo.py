"""Describes StableHLO's text: one table of rules, by the type of the operation."""

import math
import operator
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fathom.errors import FathomError, cause
from fathom.hardware.description import bounds
from fathom.hardware.networks import mlir, rows
from fathom.hardware.networks.dimensions import Dimensions
from fathom.hardware.networks.mlir import Block, Op
from fathom.hardware.networks.rows import Place, Rows, Value, Work
from fathom.results.description import Description
from fathom.system.files import read_file

_LARGEST = 2**30  # bytes of the text
_MOST_OPS = 1_000_000  # with those of functions, as often as they are called
_NUMBERS = re.compile(r"-?\d+")
_VIEWS = """
    reshape bitcast_convert optimization_barrier tuple get_tuple_element after_all create_token
    partition_id replica_id copy
    """
_ELEMENTWISE = """
    abs add and atan2 cbrt ceil clamp compare complex cosine count_leading_zeros divide exponential
    exponential_minus_one floor imag is_finite log log_plus_one logistic map maximum minimum
    multiply negate not or popcnt power real reduce_precision remainder rng rng_bit_generator
    round_nearest_afz round_nearest_even rsqrt shift_left shift_right_arithmetic shift_right_logical
    sign sine sqrt subtract tan tanh uniform_dequantize uniform_quantize xor
    acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc is_inf is_neg_inf
    is_pos_inf lgamma next_after polygamma sinh square zeta
    """
_REDUCTIONS = """
    reduce reduce_window select_and_scatter sort top_k batch_norm_inference batch_norm_training
    batch_norm_grad
    """
_MOVEMENTS = """
    broadcast broadcast_in_dim concatenate convert iota pad reverse scatter select transpose
    """
_COMPARISONS = {
    **{"LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge},
    "NE": operator.ne,
}

_Times = tuple[float, float]  # how often a condition holds at first, and how often it does not
Rule = Callable[[Op, Sequence[Value], Sequence[Value]], "list[Work] | None"]


def read(path: Path, dimensions: Mapping[str, int]) -> Description:
    """Returns the work of ``main`` in a file of StableHLO's text; all its arguments are inputs.

    Args:
        path: of the file.
        dimensions: none; the text states all sizes.

    Raises:
        FathomError: the file cannot be read or is damaged, a size is open, or a number of
            iterations depends on the data.
    """
    Dimensions(dimensions).check()
    content = read_file(path, _LARGEST)
    try:
        functions = mlir.parse(content.decode())
        if "main" not in functions:
            raise mlir.MalformedError("it has no function main")
        return _Reader(functions).description(path.stem)
    except FathomError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise FathomError(f"{path} is damaged or no text of StableHLO: {cause(error)}") from error


@dataclass(frozen=True)
class _Known:
    """A value, and the number that it is if that is known beforehand."""

    value: Value
    number: int | None = None


_Scope = MutableMapping[str, _Known]


@dataclass(frozen=True)
class _Context:
    prefix: str = ""
    repeats: int = 1
    function: str = "main"


class _Reader:
    """Goes through the operations of ``main``, with those of loops and functions."""

    def __init__(self, functions: Mapping[str, Block]) -> None:
        self._functions = functions
        self._rows, self._ops = Rows(), 0
        self._constants = 0  # bytes

    def description(self, name: str) -> Description:
        """Returns the description of the program."""
        main = self._functions["main"]
        inputs = {each.lstrip("%"): value for each, value in main.arguments.items()}
        for title, value in inputs.items():
            if min(value.shape, default=1) < 0:
                raise FathomError(f"the argument {title} leaves sizes open: export it with fixed")
        self._call(main, [_Known(value) for value in main.arguments.values()], _Context())
        return rows.finished(name, self._rows, inputs, 0, self._constants)

    def _call(
        self,
        block: Block,
        arguments: Sequence[_Known],
        context: _Context,
        outer: _Scope | None = None,
    ) -> list[_Known]:
        """Goes through a block with some arguments; returns what it returns."""
        own: _Scope = dict(zip(block.arguments, arguments, strict=True))
        scope: _Scope = own if outer is None else ChainMap(own, outer)
        needed = _needed(block)
        for op in block.ops:
            if op.type.endswith("return"):
                return _given(op, scope)
            if op.results and needed.isdisjoint(op.results):
                continue
            self._ops += 1
            if self._ops > _MOST_OPS:
                raise FathomError(f"the program has more than {_MOST_OPS:,} operations")
            results = self._run(op, scope, context)
            scope.update(zip(op.results, results, strict=False))
        return []

    def _run(self, op: Op, scope: _Scope, context: _Context) -> list[_Known]:
        """Goes through one operation; returns its results."""
        kind = op.type.rpartition(".")[2]
        if kind == "constant":
            return [self._constant(op)]
        if kind in ("call", "composite"):
            called = re.findall(r"@([\w.$-]+)", op.text)[-1]
            inside = _Context(context.prefix, context.repeats, called)
            return self._call(self._functions[called], _given(op, scope), inside)
        if kind == "while":
            return self._while(op, scope, context)
        if kind in ("case", "if") and op.regions:
            number, last = scope[op.operands[0]].number, len(op.regions) - 1
            number = 0 if number is None else 1 - number if kind == "if" else number
            number = number if 0 <= number < last else last  # as the specification says
            return self._call(op.regions[number], [], context, scope)
        return self._operation(op, kind, _given(op, scope), context)

    def _constant(self, op: Op) -> _Known:
        value = replace(_results(op)[0], weight=True)
        self._constants += value.bytes
        return _Known(value, _number(op))

    def _operation(self, op: Op, kind: str, given: list[_Known], context: _Context) -> list[_Known]:
        """Adds an operation, unless it is a view or computes with constants alone."""
        values, outputs = [each.value for each in given], _results(op)
        for each in outputs:
            if min(each.shape, default=1) < 0:
                raise FathomError(
                    f"the size of {kind}'s result is open: export it with fixed sizes"
                )
        numbers = [each.number for each in given if each.number is not None]
        number = given[0].number if given and kind in ("convert", "reshape") else None
        if kind == "clamp" and len(numbers) == 3:  # the least, a number, and the most
            number = sorted(numbers)[1]
        if kind in _VIEWS.split() or all(value.weight for value in values):
            origins = values or [Value((), "token", True)]
            if len(origins) != len(outputs):  # an optimization_barrier has as many
                origins = origins[:1] * len(outputs)
            return [
                _Known(Value(each.shape, each.dtype, origin.weight, origin.producers), number)
                for each, origin in zip(outputs, origins, strict=True)
            ]
        target = re.search(r"custom_call @([\w.$-]+)", op.text)
        title = f"custom_call @{target[1]}" if target else op.type
        layer = op.place.rpartition("/")[0] or context.function
        name = f"{context.prefix}{kind}#{self._ops}"
        rule = RULES.get(kind)
        works = rule(op, values, outputs) if rule else None
        if works is None:
            self._rows.without_rule[title] = None
            works = [rows.movement(values, outputs)]
        producers = self._rows.add(
            Place(name, title, layer, context.repeats), works, values, outputs
        )
        return [_Known(replace(each, producers=producers)) for each in outputs]

    def _while(self, op: Op, scope: _Scope, context: _Context) -> list[_Known]:
        """Goes through the body of a loop once; its work counts as often as it runs at most."""
        condition, body = op.regions
        pretty = not condition.arguments  # ``%name = %start`` for each
        start = [scope[name] for name in (op.operands[1::2] if pretty else op.operands)]
        if pretty:
            named = zip(op.operands[::2], start, strict=True)
            values = {name: each.value for name, each in named}
            condition, body = (Block(values, each.ops) for each in op.regions)
        last = body.ops[-1].operands
        name = f"{context.prefix}while#{self._ops}"
        names = [f"{name}/state/{place}" for place in range(len(start))]
        given = [
            each if argument == end else _varying(each.value, state)
            for each, argument, end, state in zip(start, body.arguments, last, names, strict=True)
        ]
        times = _iterations(condition, body, start, given, scope)
        if times is None:
            raise FathomError(f"the number of iterations of {name} is not known beforehand")
        if not times:
            return start
        inside = _Context(f"{name}/body/", context.repeats * times, context.function)
        first = len(self._rows.rows)
        results = self._call(body, given, inside, scope)
        ends = self._rows.end_loop(first, names, [each.value for each in results], times)
        return [replace(each, value=end) for each, end in zip(results, ends, strict=True)]


def _varying(value: Value, state: str) -> _Known:
    """Returns what a loop carries, whose value changes; a name stands for what computes it."""
    return _Known(replace(value, weight=False, producers=(*value.producers, state)))


def _iterations(
    condition: Block, body: Block, start: list[_Known], given: list[_Known], scope: _Scope
) -> int | None:
    """Returns how often a loop runs that counts up or down to a limit; None of any other."""
    places = {name: place for place, name in enumerate(condition.arguments)}
    inner = ChainMap(dict(zip(condition.arguments, given, strict=True)), scope)
    in_body = ChainMap(dict(zip(body.arguments, given, strict=True)), scope)
    for block, names in ((condition, inner), (body, in_body)):
        for op in block.ops:
            if op.type.endswith(".constant"):
                names[op.results[0]] = _Known(_results(op)[0], _number(op))
            elif op.type.endswith(".broadcast_in_dim") and op.operands[0] in names:
                names[op.results[0]] = names[op.operands[0]]
    times: dict[str, _Times] = {}
    for op in condition.ops:
        result = _combined(op, times)
        found = re.match(r'"?stablehlo\.compare"?\s+(LT|LE|GT|GE|NE)', op.text)
        known = inner.get(op.operands[1]) if found and len(op.operands) == 2 else None
        if found and known and known.number is not None:
            read, limit = op.operands[0], known.number
            if read in times and found[1] == "NE" and not limit:  # as JAX converts a condition
                result = times[read]
            elif read in places:
                first, step = start[places[read]].number, _step(body, places[read], in_body)
                if first is not None and step:
                    result = _compared(found[1], first, limit, step)
        times |= dict.fromkeys(op.results, result)
    most, _ = times.get(condition.ops[-1].operands[0], (math.inf, 0))
    return None if most == math.inf else int(most)


def _compared(comparison: str, first: int, limit: int, step: int) -> _Times:
    """Returns how often the comparison of a counter with a limit holds, until it changes."""
    holds = _COMPARISONS[comparison](first, limit)
    end = limit + 1 if comparison in ("LE", "GT") else limit  # the first on the other side
    end -= step < 0 and comparison != "NE"
    times = -((first - end) // step)
    change = times if times > 0 else math.inf
    return (change, 0) if holds else (0, change)


def _combined(op: Op, times: Mapping[str, _Times]) -> _Times:
    """Returns how often a combination of conditions holds at most, until it changes."""
    given = [times.get(name, (math.inf, math.inf)) for name in op.operands]
    held, not_held = [each[0] for each in given], [each[1] for each in given]
    kind = op.type.rpartition(".")[2]
    if kind == "and" and given:
        return min(held), max(not_held)
    if kind == "or" and given:
        return max(held), min(not_held)
    if kind == "not" and given:
        return not_held[0], held[0]
    return given[0] if kind in ("convert", "reshape", "reduce") and given else (math.inf, math.inf)


def _step(body: Block, place: int, known: Mapping[str, _Known]) -> int | None:
    """Returns what a loop adds to one of its values in each iteration."""
    end, counter = body.ops[-1].operands[place], list(body.arguments)[place]
    for op in body.ops:
        kind = op.type.rpartition(".")[2]
        if end in op.results and kind in ("add", "subtract") and counter in op.operands:
            others = [name for name in op.operands if name != counter]
            number = known[others[0]].number if others and others[0] in known else None
            return number if number is None or kind == "add" else -number
    return None


def _needed(block: Block) -> set[str]:
    """Returns the names that lead to what a block returns; compilers leave out the others."""
    needed: set[str] = set()
    for op in reversed(block.ops):
        if not op.results or not needed.isdisjoint(op.results):
            needed.update(op.operands)
            for region in op.regions:
                needed |= _read(region)
    return needed


def _read(block: Block) -> set[str]:
    """Returns the names that a block and those within it read."""
    found = {name for op in block.ops for name in op.operands}
    return found.union(*(_read(region) for op in block.ops for region in op.regions))


def _number(op: Op) -> int | None:
    """Returns the number that a constant is, all of its elements."""
    text = op.text.replace("dense<true>", "dense<1>").replace("dense<false>", "dense<0>")
    found = re.search(r"dense<(-?\d+)>", text)
    return int(found[1]) if found else None


def _given(op: Op, scope: _Scope) -> list[_Known]:
    return [scope[name] for name in op.operands]


def _results(op: Op) -> list[Value]:
    """Returns the last types, which are the results'."""
    count = len(op.results)
    if len(op.types) < count:
        raise mlir.MalformedError(f"{op.type} lacks types")
    return op.types[len(op.types) - count :]


def _axes(text: str, *patterns: str) -> list[int]:
    """Returns the numbers in brackets that follow one of the patterns; empty if none does."""
    for pattern in patterns:
        if found := re.search(pattern + r"\s*\[([\d,\s]*)\]", text):
            return [int(each) for each in _NUMBERS.findall(found[1])]
    return []


def _dot(op: Op, inputs: Sequence[Value], _: Sequence[Value]) -> list[Work]:
    left, right = (value.shape for value in inputs[:2])
    if op.type.endswith(".dot"):
        return [Work("matrix product", bounds.matmul(left, right))]
    text = op.text
    batch = _axes(text, "[ ,<]batching_dims =", "lhs_batching_dimensions =")
    both = r"contracting_dims = \[[\d,\s]*\] x"
    contracted = _axes(text, "[ ,<]contracting_dims =", "lhs_contracting_dimensions =")
    in_right = _axes(text, both, "rhs_contracting_dimensions =")
    batch_right = _axes(text, r"batching_dims = \[[\d,\s]*\] x", "rhs_batching_dimensions =")

    def rest(shape: tuple[int, ...], *axes: int) -> int:
        return math.prod(size for axis, size in enumerate(shape) if axis not in axes)

    sizes = {"batch": math.prod(left[axis] for axis in batch)}
    sizes |= {"M": rest(left, *batch, *contracted), "N": rest(right, *batch_right, *in_right)}
    return [Work("matrix product", sizes | {"K": math.prod(left[axis] for axis in contracted)})]


def _convolution(op: Op, inputs: Sequence[Value], outputs: Sequence[Value]) -> list[Work]:
    layouts = re.search(r"\[([^\[\]]*)\]x\[([^\[\]]*)\]->\[([^\[\]]*)\]", op.text)
    if layouts is None:
        raise mlir.MalformedError("a convolution lacks dim_numbers")
    image, kernel, result = (
        dict(zip(re.findall(r"\w+", axes), value.shape, strict=True))
        for axes, value in zip(layouts.groups(), (*inputs[:2], outputs[0]), strict=True)
    )
    spatial = [str(axis) for axis in range(len(image) - 2)]
    groups = int((re.search(r"feature_group_count = (\d+)", op.text) or ["", "1"])[1])
    strides, spread = _axes(op.text, "stride ="), _axes(op.text, "lhs_dilate =")
    dilations = _axes(op.text, "rhs_dilate =")
    found = re.search(r"pad = \[(\[.*?\])\]", op.text)
    numbers = [int(each) for each in _NUMBERS.findall(found[1])] if found else []
    pads = list(zip(numbers[::2], numbers[1::2], strict=True))
    window = [kernel[axis] for axis in spatial]
    before, after = ([each[axis] for axis in spatial] for each in (image, result))
    if max(spread, default=1) > 1:  # transposed: the gradient of a convolution with strides
        way = bounds.Window(spread, dilations, (), groups)
        shape = (image["f"], result["f"] // groups, *window)
        return [Work(*bounds.convolution((result["b"], result["f"]), shape, before, way))]
    way = bounds.Window(strides, dilations, pads, groups)
    shape = (kernel["o"], kernel["i"], *window)
    channels = kernel["i"] * groups
    return [Work(*bounds.convolution((result["b"], channels), shape, after, way))]


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        _ELEMENTWISE.split(), lambda op, inputs, outputs: [rows.elementwise(inputs, outputs)]
    ),
    **dict.fromkeys(_REDUCTIONS.split(), lambda op, inputs, outputs: [rows.reduction(inputs)]),
    **dict.fromkeys(
        _MOVEMENTS.split(), lambda op, inputs, outputs: [rows.movement(inputs, outputs)]
    ),
    **dict.fromkeys(
        ("slice", "dynamic_slice", "torch_index_select"),
        lambda op, inputs, outputs: [rows.movement(inputs, outputs, reads_part=True)],
    ),
    "dynamic_update_slice": lambda op, inputs, outputs: [  # in place
        replace(
            rows.movement(inputs[1:], []),
            inputs=inputs[1:],
            outputs=inputs[1:2],
            keeps=inputs[0].bytes,
        )
    ],
    "gather": lambda op, inputs, outputs: [rows.gather(inputs, outputs)],
    **dict.fromkeys(("dot", "dot_general"), _dot),
    "convolution": _convolution,
}
"""The rule of each operation, by its type without the dialect."""
