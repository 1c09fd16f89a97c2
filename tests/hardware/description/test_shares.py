import pytest

from fathom.hardware.description.shares import of_work
from tests.hardware.accelerators import steps

BOUNDS = steps.CONVOLUTION | {"M": 8, "C": 8}
PRODUCT = {"batch": 1, "M": 4, "N": 4, "K": 4}


def operation(kind, bounds, flops, size):
    """An operation of so many FLOPs, none of them a multiply-accumulate, and bytes."""
    return steps.operation(
        **{"kind": kind, "bounds": bounds, "macs": 0, "flops": flops},
        **{"input_bytes": size, "weight_bytes": 0, "output_bytes": 0},
    )


def shares(*operations):
    return of_work(steps.description(*operations))


def test_a_share_is_the_mean_of_those_of_arithmetic_and_of_bytes():
    product = operation("matrix product", PRODUCT, 900, 90)
    move = operation("data movement", {"elements": 1}, 0, 10)
    add = operation("elementwise", {"elements": 1}, 100, 100)
    assert shares(product, move, add) == pytest.approx(
        {
            "matrix products at about 10 FLOPs/byte": (0.9 + 0.45) / 2,
            "elementwise operations at 1 FLOP/byte or less": (0.1 + 0.5) / 2,
            "data movement at 1 FLOP/byte or less": (0 + 0.05) / 2,
        }
    )


def test_a_step_without_arithmetic_is_told_by_its_bytes():
    move = operation("data movement", {"elements": 1}, 0, 10)
    assert shares(move) == {"data movement at 1 FLOP/byte or less": 1}


def test_an_intensity_in_between_is_divided_so_that_small_changes_stay_small():
    found = shares(operation("matrix product", PRODUCT, 177_827_941, 10**6))
    assert found == pytest.approx(
        {
            "matrix products at about 100 FLOPs/byte": 0.75,
            "matrix products at 1000 FLOPs/byte or more": 0.25,
        },
        rel=1e-6,
    )
    least, most = (operation("matrix product", PRODUCT, flops, 10**3) for flops in (1, 10**8))
    assert [*shares(least)] == ["matrix products at 1 FLOP/byte or less"]
    assert [*shares(most)] == ["matrix products at 1000 FLOPs/byte or more"]


@pytest.mark.parametrize(
    ("kind", "bounds", "named"),
    [
        ("convolution", BOUNDS, "convolutions"),
        ("convolution", BOUNDS | {"R": 1, "S": 1}, "1x1 convolutions"),
        ("convolution", BOUNDS | {"R": 1}, "convolutions"),
        ("convolution", BOUNDS | {"groups": 8}, "depthwise convolutions"),
        ("convolution", BOUNDS | {"groups": 8, "M": 16}, "depthwise convolutions"),
        ("convolution", BOUNDS | {"groups": 2}, "grouped convolutions"),
        ("matrix product", PRODUCT, "matrix products"),
        ("matrix product", PRODUCT | {"batch": 2}, "batched matrix products"),
        ("matrix product", PRODUCT | {"M": 1, "batch": 2}, "matrix-vector products"),
        ("recurrent product", PRODUCT | {"N": 1}, "recurrent matrix-vector products"),
        ("recurrent product", PRODUCT, "recurrent matrix products"),
        ("look-up", {"rows": 2, "width": 2, "indices": 2}, "look-ups"),
    ],
)
def test_classes_of_shape(kind, bounds, named):
    assert [*shares(operation(kind, bounds, 10, 10))] == [f"{named} at 1 FLOP/byte or less"]
