"""``fathom list``: the eight workloads, from facts that need neither TensorFlow nor a network."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from fathom.data.dataset import DataSet, choose, find


@dataclass(frozen=True)
class Entry:
    """A workload as it is by default; tests compare it with the built network.

    Attributes:
        title: of its class.
        parameters: trainable values.
        forward_macs: multiply-accumulates of the forward pass per example.
        datasets: those of its class, or stand-ins where the reader needs TensorFlow.
    """

    title: str
    parameters: int
    forward_macs: int
    datasets: tuple[type[DataSet], ...]


def entries() -> dict[str, Entry]:
    """Returns the eight workloads by name, in the papers' order."""
    from fathom.autoenc.mnist import Mnist
    from fathom.deepq.atari import Atari
    from fathom.memnet.babi import Babi
    from fathom.seq2seq.multi30k import Multi30k
    from fathom.seq2seq.wmt import Wmt

    imagenet, timit = _stand_in("imagenet"), _stand_in("timit")
    return {
        "seq2seq": Entry(
            "sequence to sequence with attention (Sutskever et al. 2014, Bahdanau et al. 2015)",
            *(34_436_416, 339_814_400, (Wmt, Multi30k)),
        ),
        "memnet": Entry(
            "end-to-end memory network (Sukhbaatar, Szlam, Weston and Fergus 2015)",
            *(5_520, 6_380, (Babi,)),
        ),
        "speech": Entry("Deep Speech (Hannun et al. 2014)", 26_314_814, 7_891_353_600, (timit,)),
        "autoenc": Entry(
            "variational autoencoder (Kingma and Welling 2013)", 815_824, 814_000, (Mnist,)
        ),
        "residual": Entry("ResNet-34 (He et al. 2015)", 21_797_672, 3_663_761_408, (imagenet,)),
        "vgg": Entry(
            "VGG-19 (Simonyan & Zisserman 2014)", 143_667_240, 19_632_062_464, (imagenet,)
        ),
        "alexnet": Entry("AlexNet (Krizhevsky et al. 2012)", 60_965_224, 724_406_816, (imagenet,)),
        "deepq": Entry("deep Q-network (Mnih et al. 2015)", 1_687_206, 9_346_048, (Atari,)),
    }


def show(screen: Console) -> None:
    """Prints the eight workloads, and where the data of each comes from now."""
    table = Table(box=None, header_style="bold")
    for title in ("workload", "network", "parameters", "MACs/example", "data set", "data now"):
        table.add_column(
            title, justify="right" if title in ("parameters", "MACs/example") else "left"
        )
    for row in rows():
        table.add_row(*row)
    screen.print(table)


def rows() -> Iterator[tuple[str, ...]]:
    """Yields the rows of the table."""
    for name, entry in entries().items():
        dataset = choose(entry.datasets, None, None)
        counts = f"{entry.parameters:,}", f"{entry.forward_macs:,}"
        yield name, entry.title, *counts, dataset.name, find(dataset, None, seed=0).kind


def _stand_in(name: str) -> type[DataSet]:
    """Returns a data set of this name that has no download and no reader."""
    return type(name, (DataSet,), {"name": name})
