"""MLCommons Chakra: an execution trace of the step, as its feeder and ASTRA-sim read it.

A node is an operation of the step's graph; a loop, or a function that it calls, is one node with
all its work. With several workers each gradient is a collective between the gradient's operation
and the update. ``trace.0.et``, a file for each worker, has a metadata message and then the nodes,
each after its size.

Source: Chakra's schema, ``et_def.proto`` of version 0.0.4, of which the fields used are here.
"""

import contextlib
import graphlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.core.data.files import open_unpacked
from fathom.errors import WRONG_JSON, FathomError
from fathom.exports import ranks
from fathom.exports.format import ExportOptions, NetworkFormat
from fathom.system.files import read_file

if TYPE_CHECKING:
    import tensorflow as tf

    from fathom.core.training.optimizers import Optimizer, Update
    from fathom.core.training.replicas import Gradient
    from fathom.hardware.accelerators.plan import Plan
    from fathom.nn import NeuralNetworkModel
    from fathom.results.description import Description, Operation

VERSION = "0.0.4"
_FILE = "trace.0.et"  # of the first worker
_TRACE = "trace.json.gz"  # in the folder of a profile
_METADATA, _COMPUTE, _COLLECTIVE = 1, 4, 7  # NodeType; loads and stores are of remote memory
_ALL_REDUCE, _ALL_GATHER = 0, 2  # CollectiveCommType
_ATTRIBUTE = "AttributeProto"
_FIELDS = {  # as et_def.proto declares them; a node's type is an enumeration, written alike
    _ATTRIBUTE: """
        string name = 1; int32 int32_val = 7; int64 int64_val = 9; uint64 uint64_val = 13;
        bool bool_val = 27; string string_val = 29
        """,
    "IOInfo": "string values = 1; string shapes = 2; string types = 3",
    "GlobalMetadata": f"string version = 1; repeated {_ATTRIBUTE} attr = 2",
    "Node": f"""
        uint64 id = 1; string name = 2; int32 type = 3; repeated uint64 ctrl_deps = 4;
        repeated uint64 data_deps = 5; uint64 duration_micros = 7; IOInfo inputs = 8;
        IOInfo outputs = 9; repeated {_ATTRIBUTE} attr = 10
        """,
}


def messages() -> dict[str, type[Any]]:
    """Returns the classes of the messages by name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    package = "ChakraProtoMsg"
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package=package, syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in _FIELDS.items():
        declared = file.message_type.add(name=message)
        if message == _ATTRIBUTE:
            declared.oneof_decl.add(name="value")
        for *repeated, kind, name, _, number in map(str.split, fields.split(";")):
            field = declared.field.add(name=name, number=int(number))
            field.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            field.type = (
                kinds.TYPE_MESSAGE if kind in _FIELDS else kinds.Type.Value(f"TYPE_{kind.upper()}")
            )
            if kind in _FIELDS:
                field.type_name = f".{package}.{kind}"
            if name.endswith("_val"):
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName
    return {name: message_factory.GetMessageClass(found(f"{package}.{name}")) for name in _FIELDS}


def _save(model: "NeuralNetworkModel", folder: Path, options: ExportOptions) -> tuple[str, ...]:
    """Writes the trace, for each worker the same."""
    from google.protobuf import proto

    if plan := options.parallelism:
        return _save_ranks(model.describe(options.length), folder, plan, options.rank)
    times = _times(options.profile) if options.profile else Counter()
    kinds = messages()
    work = model.describe(options.length).operations
    nodes = list(_nodes(model, options, work, kinds["Node"], times))
    with (folder / _FILE).open("wb") as file:
        proto.serialize_length_prefixed(kinds["GlobalMetadata"](version=VERSION), file)
        for node in nodes:
            proto.serialize_length_prefixed(node, file)
    for worker in range(1, options.workers):
        shutil.copyfile(folder / _FILE, folder / f"trace.{worker}.et")
    timed = {node.name for node in nodes} & times.keys()
    lost = abs(1 - sum(times[name] for name in timed) / (sum(times.values()) or 1))
    if not options.profile:
        return ("durations: --profile gives them",)
    return (f"{lost:.0%} of the profiled time: of operations that TensorFlow rewrote",)


def _save_ranks(
    description: "Description", folder: Path, plan: "Plan", wanted: int | None
) -> tuple[str, ...]:
    """Writes the traces of the nodes of a plan, and their groups, from the description alone."""
    from google.protobuf import proto

    kinds = messages()
    step = ranks.Ranks(description, plan)
    groups: dict[str, list[int]] = {}
    for rank in range(plan.nodes) if wanted is None else (wanted,):
        groups |= step.groups(rank)
        with (folder / f"trace.{rank}.et").open("wb") as file:
            proto.serialize_length_prefixed(kinds["GlobalMetadata"](version=VERSION), file)
            for node in step.nodes(rank):
                proto.serialize_length_prefixed(kinds["Node"](**node), file)
    (folder / "groups.json").write_text(json.dumps(groups))
    return ("durations: a simulator finds them from num_ops and tensor_size",)


def _nodes(
    model: "NeuralNetworkModel",
    options: ExportOptions,
    work: "tuple[Operation, ...]",
    kind: type[Any],
    times: "Counter[str]",
) -> Iterator[Any]:
    """Yields a node for each operation that the step needs, after those that it depends on."""
    import tensorflow as tf

    from fathom.hardware.description.attribution import scoped_gradients
    from fathom.hardware.description.graph import needed_operations

    step = model.infer_step if model.forward_only else model.train_step
    signature = model.signature_of_length(options.length)
    collectives: dict[str, int] = {}
    distributed = options.workers > 1
    marked = _collectives(model, collectives) if distributed else contextlib.nullcontext()
    with model.device.placement(), scoped_gradients(), marked:
        graph = tf.function(step, autograph=False).get_concrete_function(*signature).graph
    before = {
        op.name: [other.name for other in (*_sources(op), *op.control_inputs)]
        for op in graph.get_operations()
    }
    needed = needed_operations(graph)
    ordered = [name for name in graphlib.TopologicalSorter(before).static_order() if name in needed]
    numbers = {name: number for number, name in enumerate(ordered)}
    flops, traffic = _work_of(work, numbers)
    for op in map(graph.get_operation_by_name, ordered):
        data = {numbers[source.name] for source in _sources(op)}
        after = {numbers[other.name] for other in op.control_inputs} - data
        yield kind(
            id=numbers[op.name],
            name=op.name,
            type=_COLLECTIVE if op.name in collectives else _type(op),
            data_deps=sorted(data),
            ctrl_deps=sorted(after),
            duration_micros=round(times[op.name]),
            inputs=_tensors(op.inputs),
            outputs=_tensors(op.outputs),
            attr=ranks.typed(**_sizes(op, collectives, flops, traffic), op_type=op.type),
        )


def _optimizer(model: "NeuralNetworkModel") -> "Optimizer":
    """Returns the update rule of a model that ``fathom launch`` can train on several workers."""
    if model.optimizer is None:
        raise FathomError("collectives are of training: omit --workers, or give --train")
    if model.undistributable:
        raise FathomError(f"{model.name} cannot be distributed: {model.undistributable}")
    if model.optimizer.loss_scale is not None:
        raise FathomError(f"{model.execution.precision} cannot be distributed: try bfloat16")
    return model.optimizer


@contextlib.contextmanager
def _collectives(model: "NeuralNetworkModel", found: dict[str, int]) -> Iterator[None]:
    """Makes steps traced in the block pass each gradient through an operation of its own.

    ``found`` receives the type of each collective by the operation's name: all workers' rows of a
    sparse gradient are gathered, with their indices; other gradients are summed.
    """
    import tensorflow as tf

    optimizer = _optimizer(model)
    wrap = optimizer.wrap

    def mark(tensor: "tf.Tensor", kind: int, name: str) -> "tf.Tensor":
        marked = tf.identity(tensor, name)
        found[marked.op.name] = kind
        return marked

    def communicate(gradients: "Sequence[Gradient]", update: "Update") -> None:
        received: list[Gradient] = []
        for gradient, variable in zip(gradients, model.network.trainable_variables, strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                name = f"all_gather/{variable.path}"
                rows = mark(gradient.values, _ALL_GATHER, f"{name}/rows")
                indices = mark(gradient.indices, _ALL_GATHER, f"{name}/indices")
                received.append(tf.IndexedSlices(rows, indices, gradient.dense_shape))
            else:
                received.append(mark(gradient, _ALL_REDUCE, f"all_reduce/{variable.path}"))
        wrap(received, update) if wrap else update(received)

    optimizer.wrap = communicate
    try:
        yield
    finally:
        optimizer.wrap = wrap


def _sizes(
    op: "tf.Operation", collectives: dict[str, int], flops: "Counter[str]", traffic: "Counter[str]"
) -> dict[str, Any]:
    """Returns a collective's type and the bytes that each worker gives to it, or an op's work."""
    if op.name in collectives:
        (tensor,) = op.outputs
        size = tensor.shape.num_elements() * tensor.dtype.size
        return {"is_cpu_op": False, "comm_type": collectives[op.name], "comm_size": size}
    # ASTRA-sim tells communication from the accelerator's work, and passes over what is neither
    # only if it is the processor's.
    own = _type(op) != _COMPUTE
    return {"is_cpu_op": own, "num_ops": flops[op.name], "tensor_size": traffic[op.name]}


def _work_of(
    work: "tuple[Operation, ...]", names: dict[str, int]
) -> tuple["Counter[str]", "Counter[str]"]:
    """Returns floating-point operations and bytes by node: those in a loop are the loop's."""
    flops: Counter[str] = Counter()
    traffic: Counter[str] = Counter()
    for row in work:
        parts = row.name.split("/")
        prefixes = ("/".join(parts[:n]) for n in range(len(parts), 0, -1))
        node = next(prefix for prefix in prefixes if prefix in names)
        flops[node] += row.total_flops
        traffic[node] += row.traffic_bytes
    return flops, traffic


def _sources(op: "tf.Operation") -> "list[tf.Operation]":
    return [tensor.op for tensor in op.inputs]


def _type(op: "tf.Operation") -> int:
    return _METADATA if op.type in ("Placeholder", "Const") else _COMPUTE


def _tensors(tensors: "list[tf.Tensor]") -> dict[str, str]:
    """Returns names, shapes and types as JSON."""
    shapes = [tensor.shape.as_list() if tensor.shape.rank is not None else [] for tensor in tensors]
    return {
        "values": json.dumps([tensor.name for tensor in tensors]),
        "shapes": json.dumps(shapes),
        "types": json.dumps([tensor.dtype.base_dtype.name for tensor in tensors]),
    }


def _times(profile: Path) -> "Counter[str]":
    """Returns the microseconds a step of each operation of a profile."""
    times: Counter[str] = Counter()
    try:
        steps = len(json.loads(read_file(profile / "profile.json"))["step_seconds"])
        with open_unpacked(profile / _TRACE) as stream:
            events = json.load(stream)["traceEvents"]
        for event in events:
            if "op" in event.get("args", {}):
                times[event["args"]["op"]] += event["dur"] / steps
    except (FathomError, *WRONG_JSON) as error:
        raise FathomError(f"{profile} is no folder of fathom profile --out: {error}") from error
    return times


FORMAT = NetworkFormat(
    about="MLCommons Chakra execution trace of the step",
    save_network=_save,
    trains=True,
    has_collectives=True,
    has_times=True,
    has_weights=False,
)
