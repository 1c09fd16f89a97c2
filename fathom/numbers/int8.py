"""int8 inference by ONNX Runtime: post-training quantization with calibration, and its sessions.

Weights become int8 per channel, activations uint8 per tensor, which is what VNNI multiplies (Jacob
et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference", sections 2 and 3). Other x86 processors add pairs of such products in 16 bits, which
saturate; there a session computes with weights in uint8 instead, to the same results. ONNX Runtime
joins the operations between two roundings into one kernel on integers, and leaves the others in
float32.
"""

import itertools
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import Unpack

from fathom.core.layers import LayerOptions
from fathom.errors import FathomError, cause, require
from fathom.system.processor import processor

Arrays = Sequence[np.ndarray]
_QUANTIZED = ("Conv", "MatMul", "Gemm", "Add", "MaxPool", "Relu", "Concat", "GlobalAveragePool")
_VNNI = frozenset({"avx512_vnni", "avx_vnni"})
_AS_UINT8 = "session.x64quantprecision"  # ONNX Runtime's option; with VNNI it only costs time


def require_engine() -> None:
    """Raises FathomError if ONNX Runtime is not installed."""
    require("int8", "int8", "onnx", "onnxruntime")


def quantize(network: Path, batches: Iterable[Arrays], to: Path) -> dict[str, int]:
    """Writes an int8 version of an ONNX file.

    Args:
        network: in float32.
        batches: of the network's inputs, in their order, to choose the ranges of activations.
        to: the file to write.

    Returns:
        number of float32 operations that it keeps, by type.

    Raises:
        FathomError: there are no batches, they are not of the network's inputs, or ONNX Runtime
            cannot read the file.
    """
    import onnx
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def get_next(self) -> Mapping[str, np.ndarray] | None:
            return next(feeds, None)

    feeds = _feeds(network, batches)
    first = next(feeds, None)
    if first is None:
        raise FathomError("there is no data to calibrate on")
    feeds = itertools.chain([first], feeds)
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        try:
            quant_pre_process(network, prepared, skip_symbolic_shape=True)
            quantize_static(
                prepared,
                to,
                Reader(),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=list(_QUANTIZED),
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
            )
        except FathomError:
            raise
        except Exception as error:  # ONNX Runtime's own classes derive from nothing narrower
            raise FathomError(f"ONNX Runtime cannot quantize {network}: {cause(error)}") from error
    kinds = Counter(node.op_type for node in onnx.load(to).graph.node)
    rounding = ("QuantizeLinear", "DequantizeLinear")
    return {k: n for k, n in kinds.items() if k not in (*rounding, *_QUANTIZED)}


def saturates(flags: Collection[str]) -> bool:
    """Returns whether products of uint8 and int8 may saturate on a processor.

    Without VNNI, x86 adds two of them in 16 bits (``vpmaddubsw``): 2 x 255 x 127 is too much.

    Args:
        flags: the processor's instruction sets, by their names in ``/proc/cpuinfo``.
    """
    return _VNNI.isdisjoint(flags)


def session(network: Path, threads: int) -> Any:
    """Returns ONNX Runtime's session of a file, on the CPU.

    Raises:
        FathomError: it cannot be read.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry(_AS_UINT8, "1" if saturates(processor().flags) else "0")
    try:
        return onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's own classes derive from nothing narrower
        raise FathomError(f"ONNX Runtime cannot read {network}: {cause(error)}") from error


def _feeds(network: Path, batches: Iterable[Arrays]) -> Iterator[Mapping[str, np.ndarray]]:
    """Yields batches by the names of a network's inputs."""
    names = [declared.name for declared in _inputs(network)]
    for batch in batches:
        if len(batch) != len(names):
            raise FathomError(
                f"{network} takes {len(names)} inputs, not the {len(batch)} of the workload"
            )
        yield dict(zip(names, batch, strict=True))


def batch_of(network: Path) -> int:
    """Returns the number of examples that an ONNX file with inputs takes; 0: any."""
    return _inputs(network)[0].type.tensor_type.shape.dim[0].dim_value


def _inputs(network: Path) -> list[Any]:
    import onnx

    try:
        graph = onnx.load(network, load_external_data=False).graph
    except Exception as error:  # protobuf's, or the operating system's
        raise FathomError(f"ONNX cannot read {network}: {cause(error)}") from error
    constants = {initializer.name for initializer in graph.initializer}
    return [declared for declared in graph.input if declared.name not in constants]


class Engine(keras.layers.Layer):
    """A network that ONNX Runtime computes, as one layer.

    Args:
        computes: the session.
        like: the symbolic output of the network that it takes the place of: one tensor.
    """

    def __init__(
        self, computes: Any, like: keras.KerasTensor, **options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**options)
        self._session, self._like = computes, like

    def compute_output_spec(self, *inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the symbolic output."""
        return keras.KerasTensor(self._like.shape, self._like.dtype)

    def call(self, *inputs: tf.Tensor) -> tf.Tensor:
        """Returns the output of the session for the network's inputs, in its order."""
        names = [each.name for each in self._session.get_inputs()]

        def compute(*arrays: np.ndarray) -> np.ndarray:
            return self._session.run(None, dict(zip(names, arrays, strict=True)))[0]

        output = tf.numpy_function(compute, inputs, self._like.dtype, stateful=False)
        return tf.ensure_shape(output, self._like.shape)


def network_of(computes: Any, network: keras.Model) -> keras.Model:
    """Returns a Keras network with the inputs and the output of another, computed by a session.

    Raises:
        FathomError: it has several outputs.
    """
    outputs = keras.tree.flatten(network.output)
    if len(outputs) > 1:
        raise FathomError(f"int8 takes networks of one output; {network.name} has {len(outputs)}")
    output = Engine(computes, outputs[0], name="engine")(*keras.tree.flatten(network.input))
    return keras.Model(network.input, output, name=network.name)
