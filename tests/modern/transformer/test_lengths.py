import pytest

from fathom.errors import FathomError
from fathom.modern.transformer import lengths


def test_shapes_have_as_many_tokens_as_the_longest():
    assert lengths.shapes((8, 12, 24), 10) == ((30, 8, 8), (20, 12, 12), (10, 24, 24))


@pytest.mark.parametrize("text", ["", "8 8", "12 8", "1", "8,12", "a"])
def test_lengths_that_cannot_be_used_are_named(text):
    with pytest.raises(FathomError, match="lengths must be numbers that grow"):
        lengths.parse(text)
