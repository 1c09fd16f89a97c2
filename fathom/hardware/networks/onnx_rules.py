"""What each ONNX operation computes: one table of rules by type.

A rule takes a ``Call`` and returns its work, a row for each part. Sizes are those of the ONNX
operators' specification.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.hardware.description import bounds
from fathom.hardware.description.bounds import Window
from fathom.hardware.networks import rows
from fathom.hardware.networks.rows import Value, Work


@dataclass(frozen=True)
class Call:
    """An operation with its tensors; inputs that are left out are None."""

    type: str
    attributes: Mapping[str, Any]
    inputs: Sequence[Value | None]
    outputs: Sequence[Value]

    def input(self, place: int) -> Value:
        """Returns an input that must be there.

        Raises:
            ValueError: it is not.
        """
        found = self.inputs[place] if place < len(self.inputs) else None
        if found is None:
            raise ValueError(f"{self.type} lacks input {place}")
        return found

    @property
    def given(self) -> list[Value]:
        """The inputs that are there."""
        return [value for value in self.inputs if value is not None]


Rule = Callable[[Call], "list[Work] | None"]

VIEWS = (
    *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"),
    *("Shape", "Size", "Constant"),
)
"""Neither compute nor move data."""

_ELEMENTWISE = """
    Abs Acos Acosh Add Affine And Asin Asinh Atan Atanh Bernoulli BitShift BitwiseAnd BitwiseNot
    BitwiseOr BitwiseXor Ceil Celu Clip Cos Cosh DequantizeLinear Div DynamicQuantizeLinear Elu
    Equal Erf Exp Floor Gelu Greater GreaterOrEqual GridSample HardSigmoid HardSwish IsInf IsNaN
    LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Multinomial Neg Not Or PRelu Pow
    QuantizeLinear RandomNormal RandomNormalLike RandomUniform RandomUniformLike Reciprocal Relu
    Resize RotaryEmbedding Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum
    Swish Tan Tanh ThresholdedRelu Upsample Xor
    """
OF_TWO_QUANTIZED = ("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
"""Elementwise operations of ONNX Runtime; their tensors are the inputs 0 and 3."""
_REDUCTIONS = """
    ArgMax ArgMin AveragePool BatchNormalization CumSum GlobalAveragePool GlobalLpPool
    GlobalMaxPool GroupNormalization Hardmax InstanceNormalization LRN LayerNormalization LogSoftmax
    LpNormalization LpPool MaxPool MaxRoiPool MeanVarianceNormalization NegativeLogLikelihoodLoss
    NonMaxSuppression RMSNormalization ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
    ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare RoiAlign Softmax
    SoftmaxCrossEntropyLoss TopK Unique
    """
_MOVEMENTS = """
    BitCast Cast CastLike CenterCropPad Col2Im Compress Concat ConstantOfShape DepthToSpace Expand
    EyeLike MaxUnpool NonZero OneHot Pad Range ReverseSequence ScatterElements ScatterND Scatter
    SpaceToDepth Split TensorScatter Tile Transpose Trilu Where
    """
_PARTS = "GatherElements GatherND Slice"  # of their first input they read what they write


def _convolution(call: Call) -> list[Work]:
    image, kernel = call.input(0), call.input(3 if call.type == "QLinearConv" else 1)
    axes = call.outputs[0].shape[2:]
    return [_convolved(call, image.shape, kernel.shape, axes)]


def _transposed(call: Call) -> list[Work]:
    """Describes the convolution whose gradient it computes, from its result to its input."""
    image, kernel = call.outputs[0], call.input(1)
    return [_convolved(call, image.shape, kernel.shape, call.input(0).shape[2:])]


def _convolved(
    call: Call, image: bounds.Sizes, kernel: bounds.Sizes, outputs: bounds.Sizes
) -> Work:
    get, axes = call.attributes.get, len(outputs)
    strides, dilations = get("strides") or [1] * axes, get("dilations") or [1] * axes
    pads = get("pads") or [0] * (2 * axes)
    paddings = list(zip(pads[:axes], pads[axes:], strict=True))
    if get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
        paddings = bounds.same_paddings(image[2:], kernel[2:], outputs, strides, dilations)
    window = Window(strides, dilations, paddings, get("group", 1))
    return Work(*bounds.convolution(image, kernel, outputs, window))


def _gemm(call: Call) -> list[Work]:
    left, right = call.input(0).shape, call.input(1).shape
    depth, rows_of_left = left[:: 1 if call.attributes.get("transA") else -1]
    columns = right[0 if call.attributes.get("transB") else 1]
    sizes = {"batch": 1, "M": rows_of_left, "N": columns, "K": depth}
    return [Work("matrix product", sizes)]


def _product(call: Call) -> list[Work]:
    right = call.input(3 if call.type == "QLinearMatMul" else 1)
    return [Work("matrix product", bounds.matmul(call.input(0).shape, right.shape))]


def _einsum(call: Call) -> list[Work] | None:
    equation = call.attributes["equation"].decode()
    shapes = [value.shape for value in call.given]
    if len(shapes) == 1:
        return [rows.reduction(call.given)]
    sizes = bounds.einsum(equation, shapes)
    return None if sizes is None else [Work("matrix product", sizes)]


def _recurrent(call: Call) -> list[Work]:
    """Describes all directions: the product of all inputs, then of the state at each step.

    The gates read both, and the memory cell (LSTM) or the state that they mix with the new (GRU).
    """
    inputs, weights, recurrent = (call.input(place) for place in range(3))
    biases, lengths, hidden_at_first, cell_at_first, peepholes = [*call.inputs[3:], *[None] * 5][:5]
    steps, batch, width = inputs.shape
    if call.attributes.get("layout"):
        steps, batch = batch, steps
    directions, gates, hidden = recurrent.shape
    products = Value((directions, steps, batch, gates), inputs.dtype)
    state = Value((directions, batch, hidden), inputs.dtype)
    step = Value((directions, batch, gates), inputs.dtype)
    sizes = {"batch": directions, "M": steps * batch, "N": gates, "K": width}
    in_loop = {"batch": directions, "M": batch, "N": gates, "K": hidden}
    recurrence = Work("recurrent product", in_loop, part="/body/state", repeats=steps)
    before = replace(state, producers=hidden_at_first.producers if hidden_at_first else ())
    cell = replace(state, producers=cell_at_first.producers if cell_at_first else ())
    kept = {"LSTM": [cell], "GRU": [before], "RNN": []}[call.type]
    read = [step, step, *kept, *(each for each in (biases, lengths, peepholes) if each)]
    update = replace(rows.elementwise([step], [state]), part="/body/gates", repeats=steps)
    return [
        Work("matrix product", sizes, part="/inputs", inputs=[inputs, weights], outputs=[products]),
        replace(recurrence, reads=["/body/gates"], inputs=[before, recurrent], outputs=[step]),
        replace(update, reads=["/inputs", "/body/state"], inputs=read, outputs=[state]),
    ]


def _attention(call: Call) -> list[Work]:
    """Describes scores, softmax and weighted values, with the past that it is given."""
    heads = call.attributes.get("q_num_heads", 1)
    kv_heads = call.attributes.get("kv_num_heads", 1)
    query = _by_heads(call.input(0).shape, heads)
    key, value = (_by_heads(call.input(place).shape, kv_heads) for place in (1, 2))
    past = call.inputs[4] if len(call.inputs) > 4 else None
    keys = key[2] + (past.shape[2] if past else 0)
    batch, dtype = query[0] * query[1], call.input(0).dtype
    scores = Value((batch, query[2], keys), dtype)
    first = {"batch": batch, "M": query[2], "N": keys, "K": query[3]}
    last = {"batch": batch, "M": query[2], "N": value[3], "K": keys}
    read, softmax = [call.input(0), call.input(1), *call.given[3:]], rows.reduction([scores])
    return [
        Work("matrix product", first, part="/scores", inputs=read, outputs=[scores]),
        replace(softmax, part="/softmax", inputs=[scores], outputs=[scores]),
        Work("matrix product", last, part="/values", inputs=[scores, call.input(2)]),
    ]


def _by_heads(shape: tuple[int, ...], heads: int) -> tuple[int, ...]:
    """Returns [batch, heads, time, width] of a shape that may be [batch, time, heads x width]."""
    return shape if len(shape) == 4 else (shape[0], heads, shape[1], shape[2] // heads)


def _deformed(call: Call) -> list[Work]:
    """Describes the convolution; the interpolation of its inputs is one operation each."""
    image, kernel = call.input(0), call.input(1)
    work = _convolved(call, image.shape, kernel.shape, call.outputs[0].shape[2:])
    taps = math.prod(call.outputs[0].shape[2:]) * math.prod(kernel.shape[2:])
    sampled = Value((image.shape[0], image.shape[1], taps), image.dtype)
    first = rows.elementwise([image, call.input(2)], [sampled])
    return [
        replace(first, part="/samples", inputs=[image, *call.given[2:]], outputs=[sampled]),
        replace(work, part="/product", inputs=[sampled, kernel]),
    ]


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (*_ELEMENTWISE.split(), *OF_TWO_QUANTIZED),
        lambda call: [rows.elementwise(call.given, call.outputs)],
    ),
    **dict.fromkeys(_REDUCTIONS.split(), lambda call: [rows.reduction(call.given[:1])]),
    **dict.fromkeys(_MOVEMENTS.split(), lambda call: [rows.movement(call.given, call.outputs)]),
    **dict.fromkeys(
        _PARTS.split(), lambda call: [rows.movement(call.given, call.outputs, reads_part=True)]
    ),
    "Gather": lambda call: [rows.gather(call.given, call.outputs)],
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv"), _convolution),
    "ConvTranspose": _transposed,
    "DeformConv": _deformed,
    "Gemm": _gemm,
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _product),
    "Einsum": _einsum,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    "Attention": _attention,
}
"""The rule of each operation by type, after its domain if that is not the standard's."""
