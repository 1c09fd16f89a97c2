"""The operations of a step as a machine with fixed-point arithmetic would run them, packed."""

import math
from collections.abc import Iterable

from fathom.options import FixedPoint
from fathom.results.description import Operation


def packed(operations: Iterable[Operation], number_format: FixedPoint) -> tuple[Operation, ...]:
    """Returns operations with float32 numbers replaced by those of a format.

    Args:
        operations: of a step in float32; those on whole numbers are left as they are.
        number_format: whose bits each number takes; the fraction does not matter.
    """
    return tuple(_packed(operation, number_format.bits) for operation in operations)


def _packed(operation: Operation, bits: int) -> Operation:
    if operation.dtype != "float32":
        return operation
    sizes = ("input_bytes", "weight_bytes", "output_bytes")
    scaled = {name: math.ceil(getattr(operation, name) * bits / 32) for name in sizes}
    return operation.model_copy(update={"dtype": f"fixed{bits}", **scaled})
