"""Workers that meet: they agree on facts of any length."""

import math
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from fathom.core.training.rendezvous import Meeting
from fathom.errors import FathomError


def together(do):
    """Lets two workers do something with their meeting and number; returns what each returns."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with ThreadPoolExecutor(1) as other, ours, theirs:
        answer = other.submit(do, Meeting(1, {0: theirs}), 1)
        return [do(Meeting(0, {1: ours}), 0), answer.result(timeout=20)]


def agree(*facts):
    """Lets two workers of these facts meet."""
    together(lambda meeting, index: meeting.agree(facts[index]))


def test_all_workers_take_the_value_of_the_first():
    assert together(lambda meeting, index: meeting.of_first(0.1 + index)) == [0.1, 0.1]
    assert math.isnan(together(lambda meeting, index: meeting.of_first([math.nan, 1.0][index]))[1])


def test_long_facts_are_compared():
    facts = {"data": "a", "skipped": {f"file {i}": "too long" for i in range(5000)}}
    agree(facts, dict(facts))
    with pytest.raises(FathomError, match="worker 1 differs from the first in skipped"):
        agree(facts, facts | {"skipped": facts["skipped"] | {"file 7": "missing"}})
