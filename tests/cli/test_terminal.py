import gc
import importlib
import sys

import pytest

from fathom.cli.terminal import absent, import_tensorflow


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
