"""What the newcomer workload is, and what ``python -m fathom.testing newcomer`` expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="newcomer",
    title="classifier of points on spirals",
    datasets={"newcomer_points": "fathom_newcomer.points:Points"},
    criteria=Criteria(  # of fathom list --criteria
        year=2026,
        styles=("fully-connected",),
        layers=3,
        task="supervised",
        domain="function approximation",
        dataset="spirals",
        legacy="A start from which to make a workload of your own.",
    ),
    parameters=1_251,
    macs=1_184,
    inputs={"points": ((2,), "float32")},
    labels={"classes": ((), "int32")},
    outputs=((3,),),
    small={"batch_size": 20, "hidden_units": 8},
    size="hidden_units",
    overfit={"learning_rate": 0.1},
)
