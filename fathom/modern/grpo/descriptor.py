"""What grpo is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="grpo",
    title="group relative policy optimisation (Shao et al. 2024)",
    datasets={"sums": "fathom.modern.grpo.sums:Sums"},
    criteria=Criteria(
        year=2024,
        styles=("attention", "fully-connected"),
        layers=30,
        task="reinforcement",
        domain="language modeling",
        dataset="sums",
        legacy="DeepSeek's way to reasoning models: a language model learns from answers that it "
        "samples itself and a rule judges, without a second network to value them.",
    ),
    parameters=92_608,
    macs=940_160,
    inputs={"tokens": ((10,), "int32")},
    labels={
        "next": ((10,), "int32"),
        "sampled": ((), "bool"),
        "advantage": ((), "float32"),
        "old": ((10,), "float32"),
        "reference": ((10,), "float32"),
    },
    outputs=((10, 13),),
    small={
        "batch_size": 4,
        "group": 2,
        "supervised_steps": 8,
        "layers": 2,
        "heads": 4,
        "kv_heads": 2,
        "width": 16,
        "hidden_units": 24,
    },
    size="hidden_units",
    soon={"group": 2},
    overfit={"supervised_steps": 100, "supervised_rate": 0.01, "warmup": 0},
)
