"""What mamba is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="mamba",
    title="selective state-space model Mamba (Gu and Dao 2023)",
    datasets={
        "tinyshakespeare": "fathom.shared.language.text:TinyShakespeare",
        "induction": "fathom.modern.mamba.induction:Induction",
    },
    criteria=Criteria(
        year=2023,
        styles=("recurrent", "fully-connected"),
        layers=24,
        task="unsupervised",
        domain="language modeling",
        dataset="tiny Shakespeare",
        legacy="Language models without attention: a linear recurrence whose factors depend on the "
        "token, with a state of constant size, which later models put beside attention.",
    ),
    parameters=936_448,  # with the 27 characters of the synthetic text
    macs=113_688_576,
    inputs={"tokens": ((128,), "int32")},
    labels={"next": ((128,), "int32")},
    outputs=((128, 27),),
    small={"batch_size": 4, "layers": 2, "width": 16, "context": 16},
    size="width",
    weights="https://huggingface.co/state-spaces/mamba-130m-hf",
    overfit={"learning_rate": 0.01, "warmup": 0},
)
