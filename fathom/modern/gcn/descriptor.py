"""What gcn is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="gcn",
    title="graph convolutional network (Kipf and Welling 2017)",
    datasets={
        "cora": "fathom.modern.gcn.cora:Cora",
        "powerlaw": "fathom.modern.gcn.cora:PowerLaw",
    },
    criteria=Criteria(
        year=2017,
        styles=("graph convolution",),
        layers=2,
        task="semi-supervised",
        domain="graphs",
        dataset="Cora",
        legacy="Convolution on graphs as one product with a sparse matrix, from which today's "
        "graph networks come.",
    ),
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
