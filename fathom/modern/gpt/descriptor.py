"""What the conformance suite expects of gpt."""

from fathom.testing.descriptors import Descriptor

DESCRIPTOR = Descriptor(
    name="gpt",
    parameters=804_992,  # with the 27 characters of the synthetic text
    macs=54_747_136,
    inputs={"tokens": ((64,), "int32")},
    labels={"next": ((64,), "int32")},
    outputs=((64, 27),),
    small={"batch_size": 4, "layers": 2, "heads": 2, "width": 16, "context": 16},
    size="context",
    overfit={"learning_rate": 0.01, "warmup": 0},
)
