"""What the conformance suite expects of dlrm."""

from fathom.testing.descriptors import Descriptor

DESCRIPTOR = Descriptor(
    name="dlrm",
    parameters=26 * 10_000 * 16 + 475_985,
    macs=486_032,
    inputs={"numbers": ((13,), "float32"), "rows": ((26,), "int32")},
    labels={"clicked": ((), "int32")},
    outputs=((),),
    small={"batch_size": 60, "rows": 50},
    size="rows",
    overfit={"batch_size": 4, "learning_rate": 0.15},
)
