"""What autoenc is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="autoenc",
    title="variational autoencoder (Kingma and Welling 2013)",
    datasets={"mnist": "fathom.autoenc.mnist:Mnist"},
    criteria=Criteria(
        year=2014,
        styles=("fully-connected",),
        layers=3,
        task="unsupervised",
        domain="vision",
        dataset="MNIST",
        legacy="The variational autoencoder: an efficient generative model that learns features.",
    ),
    parameters=815_824,
    macs=814_000,
    inputs={"x": ((784,), "float32")},
    labels={},
    outputs=((784,), (20,), (20,)),
    small={"batch_size": 20, "hidden_units": 50, "latents": 5, "steps_per_call": 1},
    size="hidden_units",
    overfit={"learning_rate": 0.01},
)
