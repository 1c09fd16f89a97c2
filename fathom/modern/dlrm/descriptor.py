"""What dlrm is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="dlrm",
    title="recommendation model (Naumov et al. 2019)",
    datasets={"criteo": "fathom.modern.dlrm.criteo:Criteo"},
    criteria=Criteria(
        year=2019,
        styles=("embedding tables", "fully-connected"),
        layers=7,
        task="supervised",
        domain="recommendation",
        dataset="Criteo",
        legacy="Facebook's recommendation model, the benchmark of its kind: huge tables of which "
        "an example reads a few rows.",
    ),
    parameters=26 * 10_000 * 16 + 475_985,
    macs=486_032,
    inputs={"numbers": ((13,), "float32"), "rows": ((26,), "int32")},
    labels={"clicked": ((), "int32")},
    outputs=((),),
    small={"batch_size": 60, "rows": 50},
    size="rows",
    overfit={"batch_size": 4, "learning_rate": 0.15},
)
