"""What seq2seq is, and what the conformance suite expects of it."""

from fathom.model.descriptor import Criteria, Descriptor

DESCRIPTOR = Descriptor(
    name="seq2seq",
    title="sequence to sequence with attention (Sutskever et al. 2014, Bahdanau et al. 2015)",
    datasets={
        "wmt": "fathom.shared.translation.wmt:Wmt",
        "multi30k": "fathom.shared.translation.multi30k:Multi30k",
    },
    criteria=Criteria(
        year=2014,
        styles=("recurrent",),
        layers=7,
        task="supervised",
        domain="language modeling",
        dataset="WMT-15",
        legacy="Sentence translation directly from language to language: state of the art with a "
        "simple architecture that knows nothing of either.",
    ),
    parameters=34_436_416,
    macs=87_097_600,
    inputs={"source": ((None,), "int32"), "target": ((None,), "int32")},
    labels={"words": ((None,), "int32")},
    outputs=((None, 256),),
    small={
        "batch_size": 20,
        "units": 16,
        "layers": 2,
        "source_vocabulary": 80,
        "target_vocabulary": 80,
        "samples": 20,
        "buckets": "8-9 16-18",
        "initial_range": 0.5,  # with so few units the gradients of 0.08 are next to nothing
    },
    macs_tolerance=0.05,  # the true word's score is a sum of elementwise products
    products_of_loss=True,  # the true word's scores and the samples'
    size="units",
    overfit={"samples": 0, "optimizer": "adam", "learning_rate": 0.02},
)
