"""Values that variables have for a while."""

import contextlib
from collections.abc import Iterator, Sequence

import tensorflow as tf


@contextlib.contextmanager
def restored(variables: Sequence[tf.Variable]) -> Iterator[None]:
    """Gives variables their values back after the block."""
    before = [variable.numpy() for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
