import pytest

from fathom.system.words import counted


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps"), (2000, "2,000 steps")]
)
def test_one_thing_is_singular(number, words):
    assert counted(number, "step") == words
