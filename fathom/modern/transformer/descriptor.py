"""What transformer is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="transformer",
    title="transformer (Vaswani et al. 2017)",
    datasets={
        "multi30k": "fathom.shared.translation.multi30k:Multi30k",
        "wmt": "fathom.shared.translation.wmt:Wmt",
    },
    criteria=Criteria(
        year=2017,
        styles=("attention", "fully-connected"),
        layers=12,
        task="supervised",
        domain="language modeling",
        dataset="WMT-15",
        legacy="Translation by attention without recurrence: all words of a sentence at once.",
    ),
    parameters=2_342_912,
    macs=162_004_992,  # of 64 source and 64 target subwords
    inputs={"source": ((None,), "int32"), "target": ((None,), "int32")},
    labels={"words": ((None,), "int32")},
    outputs=((None, 128),),
    small={
        "batch_size": 20,
        "layers": 1,
        "width": 16,
        "heads": 2,
        "hidden_units": 32,
        "vocabulary": 100,
        "lengths": "24",
        "beam_size": 2,
    },
    size="hidden_units",
    soon={"lengths": "64"},  # one shape to compile
    overfit={"dropout": 0.0, "label_smoothing": 0.0, "learning_rate": 0.02, "warmup_steps": 10},
)
