"""What llama is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="llama",
    title="language model Llama (Touvron et al. 2023, Grattafiori et al. 2024)",
    datasets={"tinyshakespeare": "fathom.shared.language.text:TinyShakespeare"},
    criteria=Criteria(
        year=2023,
        styles=("attention", "fully-connected"),
        layers=32,
        task="unsupervised",
        domain="language modeling",
        dataset="tiny Shakespeare",
        legacy="Meta's open weights: grouped queries keep the cache small, and its block - rotary "
        "positions, RMSNorm, SwiGLU - is that of nearly every language model since.",
    ),
    parameters=1_096_064,  # with the 27 characters of the synthetic text
    macs=164_806_656,
    inputs={"tokens": ((128,), "int32")},
    labels={"next": ((128,), "int32")},
    outputs=((128, 27),),
    small={
        "batch_size": 4,
        "layers": 2,
        "heads": 4,
        "kv_heads": 2,
        "width": 16,
        "hidden_units": 24,
        "context": 16,
    },
    size="hidden_units",
    weights="https://huggingface.co/meta-llama, after its licence is accepted",
    overfit={"learning_rate": 0.01, "warmup": 0},
)
