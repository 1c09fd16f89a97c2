"""What the Fathom paper chooses workloads by, as data: the columns of its Tables I and II.

The rows of the eight are those of Table II; their application domains are ours, since Table I marks
the suite as a whole. A registered workload brings a row of its own, as the class attribute
``criteria``.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Style: TypeAlias = Literal[
    "fully-connected",
    "convolutional",
    "recurrent",
    "memory network",  # Table II alone
    "attention",  # from here on not in the paper
    "embedding tables",
    "graph convolution",
]
Task: TypeAlias = Literal["supervised", "unsupervised", "reinforcement", "semi-supervised"]
Domain: TypeAlias = Literal[
    "vision", "speech", "language modeling", "function approximation", "recommendation", "graphs"
]
STYLES: tuple[Style, ...] = get_args(Style)
TASKS: tuple[Task, ...] = get_args(Task)
DOMAINS: tuple[Domain, ...] = get_args(Domain)


@dataclass(frozen=True)
class Criteria:
    """One row of Table II, with the workload's application domain of Table I.

    Attributes:
        year: of the publication.
        styles: neuronal styles, by type of layer.
        layers: as the paper counts them.
        task: learning task.
        domain: application domain.
        dataset: human-readable name.
        legacy: purpose and legacy: what it is, and what it has changed.
    """

    year: int
    styles: tuple[Style, ...]
    layers: int
    task: Task
    domain: Domain
    dataset: str
    legacy: str


SUITE = {
    "seq2seq": Criteria(
        *(2014, ("recurrent",), 7, "supervised", "language modeling", "WMT-15"),
        "Sentence translation directly from language to language: state of the art with a simple "
        "architecture that knows nothing of either.",
    ),
    "memnet": Criteria(
        *(2015, ("memory network",), 3, "supervised", "language modeling", "bAbI"),
        "Facebook's network with an explicit memory: a topology beyond layers that feed forward.",
    ),
    "speech": Criteria(
        *(2014, ("recurrent", "fully-connected"), 5, "supervised", "speech", "TIMIT"),
        "Baidu's speech recognition: learned networks alone can beat hand-tuned systems.",
    ),
    "autoenc": Criteria(
        *(2014, ("fully-connected",), 3, "unsupervised", "vision", "MNIST"),
        "The variational autoencoder: an efficient generative model that learns features.",
    ),
    "residual": Criteria(
        *(2015, ("convolutional",), 34, "supervised", "vision", "ImageNet"),
        "Microsoft's image classifier, first of ILSVRC 2015: convolutional networks many times as "
        "deep as before.",
    ),
    "vgg": Criteria(
        *(2014, ("convolutional", "fully-connected"), 19, "supervised", "vision", "ImageNet"),
        "Image classifier, first of ILSVRC 2014 in localization: the power of small filters.",
    ),
    "alexnet": Criteria(
        *(2012, ("convolutional", "fully-connected"), 5, "supervised", "vision", "ImageNet"),
        "Image classifier, first of ILSVRC 2012 and the watershed of deep learning.",
    ),
    "deepq": Criteria(
        *(2013, ("convolutional", "fully-connected"), 5, "reinforcement"),
        *("function approximation", "Atari ALE"),
        "DeepMind's player of Atari games, better than people at most of them, from pixels alone.",
    ),
    "dlrm": Criteria(
        *(2019, ("embedding tables", "fully-connected"), 7, "supervised"),
        *("recommendation", "Criteo"),
        "Facebook's recommendation model, the benchmark of its kind: huge tables of which an "
        "example reads a few rows.",
    ),
    "gcn": Criteria(
        *(2017, ("graph convolution",), 2, "semi-supervised", "graphs", "Cora"),
        "Convolution on graphs as one product with a sparse matrix, from which today's graph "
        "networks come.",
    ),
    "gpt": Criteria(
        *(2019, ("attention", "fully-connected"), 12, "unsupervised"),
        *("language modeling", "tiny Shakespeare"),
        "OpenAI's GPT-2: a language model alone does many tasks; every large language model has "
        "its form, and its two phases of inference.",
    ),
    "transformer": Criteria(
        *(2017, ("attention", "fully-connected"), 12, "supervised", "language modeling", "WMT-15"),
        "Translation by attention without recurrence: all words of a sentence at once.",
    ),
}
