"""Workers that meet: they agree on facts of any length."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from fathom.core.training.rendezvous import Meeting
from fathom.errors import FathomError


def agree(first, second):
    """Lets two workers of these facts meet."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with ThreadPoolExecutor(1) as other, ours, theirs:
        answer = other.submit(Meeting(1, {0: theirs}).agree, second)
        Meeting(0, {1: ours}).agree(first)
        answer.result(timeout=20)


def test_long_facts_are_compared():
    facts = {"data": "a", "skipped": {f"file {i}": "too long" for i in range(5000)}}
    agree(facts, dict(facts))
    with pytest.raises(FathomError, match="worker 1 differs from the first in skipped"):
        agree(facts, facts | {"skipped": facts["skipped"] | {"file 7": "missing"}})
