"""What moe is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="moe",
    title="mixture of experts Mixtral (Fedus et al. 2021, Jiang et al. 2024)",
    datasets={"tinyshakespeare": "fathom.shared.language.text:TinyShakespeare"},
    criteria=Criteria(
        year=2024,
        styles=("attention", "fully-connected"),
        layers=32,
        task="unsupervised",
        domain="language modeling",
        dataset="tiny Shakespeare",
        legacy="Parameters without their work: a router sends each token to a few of many experts, "
        "as in Switch Transformers before it and in most of the largest models since.",
    ),
    parameters=3_479_936,  # with the 27 characters of the synthetic text
    macs=165_593_088,
    inputs={"tokens": ((128,), "int32")},
    labels={"next": ((128,), "int32")},
    outputs=((128, 27), (128, 6, 8)),
    small={
        "batch_size": 4,
        "layers": 2,
        "heads": 4,
        "kv_heads": 2,
        "width": 16,
        "hidden_units": 24,
        "context": 16,
        "experts": 4,
    },
    size="hidden_units",
    weights="https://huggingface.co/mistralai/Mixtral-8x7B-v0.1",
    overfit={"learning_rate": 0.01, "warmup": 0},
)
