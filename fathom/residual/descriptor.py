"""What residual is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="residual",
    title="ResNet-34 (He et al. 2015)",
    datasets={"imagenet": "fathom.imagenet.ilsvrc:ImageNet"},
    criteria=Criteria(
        year=2015,
        styles=("convolutional",),
        layers=34,
        task="supervised",
        domain="vision",
        dataset="ImageNet",
        legacy="Microsoft's image classifier, first of ILSVRC 2015: convolutional networks many "
        "times as deep as before.",
    ),
    parameters=21_797_672,
    macs=3_663_761_408,
    inputs={"images": ((224, 224, 3), "float32")},
    labels={"labels": ((), "int32")},
    outputs=((1000,),),
    small={
        "batch_size": 4,
        "image_size": 64,
        "smallest_side": 72,
        "largest_side": 80,
        "evaluation_side": 72,
        "base_filters": 4,
        "classes": 10,
        "learning_rate": 1e-4,  # so that rounding does not decide what the first steps do
    },
    size="base_filters",
    overfit={"learning_rate": 0.01},
    few_layers={"BLOCKS": (1, 1, 1, 1)},
)
