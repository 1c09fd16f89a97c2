"""What speech is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="speech",
    title="Deep Speech (Hannun et al. 2014)",
    datasets={"timit": "fathom.speech.timit:Timit"},
    criteria=Criteria(
        year=2014,
        styles=("recurrent", "fully-connected"),
        layers=5,
        task="supervised",
        domain="speech",
        dataset="TIMIT",
        legacy="Baidu's speech recognition: learned networks alone can beat hand-tuned systems.",
    ),
    parameters=26_314_814,
    macs=3_945_676_800,
    inputs={"features": ((None, 26), "float32"), "lengths": ((), "int32")},
    labels={"phones": ((None,), "int32"), "phone_counts": ((), "int32")},
    outputs=((None, 62),),
    small={
        "batch_size": 4,
        "units": 16,
        "learning_rate": 1e-6,  # so that rounding does not decide what the first steps do
    },
    macs_tolerance=0.05,  # the gradient of the product with a state of zeros is left out
    size="units",
    overfit={"dropout": 0.0, "learning_rate": 3e-4},
)
