"""What ngp is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

_ENTRIES = 70_852 + 5 * 2**15  # of the eleven dense levels, and of five tables

DESCRIPTOR = Descriptor(
    name="ngp",
    title="multiresolution hash encoding (Mueller et al. 2022)",
    datasets={"images": "fathom.modern.ngp.images:Images"},
    criteria=Criteria(
        year=2022,
        styles=("embedding tables", "fully-connected"),
        layers=3,
        task="supervised",
        domain="function approximation",
        dataset="an image",
        legacy="NVIDIA's instant neural graphics: learned features in hash tables let a tiny "
        "network learn an image or a scene in seconds.",
    ),
    parameters=2 * _ENTRIES + 6_336,
    macs=6_336,
    inputs={"positions": ((2,), "float32")},
    labels={"colours": ((3,), "float32")},
    outputs=((3,),),
    small={"batch_size": 60, "log2_table": 8},
    size="log2_table",
)
