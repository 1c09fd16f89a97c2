"""What alexnet is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="alexnet",
    title="AlexNet (Krizhevsky et al. 2012)",
    datasets={"imagenet": "fathom.imagenet.ilsvrc:ImageNet"},
    criteria=Criteria(
        year=2012,
        styles=("convolutional", "fully-connected"),
        layers=5,
        task="supervised",
        domain="vision",
        dataset="ImageNet",
        legacy="Image classifier, first of ILSVRC 2012 and the watershed of deep learning.",
    ),
    parameters=60_965_224,
    macs=724_406_816,
    inputs={"images": ((227, 227, 3), "float32")},
    labels={"labels": ((), "int32")},
    outputs=((1000,),),
    small={
        "batch_size": 4,
        "image_size": 67,
        "smallest_side": 76,
        "largest_side": 76,
        "evaluation_side": 76,
        "hidden_units": 64,
        "classes": 10,
    },
    size="hidden_units",
    overfit={"initial_stddev": 0.04, "dropout": 0.0, "learning_rate": 0.001, "batch_size": 1},
)
