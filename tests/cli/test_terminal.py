import gc
import importlib
import sys

import pytest

from fathom.cli.terminal import absent, duration, import_tensorflow


def test_a_module_is_absent_in_the_block_alone():
    sys.modules.pop("this", None)
    with absent(["this", "json"]):
        with pytest.raises(ImportError):
            importlib.import_module("this")
        assert importlib.import_module("json")  # it was loaded before
    assert importlib.import_module("this")


def test_what_is_there_when_a_command_begins_can_still_be_freed():
    """Frozen at an import, models of other commands of the process would stay."""
    import_tensorflow()
    frozen = gc.get_freeze_count()
    assert import_tensorflow() == 0
    assert gc.get_freeze_count() == frozen


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (12_345.6, "12,346 s"),
        (1.0, "1 s"),
        (0.9996, "1,000 ms"),
        (0.00321, "3.21 ms"),
        (4e-8, "0.04 us"),
    ],
)
def test_a_duration_has_three_digits_and_no_exponent(seconds, words):
    assert duration(seconds) == words
