"""What deepq is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="deepq",
    title="deep Q-network (Mnih et al. 2015)",
    datasets={"atari": "fathom.deepq.atari:Atari"},
    criteria=Criteria(
        year=2013,
        styles=("convolutional", "fully-connected"),
        layers=5,
        task="reinforcement",
        domain="function approximation",
        dataset="Atari ALE",
        legacy="DeepMind's player of Atari games, better than people at most of them, from "
        "pixels alone.",
    ),
    parameters=1_687_206,
    macs=9_346_048,
    inputs={"state": ((84, 84, 4), "uint8")},
    labels={
        "action": ((), "int32"),
        "reward": ((), "float32"),
        "next_state": ((84, 84, 4), "uint8"),
        "terminal": ((), "bool"),
    },
    outputs=((6,),),
    small={
        "batch_size": 4,
        "network": 2013,
        "replay_size": 200,
        "learning_starts": 100,
        "initial_exploration": 1.0,  # so that the hook sees learning steps alone
        "final_exploration": 1.0,
        "target_update": 2,
        "evaluation_episodes": 1,
        "save_replay": True,
    },
    size="replay_size",
    soon={"learning_starts": 1000},
    overfit={"target_update": 10_000, "learning_rate": 0.001},
)
