"""What the conformance suite expects of gpt."""

from fathom.testing.descriptors import Descriptor

DESCRIPTOR = Descriptor(
    name="gpt",
    parameters=805_248,  # with the 29 characters of the synthetic text
    macs=0,
    inputs={"tokens": ((64,), "int32")},
    labels={"next": ((64,), "int32")},
    outputs=((64, 29),),
    small={"batch_size": 4, "layers": 2, "heads": 2, "width": 16, "context": 16},
    size="layers",
    overfit={"learning_rate": 0.01, "warmup": 0},
)
