"""What vgg is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="vgg",
    title="VGG-19 (Simonyan & Zisserman 2014)",
    datasets={"imagenet": "fathom.imagenet.ilsvrc:ImageNet"},
    criteria=Criteria(
        year=2014,
        styles=("convolutional", "fully-connected"),
        layers=19,
        task="supervised",
        domain="vision",
        dataset="ImageNet",
        legacy="Image classifier, first of ILSVRC 2014 in localization: the power of small "
        "filters.",
    ),
    parameters=143_667_240,
    macs=19_632_062_464,
    inputs={"images": ((224, 224, 3), "float32")},
    labels={"labels": ((), "int32")},
    outputs=((1000,),),
    small={
        "batch_size": 4,
        "image_size": 32,
        "smallest_side": 36,
        "largest_side": 40,
        "evaluation_side": 36,
        "base_filters": 8,
        "hidden_units": 64,
        "classes": 10,
    },
    size="hidden_units",
    overfit={
        "dropout": 0.0,
        "batch_size": 1,  # 19 layers without batch normalisation take longer for more
        "base_filters": 16,
        "learning_rate": 0.005,
        "momentum": 0.8,
    },
    few_layers={"CONFIGURATION_E": ((1, 1), (2, 1), (4, 1), (8, 1), (8, 1))},
)
