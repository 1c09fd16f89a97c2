import signal
import threading

import pytest

from fathom.system.signals import held_back

STOPS = [signal.SIGINT, signal.SIGTERM]


class StopError(Exception):
    pass


@pytest.fixture(autouse=True)
def _handlers():
    """Handlers that raise, in place of those that end the tests."""

    def stop(number, frame):
        raise StopError(number)

    before = {number: signal.signal(number, stop) for number in STOPS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def meet(*numbers, worth_it=True, then=lambda: None):
    """Sends signals inside a block, and then does something there."""
    with held_back(lambda: worth_it):
        for number in numbers:
            signal.raise_signal(number)
        then()


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_is_delivered_at_the_end(number):
    reached = []
    with pytest.raises(StopError, match=str(int(number))):
        meet(number, then=lambda: reached.append(True))
    assert reached


def test_a_second_signal_is_delivered_at_once():
    with pytest.raises(StopError, match=str(int(signal.SIGTERM))):
        meet(signal.SIGINT, signal.SIGTERM, then=lambda: pytest.fail("it was held back"))


def test_a_signal_is_delivered_at_once_where_there_is_nothing_to_save():
    with pytest.raises(StopError):
        meet(signal.SIGINT, worth_it=False, then=lambda: pytest.fail("it was held back"))


def test_a_handler_that_raises_nothing_is_called_once():
    called = []
    before = signal.signal(signal.SIGTERM, lambda *_: called.append(True))
    try:
        with held_back(lambda: False) as held:
            signal.raise_signal(signal.SIGTERM)
            assert (called, held) == ([True], [])
        assert called == [True]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_handlers_are_as_before_afterwards():
    before = [signal.getsignal(number) for number in STOPS]
    with held_back(lambda: True):
        assert [signal.getsignal(number) for number in STOPS] != before
    assert [signal.getsignal(number) for number in STOPS] == before


def test_an_error_in_the_block_is_not_hidden_by_the_signal():
    with pytest.raises(ZeroDivisionError):
        meet(signal.SIGINT, then=lambda: 1 / 0)


def test_an_ignored_signal_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with held_back(lambda: True) as held:
        signal.raise_signal(signal.SIGINT)
    assert not held


def test_another_thread_holds_nothing_back():
    errors = []

    def block():
        try:
            with held_back(lambda: True):
                pass
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    assert not errors
