"""Describes Keras models, functions of TensorFlow and SavedModels by their traced graphs.

Nothing is computed, and no weight is read or allocated: of a ``.keras`` file only the layers'
configuration is read, of a SavedModel only the graph.
"""

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import keras
import tensorflow as tf
from google.protobuf.message import DecodeError

from fathom.errors import FathomError, cause
from fathom.hardware.description import kinds
from fathom.hardware.description.edges import held
from fathom.hardware.description.step import operations
from fathom.hardware.networks.dimensions import Dimensions
from fathom.hardware.networks.rows import Rows, Value, finished
from fathom.results.description import Description, Operation
from fathom.system import private
from fathom.system.files import open_file, read_file
from fathom.system.processor import any_processor

Nest: TypeAlias = Any  # of tensors, or of what describes them
Graph: TypeAlias = Any  # of a function: with inputs, outputs and captures

_LARGEST = 2**31  # bytes of a graph, the limit of Protocol Buffers
_LARGEST_CONFIG = 2**26  # bytes of a model's configuration
_SIGNATURE = "serving_default"
_ROLES = ("input", "network", "loss", "output", "unknown")
_MODULES = tuple(  # of Keras, whose classes a configuration may name
    f"keras.{source}{name}"
    for source in ("", "src.")
    for name in (
        *("layers", "models", "initializers", "regularizers", "constraints", "activations"),
        *("dtype_policies", "ops", "quantizers"),
    )
)
_OF_APPLICATIONS = (  # layers of keras.applications' networks, which are no public names
    "keras.src.applications.convnext.LayerScale",
    "keras.src.applications.inception_resnet_v2.CustomScaleLayer",
)
_REFUSED = (  # layers that run code of the file, or read other files
    *("Lambda", "__lambda__", "TorchModuleWrapper", "TFSMLayer", "JaxLayer", "FlaxLayer"),
    *("TextVectorization", "StringLookup", "IntegerLookup", "HashedCrossing"),
)


def describe(model: Any, inputs: Nest, name: str | None = None) -> Description:
    """Returns the work of one inference of a model or function; nothing is computed.

    Args:
        model: a Keras model, or a function of TensorFlow.
        inputs: what it is called with: tensors, arrays, ``tf.TensorSpec`` or, of float32, shapes
            as tuples; a Keras model takes them in its own structure, a function a list or tuple as
            its arguments.
        name: of the description; None: the model's own.

    Raises:
        FathomError: a size is open or depends on the data, or the model does not take the inputs.
    """
    title = name or str(getattr(model, "name", None) or getattr(model, "__name__", "network"))
    specs = keras.tree.map_structure(_spec, _with_specs(inputs))
    if isinstance(model, keras.Model):
        return _described(title, lambda given: model(given, training=False), specs, model)
    given = specs if isinstance(specs, (list, tuple)) else (specs,)
    return _described(title, lambda values: model(*values), tuple(given), None)


def read_keras(path: Path, dimensions: Mapping[str, int]) -> Description:
    """Returns the work of the model in a ``.keras`` file, as ``fathom.hardware.networks.read``."""
    config = _config(path)
    _check(config, path)
    config.pop("compile_config", None)
    try:
        with private.variables_without_values():
            model = keras.saving.deserialize_keras_object(config, safe_mode=True)
            given = model.inputs[0] if isinstance(model, keras.Sequential) else model.input
    except Exception as error:  # whatever layers raise
        raise FathomError(f"{path} is no model that Keras can build: {cause(error)}") from error
    sizes = Dimensions(dimensions)

    def closed(each: keras.KerasTensor) -> tf.TensorSpec:
        shape = sizes.shape(each.name, each.shape)
        return tf.TensorSpec(shape, each.dtype, each.name)

    specs = keras.tree.map_structure(closed, given)
    sizes.check()
    return _described(path.stem, lambda values: model(values, training=False), specs, model)


def read_saved_model(path: Path, dimensions: Mapping[str, int]) -> Description:
    """Returns the work of a SavedModel's signature, as ``fathom.hardware.networks.read``."""
    file = path / "saved_model.pb"
    try:
        whole = private.parse_saved_model(read_file(file, _LARGEST)).meta_graphs[0]
    except (DecodeError, IndexError) as error:
        raise FathomError(f"{file} is damaged or no SavedModel: {cause(error)}") from error
    signatures = {each for each in whole.signature_def if not each.startswith("__")}
    if _SIGNATURE not in signatures:
        known = ", ".join(sorted(signatures)) or "none"
        raise FathomError(f"{path} has no signature {_SIGNATURE}; it has: {known}")
    signature, sizes = whole.signature_def[_SIGNATURE], Dimensions(dimensions)
    specs = {}
    for name, each in sorted(signature.inputs.items()):
        open_sizes = [d.size if d.size > 0 else None for d in each.tensor_shape.dim]
        try:
            dtype = tf.as_dtype(each.dtype)
        except TypeError:
            dtype = None
        if each.tensor_shape.unknown_rank or not each.name or dtype is None:
            raise FathomError(f"the input {name} is no tensor of known type and rank")
        specs[name] = tf.TensorSpec(sizes.shape(name, open_sizes), dtype, name)
    sizes.check()
    placeholders = {each.name: specs[name] for name, each in signature.inputs.items()}
    results = [each.name for _, each in sorted(signature.outputs.items())]
    try:
        flat = private.flattened(whole.graph_def, placeholders, results)
    except Exception as error:  # whatever TensorFlow raises of a damaged graph
        raise FathomError(f"{file} is damaged or has own operations: {cause(error)}") from error

    def imported(values: Mapping[str, tf.Tensor]) -> Nest:
        given = {each.name: values[name] for name, each in signature.inputs.items()}
        return tf.graph_util.import_graph_def(flat, given, results, name="")

    objects = whole.object_graph_def  # a variable may be there again, which no function reads
    read = {number for each in objects.concrete_functions.values() for number in each.bound_inputs}
    parameters = sum(
        kinds.elements(tf.TensorShape(node.variable.shape))
        for number, node in enumerate(objects.nodes)
        if number in read and node.HasField("variable") and node.variable.trainable
    )
    return _described(path.name, imported, specs, None, parameters)


def _described(
    name: str,
    call: Callable[[Any], Nest],
    specs: Nest,
    model: keras.Model | None,
    parameters: int | None = None,
) -> Description:
    """Traces a call and describes its graph."""
    leaves = keras.tree.flatten(specs)
    named = {spec.name or f"inputs.{place}": spec for place, spec in enumerate(leaves)}
    try:
        with any_processor():
            traced = tf.function(call, autograph=False).get_concrete_function(specs)
    except Exception as error:  # whatever a model raises when it is called
        raise FathomError(f"{name} does not take these inputs: {cause(error)}") from error
    graph = traced.graph
    network = model or keras.Sequential(name=name.replace("/", "_"))
    try:
        listed = operations(graph, network)
    except FathomError:
        raise
    except Exception as error:  # a size is None, in whatever way that fails
        raise FathomError(
            f"{name} has sizes that are not known beforehand, as in the loops of a SavedModel: "
            "give a .keras file, or the model in a script"
        ) from error
    if parameters is None:
        trained = model.trainable_variables if model else graph.trainable_variables
        parameters = sum(kinds.elements(tf.TensorShape(each.shape)) for each in trained)
    unknown = {row.type for row in listed if not kinds.is_known(row.type)}
    found = Rows([_without_work(_placed(row), unknown) for row in listed], dict.fromkeys(unknown))
    given = {title: Value(tuple(spec.shape), spec.dtype.name) for title, spec in named.items()}
    return finished(name, found, given, parameters, held(graph, network, None)[1])


def _without_work(row: Operation, unknown: set[str]) -> Operation:
    """Returns an operation, without arithmetic if no rule tells it."""
    if row.type not in unknown:
        return row
    return row.model_copy(update={"kind": "data movement", "flops": 0})


def _placed(row: Operation) -> Operation:
    """Returns an operation with the scope in its name as layer, if it is of no layer."""
    if row.layer not in _ROLES:
        return row
    scope = [part for part in row.name.split("/")[:-1] if "PartitionedCall" not in part]
    return row.model_copy(update={"layer": "/".join(scope) or row.layer})


def _with_specs(inputs: Nest) -> Nest:
    """Replaces shapes, which are structures too, by specifications."""
    if isinstance(inputs, (tuple, tf.TensorShape)) and all(
        size is None or isinstance(size, int) for size in inputs
    ):
        return tf.TensorSpec(inputs, tf.float32)
    if isinstance(inputs, dict):
        return {name: _with_specs(each) for name, each in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return type(inputs)(_with_specs(each) for each in inputs)
    return inputs


def _spec(given: Any) -> tf.TensorSpec:
    """Returns what describes a tensor of fixed sizes."""
    shape = getattr(given, "shape", ())
    name = getattr(given, "name", None) if isinstance(given, tf.TensorSpec) else None
    dtype = getattr(given, "dtype", None) or tf.as_dtype(type(given))
    if any(size is None for size in shape):
        raise FathomError(f"the input {name or shape} leaves sizes open: give them")
    return tf.TensorSpec(shape, dtype, name)


def _config(path: Path) -> dict[str, Any]:
    """Returns the configuration of the layers in a ``.keras`` file."""
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            size = archive.getinfo("config.json").file_size
            if size > _LARGEST_CONFIG:
                raise FathomError(f"{path} has a configuration of {size:,} bytes, too many")
            with archive.open("config.json") as member:
                config = json.loads(member.read(_LARGEST_CONFIG))
    except FathomError:
        raise
    except Exception as error:  # whatever a damaged archive raises
        raise FathomError(f"{path} is damaged or no .keras file: {cause(error)}") from error
    if not isinstance(config, dict):
        raise FathomError(f"{path} is damaged: its configuration is no object")
    return config


def _check(config: dict[str, Any], path: Path) -> None:
    """Refuses a configuration that names anything but layers and other parts of Keras."""
    left: list[Any] = [config]
    while left:
        part = left.pop()
        left += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if not isinstance(part, dict) or "class_name" not in part:
            continue
        name, module = str(part["class_name"]), str(part.get("module") or "")
        if name in _REFUSED or str(part.get("registered_name")) in _REFUSED:
            raise FathomError(f"{path} has a layer {name}, which runs code or reads other files")
        function = (module, name) == ("builtins", "function") and isinstance(
            part.get("config"), str
        )
        plain = not module and name.startswith("__")
        ours = module == "keras" or f"{module}.".startswith(tuple(f"{m}." for m in _MODULES))
        known = f"{module}.{name}" in _OF_APPLICATIONS or (ours and name[:1].isupper())
        if not (function or plain or known):
            raise FathomError(
                f"{path} has {module or 'an unnamed module'}.{name}, which is not Keras' own"
            )
