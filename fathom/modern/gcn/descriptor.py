"""What the conformance suite expects of gcn."""

from fathom.testing.descriptors import Descriptor

DESCRIPTOR = Descriptor(
    name="gcn",
    parameters=23_040,
    macs=524,  # of a node, in the synthetic graph
    inputs={"nodes": ((), "int32")},
    labels={"classes": ((), "int32")},
    outputs=((7,),),
    small={"batch_size": 20, "hidden_units": 4},
    size="hidden_units",
    work=2_708 / 20,  # each step computes the whole graph
    macs_tolerance=0.02,  # those of a node are rounded
    overfit={"learning_rate": 0.1, "dropout": 0.0, "patience": 0},
)
