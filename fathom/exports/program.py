"""A bare program: the step as one static executable with a known answer, for simulators.

TensorFlow's ahead-of-time compiler makes an object file of the step's kernels and a header that
calls them in turn. ``bare/`` has what they need at run time: XLA's own products, convolutions and
sorting, compiled for one thread, and the ``main`` that reads the tensors and checks the results.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fathom.errors import FathomError, require
from fathom.exports import kernels, llvm
from fathom.exports.format import ExportOptions, NetworkFormat
from fathom.system import files, private

if TYPE_CHECKING:
    import tensorflow as tf

    from fathom.hardware.description.attribution import Attribution
    from fathom.nn import NeuralNetworkModel

_SOURCES = Path(__file__).parent / "bare"
_RECORDED = 3  # steps whose results are written
_WAIT = 3600  # seconds for a compiler
_BUILD = ("CXX", "ROI", "LAYER")  # that build.sh reads
_KINDS = {"float32": "f", "int32": "i"}  # of results, as in main.cc


@dataclass(frozen=True)
class Target:
    """A machine that programs are for.

    Attributes:
        triple: of the machine, as compilers name it.
        processor: the least that has all its instructions, as LLVM names it.
        architecture: the same, as GCC does.
        features: of a machine that XLA does not know, the instruction sets as LLVM names them: LLVM
            makes its code from XLA's for the default target.
        abi: of such a machine, how arguments are passed, as LLVM names it.
        libraries: that the compiler links with besides its own.
    """

    triple: str
    processor: str
    architecture: str
    features: str = ""
    abi: str = ""
    libraries: str = ""

    @property
    def translated(self) -> bool:
        """Whether XLA does not know the machine."""
        return bool(self.features)

    def compiler(self) -> str:
        """Returns the name of a C++ compiler.

        Raises:
            FathomError: there is none.
        """
        here = platform.machine() == self.triple.partition("-")[0]
        for name in [*["g++"] * here, f"{self.triple}-g++"]:
            if shutil.which(name):
                return name
        package = "g++" if here else f"g++-{self.triple.replace('_', '-')}"
        raise FathomError(f"program needs a C++ compiler, {self.triple}-g++: install {package}")


TARGETS = {
    "x86_64": Target("x86_64-linux-gnu", "x86-64", "x86-64"),
    "x86_64_v3": Target("x86_64-linux-gnu", "x86-64-v3", "x86-64-v3"),
    "aarch64": Target("aarch64-linux-gnu", "generic", "armv8-a"),
    "riscv64": Target(
        *("riscv64-linux-gnu", "generic-rv64", "rv64gc"),
        features="+m,+a,+f,+d,+c",
        abi="lp64d",
        libraries="-latomic",
    ),
}
_KNOWN = TARGETS["x86_64"]  # what XLA compiles for, where it does not know the machine


def _save(model: "NeuralNetworkModel", folder: Path, options: ExportOptions) -> tuple[str, ...]:
    """Writes the program, its sources and its tensors."""
    from fathom.exports.traced import variables
    from fathom.hardware.description.attribution import Attribution, scoped_gradients
    from fathom.model import calibration

    if options.length is not None:
        raise FathomError("program has the lengths of the first batch: omit --length")
    target = TARGETS[options.target or next(iter(TARGETS))]
    compiler = target.compiler()
    if target.translated:
        require(f"program for {target.triple}", "exports", "llvmlite")
    if model.execution.precision != "float32":
        raise FathomError(f"program holds float32: omit --precision {model.execution.precision}")
    model.load_data()
    batch = calibration.first_batch(model)
    with scoped_gradients():
        traced = _function(model, batch, compiled=True).get_concrete_function()
    attribution = Attribution(traced.graph, model.network, model.optimizer)
    state = variables(model, traced)
    graph, config, order = private.ahead_of_time_graph(traced, state)
    inputs = {f"inputs/{name}.npy": tensor.numpy() for name, tensor in batch.items()}
    weights = {f"weights/{name.replace('/', '.')}.npy": state[name].numpy() for name in order}
    for name, array in (inputs | weights).items():
        _write(folder / name, array)
    changes = any(not variable.readonly for variable in config.variable)
    results = _results(_function(model, batch, compiled=False), batch, state, changes)
    for name, array in results.items():
        if array.dtype.name not in _KINDS:
            raise FathomError(f"program cannot check {name} of type {array.dtype.name}")
        _write(folder / "expected" / f"{name}.npy", array)
    layers = _compile(model.name, graph, config, target, attribution, folder)
    (folder / "layers.txt").write_text("".join(f"{name}\n" for name in layers))
    (folder / "tensors.h").write_text(_tensors([*inputs, *weights], results, changes, layers))
    _build(model.name, target, compiler, folder)
    return ()


def _function(model: "NeuralNetworkModel", batch: "dict[str, tf.Tensor]", compiled: bool) -> Any:
    """Returns the forward pass, or the training step, of the sizes of a batch."""
    import tensorflow as tf

    from fathom.exports.traced import forward

    specs = [tf.TensorSpec(tensor.shape, tensor.dtype, name) for name, tensor in batch.items()]
    if model.forward_only:
        return forward(model, specs, compiled)
    return tf.function(
        lambda *tensors: {"loss": model.train_step(*tensors)},
        input_signature=specs,
        autograph=False,
        jit_compile=compiled,
    )


def _results(
    step: Any, batch: "dict[str, tf.Tensor]", state: "dict[str, tf.Variable]", changes: bool
) -> dict[str, np.ndarray]:
    """Returns what TensorFlow's own kernels compute: results by name, [steps, ...].

    All variables have their values again afterwards. A step that changes none is done once.
    """
    from fathom.core.training.values import restored

    with restored([*state.values()]):
        steps = [step(*batch.values()) for _ in range(_RECORDED if changes else 1)]
    return {name: np.stack([each[name].numpy() for each in steps]) for name in sorted(steps[0])}


def _write(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(exist_ok=True)
    np.save(path, np.ascontiguousarray(array).reshape(array.shape))


def _tensors(
    arguments: list[str], results: dict[str, np.ndarray], changes: bool, layers: list[str]
) -> str:
    """Returns C's tables of the files of the step's arguments, of its results and of its layers."""
    rows = [
        f"{{{json.dumps(name)}, {array[0].size}, '{_KINDS[array.dtype.name]}'}},"
        for name, array in results.items()
    ]
    lines = [
        "// The files of the step's arguments, and its results: name, elements, float or int.",
        "#include <cstddef>",
        "static const char* const arguments[] = {",
        *(f"{json.dumps(name)}," for name in arguments),
        "};",
        "struct Result { const char* name; size_t count; char kind; };",
        "static const Result results[] = {",
        *rows,
        "};",
        f"static const long recorded_steps = {len(next(iter(results.values())))};",
        f"static const bool step_changes_state = {str(changes).lower()};",
        "// Where the step's kernels come from; the first has number 1.",
        "static const char* const layers[] = {",
        *(f"{json.dumps(name)}," for name in layers),
        "};",
    ]
    return "\n".join(lines) + "\n"


def _compile(
    name: str, graph: Any, config: Any, target: Target, attribution: "Attribution", folder: Path
) -> list[str]:
    """Writes ``step.h``, ``step.o`` and ``constants.o``; returns the layers by their numbers.

    XLA takes its flags from the environment, and ends the process on some errors: it has its own.
    """
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        (place / "graph.pb").write_bytes(graph.SerializeToString(deterministic=True))
        (place / "config.pbtxt").write_text(str(config))
        call = "from fathom.system import private; private.compile_ahead_of_time(*sys.argv[1:])"
        command = [sys.executable, "-c", f"import sys; {call}", temporary]
        flags = "--xla_cpu_multi_thread_eigen=false --xla_cpu_experimental_ynn_fusion_type="
        flags += f" --xla_dump_to={temporary} --xla_dump_hlo_as_text"
        known = _KNOWN if target.translated else target
        done = _finished(
            [*command, known.triple, known.processor],
            os.environ | {"XLA_FLAGS": flags, "CUDA_VISIBLE_DEVICES": "-1"},
        )
        if done.returncode:
            errors = re.findall(r"^(?:\w+Error: |F\d{4} .*\] )(.+)", done.stderr, re.MULTILINE)
            raise FathomError(
                f"XLA cannot compile {name} ahead of time: {errors[-1] if errors else 'it failed'}"
            )
        if target.translated:
            _translate(place, target)
        for each in ("step.o", "constants.o"):
            shutil.copyfile(place / each, folder / each)
        header = re.sub(
            r'^#include "(absl|xla|tensorflow)/.*\n', "", (place / "step.h").read_text(), flags=re.M
        )
        (module,) = place.glob("*.cpu_after_optimizations.txt")
        header, layers = kernels.marked(
            header, module.read_text(), lambda operation: attribution.place(operation)[0]
        )
    found = re.findall(r'"([xv]\d+)"', header)
    if found != [each.name for each in (*config.feed, *config.variable)]:
        raise FathomError(f"XLA cannot compile {name} ahead of time: it drops arguments")
    (folder / "step.h").write_text(header)
    return layers


def _translate(place: Path, target: Target) -> None:
    """Replaces the object files of the machine that XLA knows by those of another."""
    (text,) = place.glob("*.ir-with-opt.ll")
    step = llvm.compiled(text.read_text(), target.triple, target.features, target.abi)
    (place / "step.o").write_bytes(step)
    constants = place / "constants.o"
    constants.write_bytes(llvm.data_of(step, constants.read_bytes()))


def _build(name: str, target: Target, compiler: str, folder: Path) -> None:
    """Writes the other sources and the script that builds the program, and runs it."""
    for each in ("main.cc", "runtime.h", "runtime.cc", "roi.h"):
        shutil.copyfile(_SOURCES / each, folder / each)
    words = {
        "compiler": compiler,
        "flags": f"-march={target.architecture}",
        "libraries": target.libraries,
        "name": name,
        "triple": target.triple,
    }
    for each in ("build.sh", "README.md"):
        text = (_SOURCES / each).read_text()
        (folder / each).write_text(re.sub("@(\\w+)@", lambda found: words[found[1]], text))
    (folder / "runtime.o").write_bytes(_runtime(target, compiler))
    environment = {key: value for key, value in os.environ.items() if key not in _BUILD}
    _run(["sh", str(folder / "build.sh")], environment)


def _runtime(target: Target, compiler: str) -> bytes:
    """Returns the object file of XLA's runtime; it is compiled once, and kept in the cache."""
    import tensorflow as tf

    source = _SOURCES / "runtime.cc"
    package = Path(tf.sysconfig.get_include())
    version = _run([compiler, "--version"])
    made_of = [tf.__version__, target.architecture, version, source.read_text()]
    digest = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]

    def make() -> bytes:
        with tempfile.TemporaryDirectory() as temporary:
            out = Path(temporary, "runtime.o")
            options = ["-std=c++17", "-O2", "-DNDEBUG", "-w", f"-march={target.architecture}"]
            options += ["-ffunction-sections", "-fdata-sections"]
            folders = [f"-I{package}", f"-I{package.parent / 'xla_aot_runtime_src'}"]
            _run([compiler, *options, *folders, "-c", str(source), "-o", str(out)])
            return out.read_bytes()

    return files.cached(files.cache_directory() / "program" / f"{digest}.o", make, bytes)


def _run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """Runs a compiler; returns what it prints, and raises FathomError if it failed."""
    done = _finished(command, environment)
    if done.returncode:
        lines = [
            line
            for line in done.stderr.splitlines()
            if re.search("error(?!: ld returned)|undefined|cannot find", line)
        ]
        reason = (lines or done.stderr.splitlines() or ["it failed"])[0]
        raise FathomError(f"program cannot be built: {reason}")
    return done.stdout


def _finished(
    command: list[str], environment: dict[str, str] | None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_WAIT, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise FathomError(f"program: {command[0]} did not end within {_WAIT:,} s") from error


FORMAT = NetworkFormat(
    about="a bare static program of the step, for simulators of processors",
    save_network=_save,
    trains=True,
    targets=tuple(TARGETS),
    xla=True,
)
