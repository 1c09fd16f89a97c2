import pytest

from fathom import workloads
from fathom.errors import FathomError
from fathom.model import depth, steps
from fathom.results.description import Description, Operation

DEPTH = 40


def operation(name, layer, elements, phase="forward"):
    return Operation(
        name=name,
        type="Add",
        layer=layer,
        phase=phase,
        kind="elementwise",
        dtype="float32",
        bounds={"elements": elements},
        repeats=1,
        macs=0,
        flops=elements,
        input_bytes=4 * elements,
        weight_bytes=0,
        output_bytes=4 * elements,
    )


def network(blocks, sizes=None):
    """Describes blocks of two operations, their gradients in reverse, and a sum over all."""
    sizes = sizes or [7] * blocks
    rows = [operation("first", "input", 3)]
    for i in range(blocks):
        rows.append(operation(f"block{i + 1}/add", f"block{i + 1}", sizes[i]))
        rows.append(operation(f"Add_{2 * i + 1}", f"block{i + 1}", 5))
    rows.append(operation("loss", "loss", 1))
    for i in reversed(range(blocks)):
        rows.append(operation(f"grad/block{i + 1}/add", f"block{i + 1}", sizes[i]))
    rows.append(operation("norm", "optimizer", blocks, "update"))
    return Description(
        workload="gpt",
        mode="train",
        batch_size=1,
        precision="float32",
        inputs={"x": (1,)},
        parameters=2 + 7 * blocks,
        operations=tuple(rows),
    )


@pytest.fixture
def traced():
    return []


def noting(traced, describe):
    def at(blocks):
        traced.append(blocks)
        return describe(blocks)

    return at


def test_a_deep_network_is_described_from_shallow_ones(traced):
    assert depth.describe(noting(traced, network), DEPTH) == network(DEPTH)
    assert max(traced) < 6


@pytest.mark.parametrize(
    "of",
    [
        lambda blocks: network(blocks, [7 * 2**i for i in range(blocks)]),
        lambda blocks: network(blocks + blocks % 2),
    ],
    ids=["blocks that differ", "no regularity"],
)
def test_a_network_without_equal_blocks_is_traced(of, traced):
    assert depth.describe(noting(traced, of), DEPTH) == of(DEPTH)
    assert traced[-1] == DEPTH


def test_a_deep_network_that_is_too_large_is_refused_in_one_line(monkeypatch):
    def describe(model, length):
        blocks = model.hyperparameters.layers
        return network(blocks, [2**54] * blocks)

    monkeypatch.setattr(steps, "describe", describe)
    sizes = {"layers": DEPTH, "width": 4, "heads": 1, "context": 4, "vocabulary": 8}
    with pytest.raises(FathomError, match=r"^cannot describe the step .*: use other sizes$"):
        workloads.load("gpt")("cpu", sizes).describe()


def test_a_shallow_network_is_traced(traced):
    assert depth.describe(noting(traced, network), 2) == network(2)
    assert traced == [2]


def test_a_network_that_cannot_be_shallow_is_traced(traced):
    def describe_deep(blocks):
        if blocks < 8:
            raise FathomError("draft_layers 7 is not below layers")
        return network(blocks)

    assert depth.describe(noting(traced, describe_deep), 20) == network(20)
    assert traced == [3, 20]
