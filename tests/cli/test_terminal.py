import importlib
import sys

import pytest

from fathom.cli.terminal import absent


def test_a_module_is_absent_in_the_block_alone():
    sys.modules.pop("this", None)
    with absent(["this", "json"]):
        with pytest.raises(ImportError):
            importlib.import_module("this")
        assert importlib.import_module("json")  # it was loaded before
    assert importlib.import_module("this")
