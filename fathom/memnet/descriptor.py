"""What memnet is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="memnet",
    title="end-to-end memory network (Sukhbaatar, Szlam, Weston and Fergus 2015)",
    datasets={"babi": "fathom.memnet.babi:Babi"},
    criteria=Criteria(
        year=2015,
        styles=("memory network",),
        layers=3,
        task="supervised",
        domain="language modeling",
        dataset="bAbI",
        legacy="Facebook's network with an explicit memory: a topology beyond layers that feed "
        "forward.",
    ),
    parameters=5_520,  # with the 19 words of the synthetic task 1
    macs=6_380,
    inputs={"story": ((50, 6), "int32"), "question": ((6,), "int32")},
    labels={"answer": ((), "int32")},
    outputs=((19,),),
    small={"batch_size": 20, "hops": 1, "embedding": 8, "memory": 10, "steps_per_call": 1},
    size="embedding",
    overfit={"learning_rate": 0.05, "linear_start": False, "random_noise": 0.0},
)
