"""A step as a machine with fixed-point arithmetic would run it, its numbers packed."""

import math

from fathom.options import FixedPoint
from fathom.results.description import Description, Operation

_SIZES = ("input_bytes", "weight_bytes", "output_bytes", "result_bytes", "footprint_bytes")


def packed(description: Description, number_format: FixedPoint) -> Description:
    """Returns a step with float32 numbers replaced by those of a format.

    Args:
        description: of the step in float32. Operations on whole numbers are left as they are, and
            so are trained weights where they are held; indices count as numbers of the format.
        number_format: whose bits each number takes; the fraction does not matter.
    """
    bits, held = number_format.bits, description.held_bytes
    if held is not None and description.mode == "infer":
        held = math.ceil(held * bits / 32)
    rows = tuple(_packed(operation, bits) for operation in description.operations)
    return description.model_copy(update={"operations": rows, "held_bytes": held})


def _packed(operation: Operation, bits: int) -> Operation:
    if operation.dtype != "float32":
        return operation
    scaled = {name: math.ceil(getattr(operation, name) * bits / 32) for name in _SIZES}
    return operation.model_copy(update={"dtype": f"fixed{bits}", **scaled})
