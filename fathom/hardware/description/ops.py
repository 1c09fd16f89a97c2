"""Maps today's op types to the types and classes of the Fathom paper's figure 3.

TensorFlow has renamed, versioned and fused its ops since the paper: ``AddV2`` is its ``Add``,
oneDNN's ``_MklNativeFusedConv2D`` its ``Conv2D``. A fused op counts as its most expensive part: a
convolution or a matrix product with bias and activation is a convolution or a matrix product. A
type that the paper does not name keeps its name without version and library, in a class of our
choice. A type missing from this table keeps its raw name and has no class.
"""

import re

CLASSES = {
    "A": "Elementwise Arithmetic",
    "B": "Matrix Operations",
    "C": "Reduction and Expansion",
    "D": "Convolution",
    "E": "Random Sampling",
    "F": "Optimization",
    "G": "Data Movement",
}

# Types by class: first the paper's, then the others.
_TYPES_OF_CLASS = {
    "A": """
        Add Sub Mul Div Pow
        Abs AddN Atan2 BiasAdd BitwiseAnd BitwiseOr BitwiseXor Ceil ClipByValue Cos DivNoNan Elu
        EluGrad Equal Erf Erfc Exp Expm1 Floor FloorDiv FloorMod Greater GreaterEqual IsFinite
        LeakyRelu LeakyReluGrad LeftShift Less LessEqual Log Log1p LogicalAnd LogicalNot LogicalOr
        Maximum Minimum MulNoNan Neg NotEqual Reciprocal Relu Relu6 Relu6Grad ReluGrad RightShift
        Round Rsqrt RsqrtGrad Sigmoid SigmoidGrad Sign Sin Softplus SoftplusGrad Softsign Sqrt
        SqrtGrad Square SquaredDifference Swish Tanh TanhGrad UnaryOpsComposition Xdivy Xlogy
        """,
    "B": """
        Softmax MatMul CrossEntropy
        CTCGreedyDecoder CTCLoss LogSoftmax SparseMatrixMatMul SparseTensorDenseMatMul
        """,
    "C": """
        MaxPoolGrad Sum
        All Any ArgMax ArgMin AvgPool AvgPoolGrad BiasAddGrad BroadcastGradientArgs Cumsum
        FusedBatchNorm FusedBatchNormGrad InTopK L2Loss LRN LRNGrad Max MaxPool Mean Min Prod
        SegmentSum TopK Unique UnsortedSegmentSum
        """,
    "D": "Conv2D Conv2DBackFilter Conv2DBackInput",
    "E": """
        RandomNormal
        Multinomial RandomGamma RandomKey RandomShuffle RandomUniform
        """,
    "F": """
        ApplyAdam ApplyRMSProp
        ApplyAdagrad ApplyGradientDescent ApplyMomentum ScatterAdd ScatterSub ScatterUpdate
        """,
    "G": """
        Transpose Tile Select Pad Reshape Shape
        AssignAddVariable AssignSubVariable AssignVariable Bitcast Cast
        CollectiveGather CollectiveReduce Concat ConcatOffset Const
        EmptyTensorList EnsureShape ExpandDims Fill Gather GatherNd Identity IdentityN
        InvertPermutation OneHot OnesLike Pack Range Rank ReadVariable Recv Reverse ReverseSequence
        ScatterNd Send Size Slice Split Squeeze StopGradient StridedSlice StridedSliceGrad
        TensorListElementShape TensorListFromTensor TensorListGetItem TensorListLength
        TensorListPopBack TensorListPushBack TensorListReserve TensorListSetItem TensorListStack
        TensorScatterUpdate Unpack Where ZerosLike
        """,
}

# Types whose names differ by more than a prefix or a version, by the names that they get.
_RENAMED_TO = {
    "Div": "RealDiv",
    "Reciprocal": "Inv",
    "MatMul": """
        BatchMatMul FusedBatchMatMul FusedMatMul Einsum RaggedMatMul RaggedMatMulGrad
        RaggedMatMulInputGrad CudnnRNN CudnnRNNBackprop
        BlockLSTM BlockLSTMGrad LSTMBlockCell LSTMBlockCellGrad
        """,  # the last four: four products and elementwise ops in one kernel
    "CrossEntropy": "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits",
    "MaxPool": "MaxPoolWithArgmax",
    "MaxPoolGrad": "MaxPoolGradWithArgmax",
    "Conv2D": """
        Conv FusedConv FusedConv2D Conv2DWithBias PadWithConv2D PadWithFusedConv2D
        DepthwiseConv2dNative FusedDepthwiseConv2dNative
        """,
    "Conv2DBackFilter": """
        Conv2DBackpropFilter Conv2DBackpropFilterWithBias DepthwiseConv2dNativeBackpropFilter
        """,
    "Conv2DBackInput": "Conv2DBackpropInput DepthwiseConv2dNativeBackpropInput",
    "FusedBatchNorm": "FusedBatchNormEx",
    "FusedBatchNormGrad": "FusedBatchNormGradEx",
    "RandomNormal": """
        RandomStandardNormal TruncatedNormal StatelessRandomNormal StatelessTruncatedNormal
        ParameterizedTruncatedNormal
        """,
    "RandomUniform": """
        RandomUniformInt StatelessRandomUniform StatelessRandomUniformInt
        StatelessRandomUniformFullInt
        """,
    "RandomKey": "StatelessRandomGetKeyCounter",
    "Multinomial": "StatelessMultinomial",
    "ApplyAdam": "ApplyAdamWithAmsgrad",
    "ApplyRMSProp": "ApplyCenteredRMSProp SparseApplyRMSProp SparseApplyCenteredRMSProp",
    "ApplyMomentum": "ApplyKerasMomentum SparseApplyMomentum SparseApplyKerasMomentum",
    "ApplyAdagrad": "SparseApplyAdagrad",
    "Tile": "BroadcastTo",  # the only way to repeat a tensor in the paper's TensorFlow
    "Pad": "MirrorPad",
    "Recv": "HostRecv",
    "Send": "HostSend",
    "Shape": "ShapeN VariableShape",
    "Split": "SplitV",
    "Identity": "SnapshotOp",
    "ReadVariable": "ReadVariableOp",
    "AssignVariable": "AssignVariableOp",
    "AssignAddVariable": "AssignAddVariableOp",
    "AssignSubVariable": "AssignSubVariableOp",
}

_RENAMED = {raw: name for name, types in _RENAMED_TO.items() for raw in types.split()}
_CLASS_OF_TYPE = {
    name: letter for letter, names in _TYPES_OF_CLASS.items() for name in names.split()
}
_LIBRARY = re.compile(r"_(MklNative|MklEager|Mkl)?(?=[A-Z])")
_VERSION = re.compile(r"V\d+$")


def paper_type(raw: str) -> str:
    """Returns the paper's name for an op type, or the type's own if there is none.

    Args:
        raw: the type as TensorFlow's profiler names it, such as ``_MklNativeFusedConv2D``.
    """
    name = _VERSION.sub("", _LIBRARY.sub("", raw, count=1))
    if name.startswith(("ResourceApply", "ResourceSparse", "ResourceScatter", "ResourceGather")):
        name = _VERSION.sub("", name.removeprefix("Resource"))
    name = _RENAMED.get(name, name)
    return name if name in _CLASS_OF_TYPE else raw


def op_class(op_type: str) -> str:
    """Returns the class, ``A`` to ``G``, of a type that ``paper_type`` returned; ``""`` if none."""
    return _CLASS_OF_TYPE.get(op_type, "")
