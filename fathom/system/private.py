"""What Fathom uses of TensorFlow, Keras and tf2onnx that is private.

Any release may change it. So ``pyproject.toml`` bounds their versions from above, and
``tests/system/test_private.py`` names what a release has changed and what in Fathom needs it. They
are imported where they are used, because commands that compute nothing start without them.
"""

import contextlib
import graphlib
import itertools
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest import mock

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

SavedModel: TypeAlias = Any  # a message, for which TensorFlow has no types
XSpace: TypeAlias = Any  # messages of a trace, the same
XPlane: TypeAlias = Any
XLine: TypeAlias = Any
XEvent: TypeAlias = Any
Metadata: TypeAlias = Any


def limit_waits(workers: int, start: int, silence: int) -> None:
    """Limits how long the workers of a distributed training wait for each other.

    ``tf.distribute`` has no options for this.

    Args:
        workers: number of them.
        start: seconds that a worker waits for the others.
        silence: seconds without a sign of life after which a worker counts as lost.
    """
    from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
    from tensorflow.python.eager import context

    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        cluster_register_timeout_in_ms=1000 * start,
        heartbeat_timeout_in_ms=1000 * silence,
        shutdown_barrier_timeout_in_ms=1000 * silence,
        coordinated_jobs=[coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=workers)],
    )


def registered_gradients() -> set[str]:
    """Returns the names of the gradients that TensorFlow has registered, to tell which are new.

    ``tf.RegisterGradient`` adds to them, but nothing public lists them.
    """
    from tensorflow.python.framework.ops import gradient_registry

    return set(gradient_registry.list())


def forget_gradients(names: Iterable[str]) -> None:
    """Removes gradients from TensorFlow's registry, and so frees the graphs that they hold.

    Nothing public forgets a gradient.
    """
    from tensorflow.python.framework.ops import gradient_registry

    for name in names:
        gradient_registry._registry.pop(name, None)


def called_graph(operation: "tf.Operation", attribute: str) -> "tf.Graph":
    """Returns the graph of the function that an operation calls, which is part of a step.

    The public ``tf.Graph.as_graph_def`` has the function, but without its shapes.

    Args:
        operation: a call or a loop.
        attribute: of the operation; it names the function.
    """
    function = operation.graph._get_function(operation.get_attr(attribute).name)
    if hasattr(function, "graph"):
        return function.graph
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

    inputs = operation.inputs[1:] if operation.type.endswith("If") else operation.inputs
    with operation.graph.as_default():
        return function_def_to_graph(
            function.cached_definition, input_shapes=[tensor.shape for tensor in inputs]
        )


def flattened(
    graph: "tf.compat.v1.GraphDef", inputs: "dict[str, tf.TensorSpec]", results: list[str]
) -> "tf.compat.v1.GraphDef":
    """Returns the part of a graph that leads to some results, with the functions that it calls.

    Functions are put in the place of their calls; loops and branches stay. Nothing public does so
    without loading the weights.

    Args:
        graph: of a SavedModel.
        inputs: what its placeholders are replaced by, by the tensor's name.
        results: names of tensors.
    """
    import tensorflow as tf
    from tensorflow.python.grappler import tf_optimizer

    names = sorted({name.partition(":")[0] for name in results})
    nodes, left, needed = {node.name: node for node in graph.node}, list(names), set()
    while left:
        if (name := left.pop()) not in needed:
            needed.add(name)
            left += [each.lstrip("^").partition(":")[0] for each in nodes[name].input]
    kept = [node for node in graph.node if node.name in needed]
    part = tf.compat.v1.GraphDef(node=kept, library=graph.library, versions=graph.versions)
    for node in part.node:
        if spec := inputs.get(f"{node.name}:0"):
            node.attr["shape"].shape.CopyFrom(spec.shape.as_proto())
    functions = part.library.function
    inner = [node for each in functions for node in each.node_def]
    for each in [*part.node, *inner, *functions]:
        for attribute in ("_XlaMustCompile", "_noinline"):  # would stay calls
            each.attr.pop(attribute, None)
    whole = tf.compat.v1.MetaGraphDef(graph_def=part)
    whole.collection_def["train_op"].node_list.value.extend(names)
    config = tf.compat.v1.ConfigProto()
    rewriting = config.graph_options.rewrite_options
    rewriting.optimizers.append("function")
    rewriting.min_graph_nodes = -1
    rewriting.fail_on_optimizer_errors = True
    rewriting.meta_optimizer_iterations = 1
    flat = tf_optimizer.OptimizeGraph(config, whole)
    for node in flat.node:  # shapes of the file's inputs, whose sizes may be open
        node.attr.pop("_output_shapes", None)
    _rename_functions(flat)
    return flat


def _rename_functions(graph: "tf.compat.v1.GraphDef") -> None:
    """Gives functions names that no other file's have: the process knows them by name."""
    number = zlib.crc32(graph.SerializeToString(deterministic=True))
    functions = graph.library.function
    names = {each.signature.name: f"{each.signature.name}{number}" for each in functions}
    for each in functions:
        each.signature.name = names[each.signature.name]
    for node in [*graph.node, *(node for each in functions for node in each.node_def)]:
        for value in node.attr.values():
            for called in [value.func] if value.HasField("func") else value.list.func:
                called.name = names.get(called.name, called.name)


def is_compiled(call: "tf.Operation") -> bool:
    """Returns whether XLA compiles the function that an operation calls.

    Nothing public tells it of a call in a graph.
    """
    return bool(call.node_def.attr["_XlaMustCompile"].b)


def traces_for_xla() -> bool:
    """Returns whether what is traced now is part of a function that XLA compiles.

    TensorFlow notes it in the graph, and nothing public tells it.
    """
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import control_flow_util

    return control_flow_util.GraphOrParentsInXlaContext(ops.get_default_graph())


def copied(function: "tf.types.experimental.ConcreteFunction") -> Any:
    """Returns a function of the same graph, which TensorFlow runs by an executor of its own.

    A ``tf.function`` that calls it would have one call more in its graph.
    """
    from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction

    return ConcreteFunction.from_func_graph(function.graph, function.function_type, {})


@contextlib.contextmanager
def variables_without_values() -> Iterator[None]:
    """Creates variables without values, and so without memory, wherever a value is yet to compute.

    Steps that read them can be traced, but not run. Nothing public creates such variables.
    """
    import tensorflow as tf
    from tensorflow.python.ops.resource_variable_ops import ResourceVariable, UninitializedVariable

    scratch = tf.Graph()  # a value's shape is found here, where nothing is computed

    def create(next_creator: Any, **options: Any) -> Any:
        value = options["initial_value"]
        if not (callable(value) or isinstance(value, tf.Variable)):
            return next_creator(**options)
        if callable(value):
            with scratch.as_default():
                value = tf.convert_to_tensor(value(), options["dtype"])
        variable = UninitializedVariable(**options | {"shape": value.shape, "dtype": value.dtype})
        variable.__class__ = ResourceVariable  # the class that ``tf.cast`` knows
        return variable

    with tf.variable_creator_scope(create):
        yield


def maker(tensor: "keras.KerasTensor") -> tuple["keras.Operation", int]:
    """Returns the operation that a symbolic tensor comes from, and its place among the outputs.

    Public attributes lead from an operation to the tensors of its first call, but not back.
    """
    operation, _, index = tensor._keras_history
    return operation, index


def calls(network: "keras.Model", layer: "keras.Layer") -> int:
    """Returns how often a functional network calls a layer."""
    nodes = itertools.chain(*network._nodes_by_depth.values())
    return sum(node.operation is layer for node in nodes)


def parse_saved_model(content: bytes) -> SavedModel:
    """Returns the graphs of a SavedModel; ``tf.saved_model.load`` would run a part of them.

    Raises:
        DecodeError: it is none.
    """
    from tensorflow.core.protobuf import saved_model_pb2

    return saved_model_pb2.SavedModel.FromString(content)


def parse_trace(content: bytes) -> XSpace:
    """Returns a trace of TensorFlow's profiler, with all its events.

    ``tf.profiler`` writes traces, but does not read them.

    Raises:
        DecodeError: it is none, or not complete.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    return xplane_pb2.XSpace.FromString(content)


@contextlib.contextmanager
def conversion_in_order() -> Iterator[None]:
    """Lets tf2onnx go through its sets in the order of names, not of addresses in memory.

    Otherwise names and order of the nodes differ from one export to the next; tf2onnx has no option
    for it.
    """
    from tf2onnx import tfonnx, utils
    from tf2onnx.graph import Graph, Node

    consumers, functions = Graph.find_output_consumers, tfonnx.resolve_functions

    def sorted_consumers(graph: Any, name: str) -> list[Any]:
        return sorted(consumers(graph, name), key=lambda node: node.name)

    with (
        mock.patch.object(Graph, "find_output_consumers", sorted_consumers),
        mock.patch.object(tfonnx, "resolve_functions", lambda graph: _in_turn(functions(graph))),
        mock.patch.object(Node, "__hash__", lambda node: zlib.crc32(node.name.encode())),
        mock.patch.object(utils, "INTERNAL_NAME", 1),
    ):
        yield


def _in_turn(functions: list[Any]) -> list[Any]:
    """Returns the bodies of loops by name, each after those that it calls."""
    by_name = {function.name: function for function in functions}
    calls = {
        name: sorted(
            {a.func.name for n in by_name[name].as_graph_def().node for a in n.attr.values()}
        )
        for name in sorted(by_name)
    }
    return [by_name[n] for n in graphlib.TopologicalSorter(calls).static_order() if n in by_name]


@contextlib.contextmanager
def loops_kept(function: "tf.types.experimental.ConcreteFunction") -> Iterator[None]:
    """Gives TensorFlow back the bodies of a function's loops, which a conversion takes from it.

    Freezing the variables of a graph removes its loops' bodies from the process. Whoever owns them
    would fail to remove them in turn, with a warning; nothing public keeps them.
    """
    from tensorflow.python.eager import context

    bodies = function.graph.as_graph_def().library.function
    try:
        yield
    finally:
        for body in bodies:
            if not context.context().has_function(body.signature.name):
                context.context().add_function_def(body)


@contextlib.contextmanager
def conversion_of_all_reshapes() -> Iterator[None]:
    """Lets tf2onnx keep the first of two Reshapes.

    Where the second has a 0 in its shape, for a size of its input, it would take that of another.
    ``tf2onnx.convert.from_function`` has no option to choose among the optimizers.
    """
    from tf2onnx.optimizer import back_to_back_optimizer

    with mock.patch.dict(back_to_back_optimizer._func_map):
        del back_to_back_optimizer._func_map[("Reshape",)]
        yield


def ahead_of_time_graph(
    function: "tf.types.experimental.ConcreteFunction", variables: "dict[str, tf.Variable]"
) -> tuple["tf.compat.v1.GraphDef", Any, list[str]]:
    """Returns a function's graph as TensorFlow's ahead-of-time compiler takes it.

    Nothing public compiles a function with variables that it changes.

    Args:
        function: of named inputs, to a dictionary of results; compiled by XLA.
        variables: that it reads or changes, by name.

    Returns:
        the graph; the configuration, with inputs ``x0`` and on, variables ``v0`` and on, and
        results in the order of their names; and the variables' names in that order.
    """
    import tensorflow as tf
    from tensorflow.compiler.tf2xla import tf2xla_pb2
    from tensorflow.python.framework import auto_control_deps_utils

    names = {id(variable.handle): name for name, variable in variables.items()}
    graph, config = function.graph.as_graph_def(), tf2xla_pb2.Config()
    order: list[str] = []
    nodes = {node.name: node for node in graph.node}
    captured = function.captured_inputs
    inputs = function.inputs[: len(function.inputs) - len(captured)]
    for number, tensor in enumerate(inputs):
        feed = config.feed.add(name=f"x{number}", type=tensor.dtype.as_datatype_enum)
        feed.id.node_name = tensor.op.name
        feed.shape.CopyFrom(tensor.shape.as_proto())
    read_only = set(
        auto_control_deps_utils.get_read_only_resource_input_indices_graph(function.graph)
    )
    for place, (value, inner) in enumerate(
        zip(captured, function.inputs[len(inputs) :], strict=True), len(inputs)
    ):
        node = nodes[inner.op.name]
        node.Clear()
        node.name = inner.op.name
        if value.dtype != tf.resource:
            node.op = "Const"
            node.attr["dtype"].type = value.dtype.as_datatype_enum
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value.numpy()))
            continue
        variable = variables[names[id(value)]]
        node.op = "VarHandleOp"
        node.attr["dtype"].type = variable.dtype.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(variable.shape.as_proto())
        node.attr["shared_name"].s = node.name.encode()
        described = config.variable.add(name=f"v{len(order)}", node_name=node.name)
        described.type, described.readonly = variable.dtype.as_datatype_enum, place in read_only
        described.shape.CopyFrom(variable.shape.as_proto())
        order.append(names[id(value)])
    for number, (_, tensor) in enumerate(sorted(function.structured_outputs.items())):
        fetch = config.fetch.add(name=f"y{number}")
        fetch.id.node_name, fetch.id.output_index = tensor.op.name, tensor.value_index
    for node in [*graph.node, *(node for f in graph.library.function for node in f.node_def)]:
        node.device = ""
        node.attr.pop("_XlaMustCompile", None)
    return graph, config, order


def compile_ahead_of_time(folder: str, triple: str, processor: str) -> None:
    """Compiles ``graph.pb`` by ``config.pbtxt`` to ``step.h``, ``step.o`` and ``constants.o``.

    ``saved_model_cli aot_compile_cpu``, which is public, takes no step that changes variables.

    Args:
        folder: of all these files.
        triple: of the machine.
        processor: of the machine, as LLVM names it.
    """
    from tensorflow.python import _pywrap_tfcompile

    _pywrap_tfcompile.Compile(
        graph=f"{folder}/graph.pb",
        config=f"{folder}/config.pbtxt",
        cpp_class="Step",
        target_triple=triple,
        target_cpu=processor,
        entry_point="step",
        out_function_object=f"{folder}/step.o",
        out_header=f"{folder}/step.h",
        out_metadata_object=f"{folder}/metadata.o",
        out_constant_buffers_object=f"{folder}/constants.o",
        gen_name_to_index=True,
        gen_program_shape=False,
    )
