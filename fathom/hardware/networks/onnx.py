"""Reads an ONNX network as a description; its weights are not needed, and nothing is run.

Shapes are inferred by the ``onnx`` package, one operation after the other. What depends on sizes
alone, as the shape that a ``Reshape`` takes, is computed by its reference implementation.
"""

import ast
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from fathom.errors import FathomError, cause
from fathom.hardware.networks import onnx_rules, rows
from fathom.hardware.networks.dimensions import Dimensions
from fathom.hardware.networks.rows import Place, Rows, Value
from fathom.results.description import PRODUCTS, Description
from fathom.system.files import read_file

_LARGEST = 2**31  # bytes, the limit of Protocol Buffers
_SMALL = 4096  # elements of a constant that is computed with
_MOST_NODES = 1_000_000  # with those of functions, as often as they are called
_MOST_ITERATIONS = 2**31
_DOMAINS = ("", "ai.onnx")
_OF_SHAPES = """
    Abs Add And Cast Ceil Concat ConstantOfShape Div Equal Expand Floor Gather Greater
    GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg NonZero Not Or Range ReduceMax
    ReduceMin ReduceProd ReduceSum Reshape ScatterND Sign Slice Split Sqrt Squeeze Sub Tile
    Transpose Unsqueeze Where
    """
_NAMES = {"float": "float32", "double": "float64"}  # of types in ONNX and NumPy
_SCOPES = "pkg.torch.onnx.name_scopes"  # where PyTorch notes the modules around an operation
_WRONG = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError),
    *(RuntimeError, MemoryError, SyntaxError, DecodeError),
    *(onnx.checker.ValidationError, onnx.shape_inference.InferenceError),
)  # that reading a damaged network may raise


def read(path: Path, dimensions: Mapping[str, int]) -> Description:
    """Returns the work of a network's inference.

    Args:
        path: of the file; weights in other files are not read.
        dimensions: the sizes that it leaves open, by name.

    Raises:
        FathomError: the file cannot be read or is damaged, a size is missing, or one depends on
            the data.
    """
    content = read_file(path, _LARGEST)
    try:
        model = onnx.load_model_from_string(content)
        del content
        return _Reader(model, dimensions).description(path.stem)
    except FathomError:
        raise
    except _WRONG as error:
        what = "is damaged or no ONNX network"
        if dimensions and isinstance(error, onnx.shape_inference.InferenceError):
            what = "does not allow these sizes"
        raise FathomError(f"{path} {what}: {cause(error)}") from error


@dataclass(frozen=True)
class _Known:
    """A tensor in the graph: its type to ONNX, and its value if that follows from sizes alone."""

    value: Value
    type: onnx.TypeProto
    constant: np.ndarray | None = None
    origins: frozenset[tuple[str, Value]] = frozenset()  # operations `Constant` that it is made of


_Scope = MutableMapping[str, _Known]
_Given = Mapping[str, Any]  # attributes
_Inputs = Sequence[_Known | None]
_Opsets = Sequence[onnx.OperatorSetIdProto]
_Types = Mapping[str, onnx.TypeProto]


@dataclass(frozen=True)
class _Context:
    """What encloses an operation: loops, and the function that it is in."""

    prefix: str = ""
    repeats: int = 1
    attributes: Mapping[str, onnx.AttributeProto] = field(default_factory=dict)
    opsets: Sequence[onnx.OperatorSetIdProto] = ()


class _Reader:
    """Goes through a network's operations in order."""

    def __init__(self, model: onnx.ModelProto, dimensions: Mapping[str, int]) -> None:
        self._model, self._dimensions = model, Dimensions(dimensions, least=0)
        self._rows = Rows()
        self._functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self._nodes = 0
        self._names: set[str] = set()
        self._weights: dict[str, Value] = {}  # initializers, by name in the network
        self._read: set[tuple[str, Value]] = set()  # operations `Constant` that products read
        self._statistics: set[int] = set()  # ids of values that are not trained, of normalizations

    def description(self, name: str) -> Description:
        """Returns the description of the network."""
        graph = self._model.graph
        if not graph.node:
            raise FathomError(f"{name} is no ONNX network: it has no operations")
        scope: _Scope = {}
        self._add_initializers(graph, scope, "")
        inputs = {each.name: each.type for each in graph.input if each.name not in scope}
        for title, kind in inputs.items():
            scope[title] = self._input(title, kind)
        self._dimensions.check()
        self._walk(graph, scope, _Context(opsets=self._model.opset_import))
        weights = self._weights | dict(self._read)
        parameters = {
            title: value.elements
            for title, value in weights.items()
            if "float" in value.dtype and id(value) not in self._statistics
        }
        given = {title: scope[title].value for title in inputs}
        held = sum(value.bytes for value in weights.values())
        return rows.finished(name, self._rows, given, sum(parameters.values()), held)

    def _input(self, name: str, kind: onnx.TypeProto) -> _Known:
        if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            raise FathomError(f"the input {name} is no tensor of known rank")
        dims = kind.tensor_type.shape.dim
        sizes = [
            d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in dims
        ]
        shape = self._dimensions.shape(name, sizes, [d.dim_param for d in dims])
        return _known(shape, kind.tensor_type.elem_type)

    def _add_initializers(self, graph: onnx.GraphProto, scope: _Scope, prefix: str) -> None:
        for sparse in graph.sparse_initializer:
            raise FathomError(f"the weight {sparse.values.name} is sparse: export it as dense")
        for each in graph.initializer:
            scope[each.name] = known = _constant(each)
            self._weights[prefix + each.name] = known.value

    def _add_weights(self, graph: onnx.GraphProto, prefix: str) -> None:
        """Adds the weights of a branch that is not taken, with those of graphs in it."""
        self._add_initializers(graph, {}, prefix)
        for place, node in enumerate(graph.node):
            for each in node.attribute:
                self._add_weights(each.g, f"{prefix}{place}/{each.name}/")

    def _walk(self, graph: onnx.GraphProto, scope: _Scope, context: _Context) -> None:
        hints = {each.name: each.type for each in graph.value_info}
        hints |= {each.name: each.type for each in graph.output}
        for node in graph.node:
            self._nodes += 1
            if self._nodes > _MOST_NODES:
                raise FathomError(f"the network has more than {_MOST_NODES:,} operations")
            self._visit(node, scope, context, hints)

    def _visit(
        self, node: onnx.NodeProto, scope: _Scope, context: _Context, hints: Mapping[str, Any]
    ) -> None:
        attributes = {each.name: _resolved(each, context) for each in node.attribute}
        given = {
            name: helper.get_attribute_value(each) for name, each in attributes.items() if each
        }
        inputs = [scope[name] if name else None for name in node.input]
        place = self._place(node, context)
        function = self._functions.get((node.domain, node.op_type, node.overload))
        if function is not None:
            results = self._call(function, attributes, inputs, place, context)
        elif node.op_type in ("If", "Loop", "Scan") and node.domain in _DOMAINS:
            run = {"If": self._if, "Loop": self._loop, "Scan": self._scan}[node.op_type]
            results = run(given, inputs, scope, place, context)
        else:
            results = self._operation(node, attributes, given, inputs, place, context, hints)
        origins = frozenset[tuple[str, Value]]().union(*(each.origins for each in inputs if each))
        for name, known in zip(node.output, results, strict=False):
            if name:
                made_of = known.origins | origins if known.value.weight else known.origins
                scope[name] = replace(known, origins=made_of)

    def _place(self, node: onnx.NodeProto, context: _Context) -> Place:
        name = f"{context.prefix}{node.name or node.op_type}"
        unique = name if node.name and name not in self._names else f"{name}#{self._nodes}"
        self._names.add(unique)
        return Place(unique, node.op_type, _layer(node), context.repeats)

    def _operation(
        self,
        node: onnx.NodeProto,
        attributes: Mapping[str, onnx.AttributeProto | None],
        given: _Given,
        inputs: _Inputs,
        place: Place,
        context: _Context,
        hints: _Types,
    ) -> list[_Known]:
        """Adds an operation, unless it is a view or computes with constants alone."""
        plain = onnx.NodeProto()
        plain.CopyFrom(node)
        del plain.attribute[:]
        plain.attribute.extend(each for each in attributes.values() if each)
        standard = node.domain in _DOMAINS
        if standard and node.op_type == "BatchNormalization":
            self._statistics.update(id(known.value) for known in inputs[3:5] if known)
        if standard and node.op_type == "Constant":
            known = _constant_node(given)
            own = () if context.prefix else [(node.output[0], known.value)]
            return [replace(known, origins=frozenset(own))]
        types = _types(plain, inputs, context.opsets, hints, place)
        outputs = [_known(_shape(kind, place), kind.tensor_type.elem_type) for kind in types]
        there = [known for known in inputs if known is not None]
        values = [known.value if known else None for known in inputs]
        constants = _computed(plain, inputs, outputs, context.opsets) if standard else None
        if constants is not None:
            return [
                _known(array.shape, known.type.tensor_type.elem_type, array, weight=True)
                for array, known in zip(constants, outputs, strict=False)
            ]
        if standard and node.op_type in onnx_rules.VIEWS:
            return [_like(each, there[0].value) for each in outputs]
        folded = there and all(known.value.weight for known in there)
        if folded and standard and node.op_type != "DequantizeLinear":  # once, before any step
            return [_known(each.value.shape, _elem(each), weight=True) for each in outputs]
        results = [each.value for each in outputs]
        call = onnx_rules.Call(node.op_type, given, values, results)
        title = node.op_type if standard else f"{node.domain}.{node.op_type}"
        rule = onnx_rules.RULES.get(title)
        works = rule(call) if rule else None
        if works is None:
            self._rows.without_rule[title] = None
            place = Place(place.name, title, place.layer, place.repeats)
            works = [rows.movement(call.given, results)]
        if any(work.kind in PRODUCTS for work in works):
            self._read.update(*(known.origins for known in there))
        producers = self._rows.add(place, works, call.given, results)
        return [_known(value.shape, _elem(each), producers=producers)
                for each, value in zip(outputs, results, strict=True)]  # fmt: skip

    def _call(
        self,
        function: onnx.FunctionProto,
        attributes: Mapping[str, onnx.AttributeProto | None],
        inputs: _Inputs,
        place: Place,
        context: _Context,
    ) -> list[_Known]:
        """Goes through the body of a function of the network's own."""
        inner = {name: known for name, known in zip(function.input, inputs, strict=False) if known}
        defaults = {each.name: each for each in function.attribute_proto}
        passed = defaults | {name: each for name, each in attributes.items() if each}
        body = onnx.GraphProto(node=function.node)
        inside = _Context(f"{place.name}/", context.repeats, passed, function.opset_import)
        self._walk(body, inner, inside)
        return [inner[name] for name in function.output]

    def _if(
        self, given: _Given, inputs: _Inputs, scope: _Scope, place: Place, context: _Context
    ) -> list[_Known]:
        """Goes through the branch that runs, the first one if that depends on the data."""
        condition = inputs[0].constant if inputs[0] else None
        taken = condition is None or bool(condition.reshape(-1)[0])
        graph, other = given["then_branch"], given["else_branch"]
        if not taken:
            graph, other = other, graph
        self._add_weights(other, f"{place.name}/not taken/")
        return self._inside(graph, [], scope, replace(context, prefix=f"{place.name}/"))

    def _loop(
        self, given: _Given, inputs: _Inputs, scope: _Scope, place: Place, context: _Context
    ) -> list[_Known]:
        """Goes through the body of a loop once; its work counts as often as it runs at most."""
        count = inputs[0].constant if inputs[0] else None
        first = inputs[1].constant if inputs[1] else None
        times = -1 if count is None else int(count.reshape(-1)[0])
        times = 0 if first is not None and not first.reshape(-1)[0] else times
        if not 0 <= times < _MOST_ITERATIONS:
            raise FathomError(f"the number of iterations of {place.name} is not known beforehand")
        number = _known((), onnx.TensorProto.INT64)
        state = [_known((), onnx.TensorProto.BOOL), *(known for known in inputs[2:] if known)]
        inside = replace(context, prefix=f"{place.name}/body/", repeats=context.repeats * times)
        left, scans = self._repeat(given["body"], [number], state, [], times, scope, inside)
        return left[1:] + [_stacked(known, times, 0) for known in scans]

    def _scan(
        self, given: _Given, inputs: _Inputs, scope: _Scope, place: Place, context: _Context
    ) -> list[_Known]:
        """Goes through the body of a scan once, as of a loop."""
        count = given["num_scan_inputs"]
        there = [known for known in inputs if known]
        state, scanned = there[: len(there) - count], there[len(there) - count :]
        axes = given.get("scan_input_axes") or [0] * count
        times = scanned[0].value.shape[axes[0]]
        slices = [
            _varying(known, np.delete(known.value.shape, axis).tolist())
            for known, axis in zip(scanned, axes, strict=True)
        ]
        inside = replace(context, prefix=f"{place.name}/body/", repeats=context.repeats * times)
        left, scans = self._repeat(given["body"], [], state, slices, times, scope, inside)
        out_axes = given.get("scan_output_axes") or [0] * len(scans)
        return left + [
            _stacked(known, times, axis) for known, axis in zip(scans, out_axes, strict=True)
        ]

    def _repeat(
        self,
        body: onnx.GraphProto,
        before: list[_Known],
        state: list[_Known],
        after: list[_Known],
        times: int,
        scope: _Scope,
        inside: _Context,
    ) -> tuple[list[_Known], list[_Known]]:
        """Goes through the body of a loop; returns the last state, and what is stacked."""
        names = [f"{inside.prefix}state/{place}" for place in range(len(state))]
        given = [
            _known(each.value.shape, _elem(each), producers=(*each.value.producers, name))
            for each, name in zip(state, names, strict=True)
        ]
        first = len(self._rows.rows)
        results = self._inside(body, [*before, *given, *after], scope, inside)
        ends = self._rows.end_loop(first, names, [each.value for each in results], times)
        results = [replace(each, value=end) for each, end in zip(results, ends, strict=True)]
        return (results if times else state)[: len(state)], results[len(state) :]

    def _inside(
        self, graph: onnx.GraphProto, arguments: Sequence[_Known], scope: _Scope, context: _Context
    ) -> list[_Known]:
        """Goes through a graph within an operation; returns its results.

        One that never runs adds no rows, but its results have types.
        """
        inner: _Scope = ChainMap({}, scope)
        self._add_initializers(graph, inner, context.prefix)
        for each, known in zip(graph.input, arguments, strict=True):
            inner[each.name] = known
        before = self._rows
        self._rows = before if context.repeats else Rows()
        self._walk(graph, inner, replace(context, repeats=context.repeats or 1))
        self._rows = before
        found = [inner[each.name] for each in graph.output]
        return found if context.repeats else [_known(k.value.shape, _elem(k)) for k in found]


def _types(
    node: onnx.NodeProto, inputs: _Inputs, opsets: _Opsets, hints: _Types, place: Place
) -> list[onnx.TypeProto]:
    """Returns the types of an operation's results, by inference or else as the file states them."""
    names = [name for name in node.output if name]
    inferred: dict[str, onnx.TypeProto] = {}
    version = next((each.version for each in opsets if each.domain in _DOMAINS), 1)
    if node.domain in _DOMAINS and onnx.defs.has(node.op_type, version, ""):
        schema = onnx.defs.get_schema(node.op_type, version, "")
        given = zip(node.input, inputs, strict=True)
        known = {name: each for name, each in given if each is not None}
        inferred = onnx.shape_inference.infer_node_outputs(
            schema,
            node,
            {name: each.type for name, each in known.items()},
            {
                name: numpy_helper.from_array(each.constant)
                for name, each in known.items()
                if each.constant is not None
            },
            opset_imports=list(opsets),
        )
    elif f"{node.domain}.{node.op_type}" in onnx_rules.OF_TWO_QUANTIZED and inputs[0] and inputs[3]:
        shape = np.broadcast_shapes(inputs[0].value.shape, inputs[3].value.shape)
        inferred = {names[0]: _known(shape, _elem(inputs[0])).type}
    found = [inferred.get(name) or hints.get(name) for name in names]
    if any(each is None or not each.HasField("tensor_type") for each in found):
        raise FathomError(f"the shape of {place.name}'s result, of {place.type}, is not known")
    return [
        hints[name] if _is_open(kind) and name in hints and not _is_open(hints[name]) else kind
        for name, kind in zip(names, found, strict=True)
        if kind is not None
    ]


def _is_open(kind: onnx.TypeProto) -> bool:
    shape = kind.tensor_type.shape
    whole = kind.tensor_type.HasField("shape")
    return not whole or any(not size.HasField("dim_value") for size in shape.dim)


def _shape(kind: onnx.TypeProto, place: Place) -> tuple[int, ...]:
    if _is_open(kind):
        raise FathomError(
            f"the shape of {place.name}'s result, of {place.type}, depends on the data or is not "
            "known: export the network with fixed sizes"
        )
    return tuple(size.dim_value for size in kind.tensor_type.shape.dim)


def _computed(
    node: onnx.NodeProto, inputs: _Inputs, outputs: Sequence[_Known], opsets: _Opsets
) -> list[np.ndarray] | None:
    """Returns the results of an operation on sizes and small constants; None of any other."""
    if any(known.value.elements > _SMALL for known in outputs):
        return None
    if node.op_type in ("Shape", "Size") and inputs[0]:
        shape = inputs[0].value.shape
        given = {each.name: each.i for each in node.attribute}
        part = shape[slice(given.get("start", 0), given.get("end"))]
        sizes = np.array(part, np.int64)
        return [sizes if node.op_type == "Shape" else np.asarray(sizes.prod())]
    if node.op_type not in _OF_SHAPES.split() or not inputs:
        return None
    arrays = [known.constant for known in inputs if known]
    if any(array is None for array in arrays):
        return None
    names = [name for name in node.input if name]
    version = next((each.version for each in opsets if each.domain in _DOMAINS), 1)
    graph = helper.make_graph(
        [node], "sizes",
        [onnx.ValueInfoProto(name=name, type=known.type)
         for name, known in zip(names, filter(None, inputs), strict=True)],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    with np.errstate(all="ignore"):
        found = ReferenceEvaluator(model).run(None, dict(zip(names, arrays, strict=True)))
    return [np.asarray(each) for each in found]


def _constant(tensor: onnx.TensorProto) -> _Known:
    """Returns a tensor of the file; its elements if they are few and in it."""
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape):
        raise ValueError(f"the weight {tensor.name} has a negative size")
    inside = tensor.data_location != onnx.TensorProto.EXTERNAL
    small = inside and Value(shape, "").elements <= _SMALL
    array = numpy_helper.to_array(tensor) if small else None
    return _known(shape, tensor.data_type, array, weight=True)


def _constant_node(given: _Given) -> _Known:
    name, value = next(iter(given.items()))
    if name == "value":
        return _constant(value)
    kind = np.float32 if name.startswith("value_float") else np.int64
    array = np.array(value, object if "string" in name else kind)
    elem = helper.np_dtype_to_tensor_dtype(array.dtype)
    return _known(array.shape, elem, array if "string" not in name else None, weight=True)


def _known(
    shape: Iterable[int],
    elem: int,
    constant: np.ndarray | None = None,
    weight: bool = False,
    producers: tuple[str, ...] = (),
) -> _Known:
    sizes = tuple(shape)
    name = onnx.TensorProto.DataType.Name(elem).lower()
    kind = helper.make_tensor_type_proto(elem, sizes)
    return _Known(Value(sizes, _NAMES.get(name, name), weight, producers), kind, constant)


def _elem(known: _Known) -> int:
    return int(known.type.tensor_type.elem_type)


def _like(known: _Known, origin: Value) -> _Known:
    """Returns a view of another value."""
    return _known(known.value.shape, _elem(known), weight=origin.weight, producers=origin.producers)


def _varying(known: _Known, shape: Iterable[int]) -> _Known:
    """Returns what a loop reads or stacks, in another shape, whose value changes."""
    return _known(shape, _elem(known), producers=known.value.producers)


def _stacked(known: _Known, times: int, axis: int) -> _Known:
    """Returns the values of all iterations."""
    shape = list(known.value.shape)
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, times)
    return _varying(known, shape)


def _resolved(each: onnx.AttributeProto, context: _Context) -> onnx.AttributeProto | None:
    """Returns an attribute, within a function that which the call gives; None if it gives none."""
    if not each.ref_attr_name:
        return each
    passed = context.attributes.get(each.ref_attr_name)
    if passed is None:
        return None
    own = onnx.AttributeProto()
    own.CopyFrom(passed)
    own.name = each.name
    return own


def _layer(node: onnx.NodeProto) -> str:
    """Returns the module that an operation is in, as far as its name tells."""
    for each in node.metadata_props:
        if each.key == _SCOPES:
            scopes = ast.literal_eval(each.value)
            names = [str(scope) for scope in scopes[:-1] if scope]
            return names[-1] if names else node.op_type
    parts = [part for part in node.name.split("/") if part]
    return "/".join(parts[:-1]) or node.name or str(node.op_type)
