"""StableHLO: the text that XLA compiles, of the forward pass or of the whole training step.

The function ``main`` of ``step.mlir`` takes the batch and every variable as arguments, and returns
the loss or the network's outputs, then each variable that the step changes. ``step.json`` names
them. There are no weights; a constant, such as the graph of a graph network, is a ``.npy`` file.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fathom.errors import FathomError, cause
from fathom.exports.format import ExportOptions, NetworkFormat

if TYPE_CHECKING:
    import tensorflow as tf

    from fathom.core.training.compilation import ConcreteFunction
    from fathom.nn import NeuralNetworkModel

_ALIAS = re.compile(
    r"parameter_number = (\d+) : i64\}, output_index = array<i64(?:: (\d+))?>"
)  # of an argument that an output replaces
_MODULE = re.compile(r"^module @\S+", re.MULTILINE)  # with a number of what was traced before
_COPY = re.compile(r"mhlo\.copy (%\w+) : (tensor<[^>]*>)")  # of XLA's own dialect
_TRUTHS = re.compile(r'dense<"0x([0-9A-F]+)"> : tensor<([0-9x]+)xi1>')


def _save(model: "NeuralNetworkModel", folder: Path, options: ExportOptions) -> tuple[str, ...]:
    """Writes the text, the names of its arguments and results, and the constants."""
    import tensorflow as tf

    from fathom.exports.traced import forward

    signature = model.signature_of_length(options.length)
    if model.forward_only:
        step = forward(model, signature, compiled=True)
    else:
        step = tf.function(
            model.train_step, input_signature=signature, autograph=False, jit_compile=True
        )
    traced = step.get_concrete_function()
    try:
        text = step.experimental_get_compiler_ir(*signature)(stage="stablehlo")
    except (tf.errors.OpError, ValueError, TypeError) as error:
        raise FathomError(f"XLA cannot compile {model.name}: {cause(error)}") from error
    text = _COPY.sub(r"stablehlo.reshape \1 : (\2) -> \2", text)
    (folder / "step.mlir").write_text(_MODULE.sub("module @step", _TRUTHS.sub(_spelled_out, text)))
    arguments = _arguments(model, traced)
    for argument in arguments:
        if argument["kind"] == "constant":
            np.save(folder / f"{argument['name']}.npy", argument.pop("value"))
    changed = {int(result or 0): int(number) for number, result in _ALIAS.findall(text)}
    results = ["loss"] if not model.forward_only else sorted(traced.structured_outputs)
    results += [f"new {arguments[changed[i]]['name']}" for i in sorted(changed)]
    listing = {"arguments": arguments, "results": results}
    (folder / "step.json").write_text(json.dumps(listing, indent=1) + "\n")
    return ("the weights, which are arguments",)


def _spelled_out(constant: re.Match[str]) -> str:
    """Returns a constant of truth values, as a mask, in words.

    MLIR's versions differ in how its digits hold them: a bit each, as TensorFlow's, or a byte.
    """
    shape = [int(size) for size in constant[2].split("x")]
    stored = np.frombuffer(bytes.fromhex(constant[1]), np.uint8)
    bits = np.unpackbits(stored, bitorder="little") if stored.size < np.prod(shape) else stored
    values = bits[: np.prod(shape)].astype(bool).reshape(shape).tolist()
    return f"dense<{json.dumps(values)}> : tensor<{constant[2]}xi1>"


def _arguments(model: "NeuralNetworkModel", traced: "ConcreteFunction") -> list[dict[str, Any]]:
    """Returns name, kind, shape and dtype of each argument of ``main``; a constant's value too."""
    from fathom.exports.traced import variables

    found = variables(model, traced)
    names = {id(variable.handle): name for name, variable in found.items()}
    batch = traced.inputs[: len(traced.inputs) - len(traced.captured_inputs)]
    arguments = [_described(spec.name.partition(":")[0], "batch", spec) for spec in batch]
    for number, captured in enumerate(traced.captured_inputs):
        if captured.dtype.name == "resource":
            name = names[id(captured)]
            arguments.append(_described(name, "variable", found[name]))
        else:
            constant = _described(f"constant_{number}", "constant", captured)
            arguments.append({**constant, "value": captured.numpy()})
    return arguments


def _described(name: str, kind: str, tensor: "tf.Tensor | tf.Variable") -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype.base_dtype.name,
    }


FORMAT = NetworkFormat(
    about="StableHLO text of the forward pass or of the training step, as XLA compiles it",
    save_network=_save,
    trains=True,
    xla=True,
    has_weights=False,
)
