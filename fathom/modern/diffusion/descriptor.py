"""What diffusion is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="diffusion",
    title="diffusion transformer (Ho et al. 2020, Peebles and Xie 2022)",
    datasets={"mnist": "fathom.autoenc.mnist:Mnist"},
    criteria=Criteria(
        year=2022,
        styles=("attention", "fully-connected"),
        layers=28,
        task="unsupervised",
        domain="vision",
        dataset="MNIST",
        legacy="Images from noise by many passes of one network: the diffusion model and the "
        "transformer that today's generators of images and video are made of.",
    ),
    parameters=1_275_408,
    macs=41_669_632,
    inputs={"images": ((28, 28, 1), "float32"), "classes": ((), "int32")},
    labels={},
    outputs=((28, 28, 1), (28, 28, 1)),
    small={
        "batch_size": 4,
        "layers": 2,
        "heads": 2,
        "width": 16,
        "patch": 7,
        "sampling_steps": 3,
    },
    size="layers",
    overfit={"learning_rate": 0.01, "width": 64, "patch": 4, "batch_size": 16},
    few_layers={"ZERO": 0.1},  # what starts at zero has no gradient to compare
)
