"""Tensors in KServe's v2 JSON (Open Inference Protocol)."""

from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from fathom.errors import FathomError

_DATATYPES = {
    name: name.upper().replace("FLOAT", "FP")
    for name in ("float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool")
}
_KINDS = {"f": "iuf", "i": "iu", "u": "iu", "b": "b"}  # of numbers that may become such


class Tensor(BaseModel):
    """A tensor of a request."""

    model_config = ConfigDict(strict=True)

    name: str
    shape: list[Annotated[int, Field(ge=0)]] = Field(max_length=32)
    datatype: str
    data: list[Any]


def datatype(dtype: np.dtype) -> str:
    """Returns a dtype's name in the protocol; what has none goes as FP32."""
    return _DATATYPES.get(dtype.name, "FP32")


def tensor(name: str, values: np.ndarray) -> dict[str, Any]:
    """Returns an array as JSON."""
    known = values if values.dtype.name in _DATATYPES else values.astype(np.float32)
    return {
        "name": name,
        "shape": list(known.shape),
        "datatype": datatype(known.dtype),
        "data": known.ravel().tolist(),
    }


def array(given: Tensor, dtype: np.dtype) -> np.ndarray:
    """Returns a tensor of a request as an array.

    Raises:
        FathomError: it has another datatype, other numbers, or not as many as its shape.
    """
    if given.datatype != datatype(dtype):
        raise FathomError(f"{given.name} is {given.datatype}, not {datatype(dtype)}")
    try:
        values = np.array(given.data)
    except ValueError:
        raise FathomError(f"{given.name} has rows of different lengths") from None
    if values.size and values.dtype.kind not in _KINDS.get(dtype.kind, "iuf"):
        raise FathomError(f"{given.name} has data that are not {given.datatype}")
    with np.errstate(over="ignore"):  # to infinity
        cast = values.astype(dtype)
    held = cast == values if dtype.kind in "iu" else np.isfinite(cast)
    if not held.all():
        raise FathomError(f"{given.name} has numbers that {given.datatype} does not hold")
    if values.size != int(np.prod([int(size) for size in given.shape], dtype=object)):
        raise FathomError(f"{given.name} has {values.size} values, not those of {given.shape}")
    return cast.reshape(given.shape)
