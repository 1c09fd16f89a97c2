"""What gpt is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="gpt",
    title="language model GPT-2 (Radford et al. 2019)",
    datasets={"tinyshakespeare": "fathom.shared.language.text:TinyShakespeare"},
    criteria=Criteria(
        year=2019,
        styles=("attention", "fully-connected"),
        layers=12,
        task="unsupervised",
        domain="language modeling",
        dataset="tiny Shakespeare",
        legacy="OpenAI's GPT-2: a language model alone does many tasks; every large language "
        "model has its form, and its two phases of inference.",
    ),
    parameters=804_992,  # with the 27 characters of the synthetic text
    macs=54_747_136,
    inputs={"tokens": ((64,), "int32")},
    labels={"next": ((64,), "int32")},
    outputs=((64, 27),),
    small={"batch_size": 4, "layers": 2, "heads": 2, "width": 16, "context": 16},
    size="context",
    weights="https://huggingface.co/openai-community/gpt2",
    overfit={"learning_rate": 0.01, "warmup": 0},
)
