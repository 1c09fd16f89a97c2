import gc
import importlib
import os
import signal
import sys
import time

import pytest

from fathom.cli.terminal import absent, duration, import_tensorflow, run_command


def test_a_module_is_absent_in_the_block_alone():
    sys.modules.pop("this", None)
    with absent(["this", "json"]):
        with pytest.raises(ImportError):
            importlib.import_module("this")
        assert importlib.import_module("json")  # it was loaded before
    assert importlib.import_module("this")


@pytest.mark.parametrize("swallowed", [True, False])
def test_an_interrupt_that_another_library_hides_ends_the_command(swallowed, capsys):
    def command():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        except KeyboardInterrupt:
            if not swallowed:
                raise RuntimeError("something else") from None

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as end:
            run_command("fathom", command)
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)
    assert end.value.code == 130
    assert capsys.readouterr().err == "fathom: interrupted\n"


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
