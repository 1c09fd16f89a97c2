"""How far a training step in float32 is from the same step in float64.

    python benchmarks/stablehlo_in_float64.py residual --batch-size 4

The step is exported as StableHLO and executed by JAX (``jax`` on PyPI), in float32 and, with the
types of the text replaced, in float64; TensorFlow runs it operation by operation and with XLA.
Printed are the largest distances from float64 (norm of the difference over the norm) among the new
weights, apart for those that were zero before the step: their new value is a gradient alone.
"""

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from fathom import exports, workloads
from fathom.nn import NeuralNetworkModel

Values = dict[str, np.ndarray]  # of arguments or results, by name

_WIDER = {"0xFF800000": "0xFFF0000000000000", "0x7FC00000": "0x7FF8000000000000"}  # -inf, NaN


def main() -> None:
    """Runs the four steps, and prints their distances."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    options: dict[str, Any] = dict(each.split("=") for each in args.set) | {"xla": True}
    if args.batch_size:
        options["batch_size"] = args.batch_size
    model = workloads.load(args.workload)("/cpu:0", options)
    model.build()
    with tempfile.TemporaryDirectory() as folder:
        exports.find("stablehlo").save(model, Path(folder), exports.ExportOptions())
        text = (Path(folder) / "step.mlir").read_text()
        listing = json.loads((Path(folder) / "step.json").read_text())
    step = Step(model, listing)
    wide = step.in_jax(in_float64(text), wider=True)
    found = {
        "TensorFlow": step.in_tensorflow(xla=False),
        "TensorFlow, XLA": step.in_tensorflow(xla=True),
        "JAX": step.in_jax(text),
    }
    print(pd.DataFrame({name: distances(each, wide, step) for name, each in found.items()}))


class Step:
    """The step of a model on a random batch, always from the same weights."""

    def __init__(self, model: NeuralNetworkModel, listing: dict[str, Any]) -> None:
        self._model, self._results = model, listing["results"]
        self._signature = model.signature_of_length(None)
        self._batch = [_random(spec, np.random.default_rng(0)) for spec in self._signature]
        traced = tf.function(model.train_step, autograph=False).get_concrete_function
        captured = traced(*self._signature).captured_inputs
        arguments = [each for each in listing["arguments"] if each["kind"] != "batch"]
        self._captured = list(zip(arguments, captured, strict=True))
        self.before = self._read()

    def _read(self) -> Values:
        values = {}
        for argument, tensor in self._captured:
            if tensor.dtype == tf.resource:
                tensor = tf.raw_ops.ReadVariableOp(resource=tensor, dtype=argument["dtype"])
            values[argument["name"]] = tensor.numpy()
        return values

    def in_tensorflow(self, xla: bool) -> Values:
        """Returns the results of ``train_step`` by name, and restores the weights."""
        step = tf.function(
            self._model.train_step, self._signature, autograph=False, jit_compile=xla
        )
        loss = step(*map(tf.constant, self._batch)).numpy()
        after = self._read()
        for argument, tensor in self._captured:
            if tensor.dtype == tf.resource:
                value = tf.constant(self.before[argument["name"]])
                tf.raw_ops.AssignVariableOp(resource=tensor, value=value)
        return {"loss": loss, **{f"new {name}": value for name, value in after.items()}}

    def in_jax(self, text: str, wider: bool = False) -> Values:
        """Returns the results of the text by name."""
        import jax
        from jax import experimental
        from jax.extend import backend
        from jaxlib import xla_client

        values = [*self._batch, *self.before.values()]
        if wider:
            values = [v.astype(np.float64) if v.dtype == np.float32 else v for v in values]
        client = backend.get_backend("cpu")
        devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
        compiled = client.compile_and_load(text, devices, xla_client.CompileOptions())
        enable_x64 = (jax if hasattr(jax, "enable_x64") else experimental).enable_x64  # new in 0.8
        with enable_x64(True):
            placed = [jax.device_put(value) for value in values]
            results = compiled.execute_sharded(placed).disassemble_into_single_device_arrays()
            arrays = [np.asarray(result[0]) for result in results]
        return dict(zip(self._results, arrays, strict=True))


def _random(spec: tf.TensorSpec, rng: np.random.Generator) -> np.ndarray:
    floating = spec.dtype.is_floating
    values = rng.normal(size=spec.shape) if floating else rng.integers(5, size=spec.shape)
    return values.astype(spec.dtype.as_numpy_dtype)


def in_float64(text: str) -> str:
    """Returns StableHLO with every float32 as a float64, constants included."""

    def constant(found: re.Match[str]) -> str:
        values = np.frombuffer(bytes.fromhex(found[1]), np.float32).astype(np.float64)
        return f'dense<"0x{values.tobytes().hex().upper()}"> : tensor<{found[2]}f32>'

    text = re.sub(r'dense<"0x([0-9A-F]+)"> : tensor<([0-9x]*)f32>', constant, text)
    for narrow, wide in _WIDER.items():
        text = re.sub(rf"\b{narrow}\b", wide, text)
    text = re.sub(r"\bf32\b|(?<=x)f32\b", "f64", text)
    return re.sub(r"(epsilon = \S+ : )f64", r"\1f32", text)  # must be a float32


def distances(found: Values, wide: Values, step: Step) -> dict[str, float]:
    """Returns the largest distances from float64 by group of results; not of the optimizer."""
    groups = {"not zero before": 0.0, "zero before": 0.0, "loss": 0.0}
    for name, expected in wide.items():
        if not name.startswith("new optimizer"):
            before = step.before.get(name.removeprefix("new "))
            group = (
                "loss" if before is None else "not zero before" if before.any() else "zero before"
            )
            error = float(np.linalg.norm(found[name] - expected) / np.linalg.norm(expected))
            groups[group] = max(groups[group], error)
    return groups


if __name__ == "__main__":
    main()
