"""What is private in TensorFlow, Keras and tf2onnx is still there, and only one module uses it."""

import ast
import functools
import importlib
import importlib.metadata
import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import keras
import pytest
import tensorflow as tf

import fathom
from fathom.system import private

ROOT = Path(fathom.__file__).parent
MODULE = Path(private.__file__)
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


class Used(NamedTuple):
    """A thing that a release may change.

    Attributes:
        name: from a module's, with dots.
        by: what in Fathom needs it.
        takes: the parameters of a function that is called or replaced; None: of anything else.
    """

    name: str
    by: str
    takes: tuple[str, ...] | None = None


WAITS = "core/training/strategies.py, for the limits of --strategy multi-worker"
GRADIENTS = "core/training/custom_gradients.py, which frees the graphs of models"
CALLS = "hardware/description/graph.py, which walks a step"
GRAPHS = "hardware/description/, which reads traced steps"
CAPTURES = "exports/, which tell weights from inputs"
COUNTS = "results/cost.py, which counts a layer as often as it is called"
ZEROS = "numbers/sparsity.py, which names the layer before another"
TRACES = "measure/profile/, which reads traces"
FILES = "hardware/networks/tensorflow.py, which reads SavedModels"
EMPTY = "nn.py, to describe networks that no memory holds"
COMPILING = "layers that have another form for XLA"
COPIES = "measure/profile/, which runs a step by an executor of its own"
ORDER = "exports/onnx.py, to write the same file twice"
LOOPS = "exports/onnx.py, to keep the loops that a conversion removes"
RESHAPES = "exports/onnx.py, to keep Reshapes that tf2onnx would drop"
AHEAD = "exports/program.py, which compiles steps ahead of time"

CONTEXT = "tensorflow.python.eager.context"
COORDINATION = "tensorflow.compiler.xla.tsl.protobuf.coordination_config_pb2"
REGISTRY = "tensorflow.python.framework.ops.gradient_registry"
FROM_DEFINITION = "tensorflow.python.framework.function_def_to_graph"
SAVED_MODEL = "tensorflow.core.protobuf.saved_model_pb2"
FUNC_GRAPH = "tensorflow.python.framework.func_graph.FuncGraph"
CONCRETE = "tensorflow.types.experimental.ConcreteFunction"
VARIABLES = "tensorflow.python.ops.resource_variable_ops"
XPLANE = "tensorflow.tsl.profiler.protobuf.xplane_pb2"
CONFIG = "tensorflow.compiler.tf2xla.tf2xla_pb2.Config"
BACK_TO_BACK = "tf2onnx.optimizer.back_to_back_optimizer"

USED = (
    Used(f"{CONTEXT}.context", WAITS, ()),
    Used(
        f"{CONTEXT}.Context.configure_coordination_service",
        WAITS,
        (
            *("self", "service_type", "service_leader", "cluster_register_timeout_in_ms"),
            *("heartbeat_timeout_in_ms", "shutdown_barrier_timeout_in_ms", "coordinated_jobs"),
        ),
    ),
    *(Used(f"{COORDINATION}.CoordinatedJob.{name}", WAITS) for name in ("name", "num_tasks")),
    Used(f"{CONTEXT}.Context.has_function", LOOPS, ("self", "name")),
    Used(f"{CONTEXT}.Context.add_function_def", LOOPS, ("self", "fdef")),
    Used(
        "tensorflow.python.ops.control_flow_util.GraphOrParentsInXlaContext", COMPILING, ("graph",)
    ),
    Used("tensorflow.python.framework.ops.get_default_graph", COMPILING, ()),
    Used(f"{REGISTRY}.list", GRADIENTS, ()),
    Used(f"{REGISTRY}._registry.pop", GRADIENTS),
    Used(f"{FUNC_GRAPH}._get_function", CALLS, ("name",)),
    Used("tensorflow.Operation._XlaMustCompile", CALLS),
    Used(f"{FROM_DEFINITION}.function_def_to_graph", FILES, ("fdef", "input_shapes")),
    *(
        Used(f"{SAVED_MODEL}.{name}", FILES)
        for name in ("SavedModel.meta_graphs", "SavedModel.FromString")
    ),
    Used(
        "tensorflow.python.grappler.tf_optimizer.OptimizeGraph",
        FILES,
        ("config_proto", "metagraph"),
    ),
    Used(
        "tensorflow.python.eager.polymorphic_function.concrete_function.ConcreteFunction"
        ".from_func_graph",
        COPIES,
        ("graph", "function_type", "attrs"),
    ),
    Used(f"{CONCRETE}.function_type", COPIES),
    Used(
        f"{VARIABLES}.UninitializedVariable",
        EMPTY,
        ("trainable", "name", "shape", "dtype", "initial_value"),
    ),
    Used(f"{VARIABLES}.ResourceVariable", EMPTY),
    Used("keras.KerasTensor._keras_history", ZEROS),
    Used("keras.Model._nodes_by_depth", COUNTS),
    *(Used(f"{XPLANE}.XSpace.{name}", TRACES) for name in ("FromString", "planes")),
    *(
        Used(f"{XPLANE}.XPlane.{name}", TRACES)
        for name in ("name", "lines", "event_metadata", "stat_metadata")
    ),
    *(
        Used(f"{XPLANE}.XLine.{name}", TRACES)
        for name in ("name", "display_name", "timestamp_ns", "events")
    ),
    *(
        Used(f"{XPLANE}.XEvent.{name}", TRACES)
        for name in ("metadata_id", "offset_ps", "duration_ps", "stats")
    ),
    *(Used(f"{XPLANE}.XStat.{name}", TRACES) for name in ("metadata_id", "str_value", "ref_value")),
    *(Used(f"{XPLANE}.XStat.{name}", TRACES) for name in ("int64_value", "uint64_value")),
    *(
        Used(f"{XPLANE}.{name}", TRACES)
        for name in ("XPlane.stats", "XLine.id", "XEventMetadata.id")
    ),
    *(Used(f"{CONFIG}.{name}", AHEAD) for name in ("feed", "fetch", "variable")),
    Used(
        "tensorflow.python.framework.auto_control_deps_utils"
        ".get_read_only_resource_input_indices_graph",
        AHEAD,
        ("func_graph",),
    ),
    Used("tensorflow.python._pywrap_tfcompile.Compile", AHEAD),
    Used("tf2onnx.graph.Graph.find_output_consumers", ORDER, ("self", "output_name")),
    Used("tf2onnx.tfonnx.resolve_functions", ORDER, ("tf_graph",)),
    Used("tf2onnx.graph.Node.name", ORDER),
    Used("tf2onnx.utils.INTERNAL_NAME", ORDER),
    Used(f"{BACK_TO_BACK}._func_map.Reshape", RESHAPES),
    # Not private by name, and used where they are needed, but not documented.
    *(Used(f"{FUNC_GRAPH}.{name}", GRAPHS) for name in ("inputs", "outputs", "captures")),
    Used(f"{FUNC_GRAPH}.variables", CAPTURES),
    *(
        Used(f"{CONCRETE}.{name}", CAPTURES)
        for name in ("graph", "inputs", "captured_inputs", "structured_outputs")
    ),
)


def concrete():
    """Returns a traced function that calls one which XLA compiles."""
    compiled = tf.function(tf.negative, jit_compile=True)
    calls = tf.function(lambda x: compiled(x), autograph=False)
    return calls.get_concrete_function(tf.TensorSpec([2]))


def marks():
    """Returns the marks of a call, as attributes."""
    (call,) = (op for op in concrete().graph.get_operations() if "Call" in op.type)
    return SimpleNamespace(**{name: call.get_attr(name) for name in call.node_def.attr})


def passes():
    """Returns what tf2onnx does to two operations in a row, as attributes."""
    handlers = importlib.import_module(BACK_TO_BACK)._func_map
    return SimpleNamespace(**{"_".join(types): handler for types, handler in handlers.items()})


EXAMPLES = {  # of what has its parts elsewhere than in attributes of the class
    FUNC_GRAPH: lambda: concrete().graph,
    CONCRETE: concrete,
    "tensorflow.Operation": marks,
    "keras.KerasTensor": lambda: keras.Input((1,)),
    "keras.Model": lambda: keras.Model(x := keras.Input((1,)), keras.ops.relu(x)),
    f"{BACK_TO_BACK}._func_map": passes,
}


def found(name):
    """Returns the thing of a dotted name; raises ImportError or AttributeError without it."""
    parts = name.split(".")
    thing = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 1):
        whole = ".".join(parts[:i])
        if whole in EXAMPLES:
            thing = EXAMPLES[whole]()
        elif hasattr(thing, "DESCRIPTOR") and isinstance(thing, type):
            thing = thing()  # a message, whose class lacks its fields
        try:
            thing = getattr(thing, part)
        except AttributeError:
            thing = importlib.import_module(f"{whole}.{part}")
    return thing


@pytest.mark.parametrize("used", USED, ids=[used.name for used in USED])
def test_what_is_private_is_still_there(used):
    package = used.name.split(".")[0]
    pytest.importorskip(package)
    release = f"{package} {importlib.metadata.version(package)}"
    try:
        thing = found(used.name)
    except (ImportError, AttributeError):
        pytest.fail(f"{release} has no {used.name}; needed by fathom/{used.by}")
    if used.takes is not None:
        signature = inspect.signature(thing)
        try:
            signature.bind(**dict.fromkeys(used.takes))
        except TypeError as error:
            pytest.fail(
                f"{used.name} is {signature} in {release}: {error}; needed by fathom/{used.by}"
            )


@pytest.mark.parametrize("package", sorted({used.name.split(".")[0] for used in USED}))
def test_the_version_has_an_upper_bound(package):
    assert re.search(rf'"{package}>=[\d.]+,<[\d.]+"', PROJECT.read_text(encoding="utf-8"))


PRIVATE = re.compile(
    r"(tf|tensorflow)\.(python|core|compiler|tsl|dtensor|lite\.python|__internal__)\b"
    r"|keras\.src\b|tf2onnx\.(?!convert\b)"
)
KNOWN = {part for used in USED for part in used.name.split(".") if part.startswith("_")}
OF_PYTHON = {"_ActionsContainer", "_asdict", "_exit", "_fields", "_replace"}


@functools.cache
def trees():
    """Returns the files of the package, parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")}


def is_underscored(name):
    return name.startswith("_") and not name.startswith("__")


def defined(tree):
    """Returns the names that a file gives to functions, classes, variables and attributes."""
    for node in ast.walk(tree):
        stored = isinstance(getattr(node, "ctx", None), ast.Store)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif stored and isinstance(node, ast.Name):
            yield node.id
        elif stored and isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
            yield node.attr


@functools.cache
def ours():
    """Returns the names that the package defines."""
    return {name for tree in trees().values() for name in defined(tree)} - KNOWN


def imported(node):
    """Returns the dotted names that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def private_in(tree):
    """Yields what a file uses of others that is private, by line."""
    for node in ast.walk(tree):
        names = imported(node)
        if isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
            if is_underscored(node.attr) and node.attr not in ours() | OF_PYTHON:
                yield node.lineno, node.attr
        elif isinstance(node, ast.Constant) and node.value in KNOWN:
            yield node.lineno, node.value
        yield from ((node.lineno, name) for name in names if PRIVATE.match(name))


def test_no_other_module_uses_what_is_private():
    uses = [
        f"{path.relative_to(ROOT.parent)}:{line} uses {name}: put it in fathom/system/private.py"
        for path, tree in trees().items()
        if path != MODULE
        for line, name in private_in(tree)
    ]
    assert not uses, "\n".join(uses)


def test_everything_private_is_checked_here():
    checked = [f"{used.name}." for used in USED]
    forgotten = [
        name
        for _, name in private_in(trees()[MODULE])
        if not any(f"{name}." in each for each in checked)
    ]
    assert not forgotten, f"add to USED: {', '.join(forgotten)}"


@pytest.mark.parametrize("compiled", [False, True])
def test_a_function_knows_while_it_is_traced_whether_xla_compiles_it(compiled):
    found = []

    @tf.custom_gradient
    def noted(x):
        found.append(private.traces_for_xla())
        return x, lambda upstream: (found.append(private.traces_for_xla()), upstream)[1]

    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(lambda x: x < 4, lambda x: (noted(x) + 1,), [x])
        return tape.gradient(y, x)

    inner = tf.function(step, autograph=False)  # a call within the compiled one
    tf.function(lambda x: inner(x), autograph=False, jit_compile=compiled)(tf.constant(1.0))
    assert set(found) == {compiled}
    assert not private.traces_for_xla()
