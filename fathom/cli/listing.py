"""``fathom list``: the workloads.

Those of the suite come from facts that need neither TensorFlow nor a network; those that other
packages register are imported and built.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from fathom import workloads
from fathom.cli.terminal import import_tensorflow
from fathom.data.dataset import DataSet, choose, find
from fathom.errors import cause


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
    """Returns the suite's workloads by name: the eight in the papers' order, then today's."""
    from fathom.autoenc.mnist import Mnist
    from fathom.deepq.atari import Atari
    from fathom.memnet.babi import Babi
    from fathom.modern.dlrm.criteo import Criteo
    from fathom.modern.gcn.cora import Cora, PowerLaw
    from fathom.modern.gpt.text import TinyShakespeare
    from fathom.translation.multi30k import Multi30k
    from fathom.translation.wmt import Wmt

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
        "speech": Entry("Deep Speech (Hannun et al. 2014)", 26_314_814, 3_945_676_800, (timit,)),
        "autoenc": Entry(
            "variational autoencoder (Kingma and Welling 2013)", 815_824, 814_000, (Mnist,)
        ),
        "residual": Entry("ResNet-34 (He et al. 2015)", 21_797_672, 3_663_761_408, (imagenet,)),
        "vgg": Entry(
            "VGG-19 (Simonyan & Zisserman 2014)", 143_667_240, 19_632_062_464, (imagenet,)
        ),
        "alexnet": Entry("AlexNet (Krizhevsky et al. 2012)", 60_965_224, 724_406_816, (imagenet,)),
        "deepq": Entry("deep Q-network (Mnih et al. 2015)", 1_687_206, 9_346_048, (Atari,)),
        "dlrm": Entry("recommendation model (Naumov et al. 2019)", 4_635_985, 486_032, (Criteo,)),
        "gcn": Entry(
            "graph convolutional network (Kipf and Welling 2017)", 23_040, 524, (Cora, PowerLaw)
        ),
        "gpt": Entry(
            "language model GPT-2 (Radford et al. 2019)",
            *(804_992, 52_704_256, (TinyShakespeare,)),  # with the 27 characters of synthetic text
        ),
        "transformer": Entry(
            "transformer (Vaswani et al. 2017)", 2_342_912, 1_006_632_960, (Multi30k, Wmt)
        ),
    }


def show(screen: Console) -> None:
    """Prints the workloads, and the reason for each registered one that cannot be used."""
    table = Table(box=None, header_style="bold")
    for title in ("workload", "network", "parameters", "MACs/example", "data set", "data now"):
        table.add_column(
            title, justify="right" if title in ("parameters", "MACs/example") else "left"
        )
    known, broken = entries(), workloads.refused()
    for name in workloads.names():
        try:
            table.add_row(*_row(name, known.get(name) or _entry_of(name)))
        except Exception as error:  # whatever a package may raise
            if name in known:
                raise
            broken = broken | {name: cause(error) or type(error).__name__}
    screen.print(table)
    for name, reason in broken.items():
        screen.print(f"{name}: {reason}")


def _row(name: str, entry: Entry) -> tuple[str, ...]:
    dataset = choose(entry.datasets, None, None)
    counts = f"{entry.parameters:,}", f"{entry.forward_macs:,}"
    return name, entry.title, *counts, dataset.name, find(dataset, None, seed=0).kind


def _entry_of(name: str) -> Entry:
    """Builds a registered workload, with data in a temporary cache, to count it."""
    import_tensorflow()
    model = workloads.load(name, forward_only=True)("/cpu:0")
    with _scratch_cache():
        model.build()
    cost = model.cost()
    return Entry(model.title, cost.parameters, cost.forward_macs, model.datasets)


@contextlib.contextmanager
def _scratch_cache() -> Iterator[None]:
    before = os.environ.get("FATHOM_CACHE_DIR")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["FATHOM_CACHE_DIR"] = scratch
        try:
            yield
        finally:
            os.environ.pop("FATHOM_CACHE_DIR")
            os.environ.update({"FATHOM_CACHE_DIR": before} if before is not None else {})


def _stand_in(name: str) -> type[DataSet]:
    """Returns a data set of this name that has no download and no reader."""
    return type(name, (DataSet,), {"name": name})
