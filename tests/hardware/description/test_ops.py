import csv
from pathlib import Path

import pytest

from fathom.hardware.description import ops
from fathom.measure.report import published

PUBLISHED = Path(published.__file__).parent

TODAY = {
    "AddV2": "Add",
    "RealDiv": "Div",
    "_MklNativeFusedMatMul": "MatMul",
    "_MklMatMul": "MatMul",
    "_FusedMatMul": "MatMul",
    "BatchMatMulV2": "MatMul",
    "BlockLSTMV2": "MatMul",
    "BlockLSTMGradV2": "MatMul",
    "SparseSoftmaxCrossEntropyWithLogits": "CrossEntropy",
    "_MklNativeFusedConv2D": "Conv2D",
    "_FusedConv2D": "Conv2D",
    "_MklNativeConv2DWithBias": "Conv2D",
    "_UnaryOpsComposition": "UnaryOpsComposition",
    "_MklSwish": "Swish",
    "VariableShape": "Shape",
    "_MklNativeConv2DBackpropFilterWithBias": "Conv2DBackFilter",
    "_MklNativeConv2DBackpropInput": "Conv2DBackInput",
    "_MklNativeMaxPoolGrad": "MaxPoolGrad",
    "StatelessRandomNormalV2": "RandomNormal",
    "ResourceApplyAdam": "ApplyAdam",
    "ResourceApplyCenteredRMSProp": "ApplyRMSProp",
    "ResourceSparseApplyAdagradV2": "ApplyAdagrad",
    "ResourceApplyKerasMomentum": "ApplyMomentum",
    "_MklNativeFusedBatchNormEx": "FusedBatchNorm",
    "FusedBatchNormGradV3": "FusedBatchNormGrad",
    "SelectV2": "Select",
    "PadV2": "Pad",
    "BroadcastTo": "Tile",
    "GatherV2": "Gather",
    "ResourceGather": "Gather",
    "ReadVariableOp": "ReadVariable",
    "CTCLossV2": "CTCLoss",
    "LRNGrad": "LRNGrad",
}


@pytest.mark.parametrize("raw", TODAY)
def test_todays_name_becomes_the_papers_and_has_a_class(raw):
    assert ops.paper_type(raw) == TODAY[raw]
    assert ops.op_class(TODAY[raw]) in ops.CLASSES


@pytest.mark.parametrize("raw", ["Mystery", "_MklMysteryV2", "PartitionedCall", "_Sender", ""])
def test_an_unknown_op_keeps_its_own_name_and_has_no_class(raw):
    assert ops.paper_type(raw) == raw
    assert ops.op_class(raw) == ""


@pytest.mark.parametrize("name", published.breakdown().columns)
def test_a_name_of_the_paper_stays_as_it_is(name):
    assert ops.paper_type(name) == name


def test_every_renamed_op_has_a_class():
    for raw in ops._RENAMED:
        assert ops.op_class(ops.paper_type(raw)), raw


def test_no_type_is_in_two_classes():
    names = [name for types in ops._TYPES_OF_CLASS.values() for name in types.split()]
    assert sorted(names) == sorted(set(names))


def test_classes_are_those_of_the_papers_figure():
    with (PUBLISHED / "op_classes.csv").open() as file:
        for row in csv.DictReader(file):
            assert ops.CLASSES[row["class"]] == row["name"]
            for name in row["paper_op_types"].split(";"):
                assert ops.op_class(name) == row["class"]
