"""What the conformance suite expects of the newcomer workload: ``python -m fathom.testing``."""

from fathom.testing.descriptors import Descriptor

DESCRIPTOR = Descriptor(
    name="newcomer",
    parameters=1_251,
    macs=1_184,
    inputs={"points": ((2,), "float32")},
    labels={"classes": ((), "int32")},
    outputs=((3,),),
    small={"batch_size": 20, "hidden_units": 8},
    size="hidden_units",
    overfit={"learning_rate": 0.1},
)
