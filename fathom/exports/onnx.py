"""ONNX: the forward pass with the weights, for ONNX Runtime and the compilers that read it.

It is one graph, or one for each part that an application calls: the encoder and the decoder's step.

tf2onnx converts the graph; loops become ``Loop``. What it does not do is done here: constants that
the graph reads from outside become initializers, loops that run backward in time keep their order,
and nodes have the names of their layers.
"""

import logging
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.errors import FathomError
from fathom.exports.format import ExportOptions, NetworkFormat
from fathom.system import private

if TYPE_CHECKING:
    from fathom.core.training.compilation import ConcreteFunction
    from fathom.model.workload import Part
    from fathom.nn import NeuralNetworkModel

_OPSET, _WITH_BITWISE = 17, 18
_LARGEST = 2e9  # bytes of one protobuf message
_LAST = -(2**31)  # before the first element


def _save(model: "NeuralNetworkModel", folder: Path, options: ExportOptions) -> tuple[str, ...]:
    """Writes ``network.onnx``, or a graph for each part of the inference.

    Weights of more than 2 GB are beside a graph, in a file ``.weights`` of its name.
    """
    from fathom.exports.traced import RANDOM, parts

    if model.execution.precision == "bfloat16":  # tf2onnx writes it as float16, in part
        raise FathomError("onnx holds no bfloat16: choose float32 or float16")
    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)  # what it lacks is reported below
    drawn = [
        _write(model, part, folder / f"{name}.onnx") for name, part in parts(model, options).items()
    ]
    left_out = [RANDOM] * any(drawn)
    if any(drawn) and options.batch is None:
        size = model.hyperparameters.batch_size
        left_out.append(f"batches of other than {size:,} examples: --batch-size chooses the number")
    return (*left_out, *["the loop over the steps"] * options.stepwise)


def _write(model: "NeuralNetworkModel", part: "Part", path: Path) -> bool:
    """Writes a function as a graph; returns whether it draws random numbers."""
    import onnx
    import tf2onnx

    from fathom.exports.traced import draws_random_numbers, with_batch

    function = _with_weights_as_inputs(model, part)
    traced = function.get_concrete_function()
    random = draws_random_numbers(traced)
    if random and any(spec.shape[0] is None for spec in part.inputs):  # they become constants
        size = model.hyperparameters.batch_size
        inputs = [with_batch(spec, size) for spec in part.inputs]
        return _write(model, part._replace(inputs=inputs), path)
    bitwise = any(op.type.startswith("Bitwise") for op in traced.graph.get_operations())
    with (
        private.conversion_in_order(),
        private.conversion_of_all_reshapes(),
        private.loops_kept(traced),
    ):
        proto, _ = tf2onnx.convert.from_function(
            function,
            input_signature=function.input_signature,
            opset=_WITH_BITWISE if bitwise else _OPSET,
            custom_op_handlers={"SparseTensorDenseMatMul": (_sparse_product, [])},
        )
    graph = proto.graph
    _require_known(model.name, graph)
    # The constants outside the graph, by the names of its inputs, and the weights.
    values = {inner.name: c for c, inner in traced.graph.captures if c.dtype.name != "resource"}
    values |= {w.path: w.value for w in model.network.variables}
    _embed(values, graph)
    for loop in _backward_loops(traced):
        _reverse(loop, graph)
    _name_by_layer([layer.name for layer in model.network.layers], model.name, graph)
    for declared, spec in zip(graph.input, part.inputs, strict=True):
        for axis, size in enumerate(spec.shape):
            if size is None:
                name = f"{spec.name}_{axis}" if axis else "batch"
                declared.type.tensor_type.shape.dim[axis].dim_param = name
    _name_sizes(graph)
    graph.doc_string = ""  # a number that depends on what was traced before
    external = sum(math.prod(v.shape) * v.dtype.size for v in values.values()) > _LARGEST
    onnx.save(
        proto,
        path,
        save_as_external_data=external,
        location=path.with_suffix(".weights").name if external else None,
    )
    return random


def _sparse_product(graph: Any, node: Any, name: str, arguments: list[Any]) -> None:
    """Puts ONNX's nodes in the place of a product of a sparse matrix with a dense one.

    Each non-zero takes its column's row of the dense matrix, and is added to its own row.
    """
    import numpy as np

    places, values, shape, dense = node.input
    results = {"outputs": node.output, "shapes": node.output_shapes, "dtypes": node.output_dtypes}
    first, second = (
        graph.make_const(f"{name}/axis_{axis}", np.array([axis])).output[0] for axis in (0, 1)
    )

    def add(kind: str, *inputs: str, **attributes: Any) -> str:
        return graph.make_node(kind, [*inputs], attr=attributes).output[0]

    columns = add("Squeeze", add("Gather", places, second, axis=1), second)
    terms = add("Mul", add("Gather", dense, columns), add("Unsqueeze", values, second))
    width = add("Gather", add("Shape", dense), second)
    empty = add("ConstantOfShape", add("Concat", add("Gather", shape, first), width, axis=0))
    empty = add("Cast", empty, to=node.output_dtypes[0])
    rows = add("Gather", places, first, axis=1)
    graph.remove_node(name)
    graph.make_node("ScatterND", [empty, rows, terms], {"reduction": "add"}, name=name, **results)


def _require_known(workload: str, graph: Any) -> None:
    """Raises FathomError if a node is still one of TensorFlow's."""
    import onnx

    unknown = {node.op_type for node in _nodes(graph) if not onnx.defs.has(node.op_type)}
    if unknown:
        raise FathomError(f"ONNX cannot express {workload}: no {', '.join(sorted(unknown))}")


def _nodes(graph: Any) -> Iterator[Any]:
    """Yields the nodes of a graph and of the bodies of its loops."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g)


def _with_weights_as_inputs(model: "NeuralNetworkModel", part: "Part") -> Any:
    """Returns a part as a ``tf.function`` of its inputs and of all weights by path.

    tf2onnx would copy weights inside the graph many times.
    """
    import keras
    import tensorflow as tf

    weights = model.network.variables

    def infer(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        state = list(zip(weights, tensors[len(part.inputs) :], strict=True))
        with model.device.placement(), keras.StatelessScope(state):
            return part.function(*tensors[: len(part.inputs)])

    specs = [tf.TensorSpec(weight.shape, weight.dtype, weight.path) for weight in weights]
    return tf.function(infer, input_signature=[*part.inputs, *specs], autograph=False)


def _embed(values: dict[str, Any], graph: Any) -> None:
    """Makes initializers of the inputs with these values, as the nodes that read them want them."""
    import onnx

    kept = [declared for declared in graph.input if declared.name not in values]
    del graph.input[:]
    graph.input.extend(kept)
    readers: dict[str, list[Any]] = {}
    for node in _nodes(graph):
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for name, value in values.items():
        array, nodes = value.numpy(), readers.get(name, [])
        if len(nodes) == 1 and nodes[0].op_type == "Transpose" and nodes[0] in graph.node:
            (order,) = (attribute.ints for attribute in nodes[0].attribute)
            array = array.transpose(order)
            for reader in readers[nodes[0].output[0]]:
                reader.input[list(reader.input).index(nodes[0].output[0])] = name
            graph.node.remove(nodes[0])
        if nodes:
            kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            # Not made apart and appended, which would copy it once more.
            graph.initializer.add(
                name=name, data_type=kind, dims=array.shape, raw_data=array.tobytes()
            )


def _backward_loops(traced: "ConcreteFunction") -> Iterator[str]:
    """Yields the names of loops that write a list at another place than that of the iteration.

    tf2onnx appends the value of each iteration to the list.
    """
    definition = traced.graph.as_graph_def()
    functions = {function.signature.name: function for function in definition.library.function}
    for node in definition.node:
        if node.op in ("While", "StatelessWhile"):
            body = functions[node.attr["body"].func.name]
            arguments = {argument.name for argument in body.signature.input_arg}
            places = [n.input[1] for n in body.node_def if n.op == "TensorListSetItem"]
            if not arguments.issuperset(places):
                yield node.name


def _reverse(loop: str, graph: Any) -> None:
    """Reverses the list that a loop wrote from its last element to its first."""
    import onnx

    position, node = next(
        (i, node) for i, node in enumerate(graph.node) if node.name.endswith(f"{loop}_loop")
    )
    (body,) = (attribute.g for attribute in node.attribute if attribute.name == "body")
    carried = len(node.input) - 2
    if len(body.output) - 1 - carried != 1:
        raise FathomError(f"ONNX cannot express {loop}: it writes several lists backward")
    forward, backward = node.output[carried], f"{node.output[carried]}_as_computed"
    node.output[carried] = backward
    numbers = {"starts": -1, "ends": _LAST, "axes": 0, "steps": -1}
    for name, number in numbers.items():
        value = onnx.helper.make_tensor(f"{backward}_{name}", onnx.TensorProto.INT64, [1], [number])
        graph.initializer.append(value)
    reads = [backward, *(f"{backward}_{name}" for name in numbers)]
    graph.node.insert(
        position + 1, onnx.helper.make_node("Slice", reads, [forward], name=f"{loop}/reverse")
    )


def _name_sizes(graph: Any) -> None:
    """Names the outputs' sizes that vary as those of inputs are, and takes numbers from others."""
    for declared in graph.output:
        for axis, size in enumerate(declared.type.tensor_type.shape.dim):
            if size.dim_param:
                size.dim_param = f"{declared.name}_{axis}" if axis else "batch"
    for body in (attribute.g for node in _nodes(graph) for attribute in node.attribute):
        for declared in (*body.input, *body.output, *body.value_info):
            for size in declared.type.tensor_type.shape.dim:
                size.ClearField("dim_param")


def _name_by_layer(layers: list[str], network: str, graph: Any) -> None:
    """Removes from the nodes' names the network and the numbers that TensorFlow adds to a layer."""
    names = "|".join(map(re.escape, sorted(layers, key=len, reverse=True)))
    used: set[str] = set()
    for node in _nodes(graph):
        short = re.sub(rf"^{network}_\d+/", "", node.name)
        short = re.sub(rf"^({names})_\d+(?=/|$)", r"\1", short)
        if short not in used:
            node.name = short
        used.add(node.name)


FORMAT = NetworkFormat(
    about="ONNX graph of the forward pass",
    save_network=_save,
    has_steps=True,
    xla=False,
    packages=("tf2onnx", "onnx"),
)
