"""The workers of a training meet before TensorFlow starts, and stay connected to the first one.

TensorFlow would wait for the others without a limit, and train with those that are about to do
something else. The first worker listens on its own address and port. The others say who they are,
by the secret of their launch; whatever else is sent there is ignored.
"""

import contextlib
import hashlib
import hmac
import json
import os
import queue
import select
import socket
import threading
import time
from collections.abc import Mapping, Sequence

from fathom.errors import WRONG_JSON, FathomError

SECRET = "FATHOM_LAUNCH_SECRET"  # of the environment; what starts the workers gives all the same
LONGEST_SILENCE = 20  # seconds without a sign of life after which a worker counts as lost
_LONGEST_ANSWER = 10.0  # seconds for a worker to say who it is, and for the first to answer
_LONGEST_END = 2.0  # seconds in which the connections of a worker that has ended break
_RETRY_S = 0.2
_LONGEST_LINE = 2**16
_LONGEST_FACT = 1000  # characters
_PROBES = 4  # of a silent connection

Facts = Mapping[str, object]


class Meeting:
    """The connections of the other workers to the first one.

    Args:
        index: of this worker.
        connections: by the number of the worker at the other end.
    """

    def __init__(self, index: int, connections: Mapping[int, socket.socket]) -> None:
        self._index, self._connections = index, dict(sorted(connections.items()))
        for connection in connections.values():
            _notice_silence(connection)

    def agree(self, facts: Facts) -> None:
        """Returns when all workers have come here with the same facts.

        A worker that gives signs of life is waited for without a limit.

        Args:
            facts: by name, what this worker is about to do.

        Raises:
            FathomError: another worker differs, or was lost.
        """
        ours = {name: _short(json.dumps(fact, default=str)) for name, fact in facts.items()}
        if self._index:
            self._send(0, {"facts": ours})
            refusal = self._hear(0).get("refusal")
        else:
            heard = {number: self._hear(number).get("facts") for number in self._connections}
            refusal = next(filter(None, (_difference(n, heard[n], ours) for n in heard)), None)
            for number in heard:
                self._send(number, {"refusal": refusal})
        if refusal:
            raise FathomError(str(refusal))

    def of_first(self, value: float) -> float:
        """Returns the first worker's value, in all workers.

        Raises:
            FathomError: the first worker was lost.
        """
        if self._index:
            return float(str(self._hear(0)["value"]))
        for number in self._connections:
            self._send(number, {"value": value})
        return value

    def lost(self) -> list[int]:
        """Returns the workers whose connections have broken, or break very soon.

        The first worker tells the others, before it ends as well.
        """
        numbers = {each.fileno(): number for number, each in self._connections.items()}
        poll = select.poll()
        for file in numbers:
            poll.register(file, select.POLLIN)
        found: list[int] = []
        deadline = time.monotonic() + _LONGEST_END
        while not found and numbers and (left := deadline - time.monotonic()) > 0:
            for file, _ in poll.poll(1000 * left):
                number = numbers.pop(file)
                poll.unregister(file)
                message = _hear(self._connections[number], _LONGEST_END)
                found += [number] if message is None else self._lost_by(message)
        if found and not self._index:
            for number in self._connections:
                self._send(number, {"lost": found})
        return found

    def _lost_by(self, message: Facts) -> list[int]:
        lost = message.get("lost")
        return lost if isinstance(lost, list) else []

    def end(self) -> None:
        """Returns when the first worker has done all that it does alone, such as evaluating.

        Raises:
            FathomError: it was lost.
        """
        if self._index:
            self._hear(0)
        for number, connection in self._connections.items():
            if not self._index:
                self._send(number, {})
            connection.close()

    def _send(self, number: int, message: Mapping[str, object]) -> None:
        with contextlib.suppress(OSError):  # who does not hear it is lost
            _send(self._connections[number], message)

    def _hear(self, number: int) -> Mapping[str, object]:
        """Returns what a worker says next, when it does."""
        message = _hear(self._connections[number], None)
        if lost := [number] if message is None else self._lost_by(message):
            raise FathomError(f"{named(lost)} was lost: start all workers again with --resume")
        return message or {}


def named(numbers: Sequence[int]) -> str:
    """Returns workers in words."""
    return f"worker {' and '.join(map(str, numbers))}"


def meet(workers: Sequence[str], index: int, limit: float) -> Meeting:
    """Returns when all workers are connected to the first one.

    Args:
        workers: their addresses, ``host:port``; the first one's is used.
        index: of this worker.
        limit: longest time in seconds.

    Raises:
        FathomError: a worker does not come in time, or has another's number or none of them; or the
            address cannot be used.
    """
    deadline = time.monotonic() + limit
    if index:
        return Meeting(index, {0: _visit(workers[0], index, deadline)})
    return Meeting(0, _receive(workers, deadline, limit))


def listen(host: str, port: int, hosts: Sequence[str]) -> socket.socket:
    """Returns a socket that listens on a worker's own address: on one machine its own network.

    Raises:
        FathomError: the address cannot be used.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Debian's /etc/hosts has a host's own name at 127.0.1.1, where no other host can come.
        if len(set(hosts)) > 1 and str(address[0]).startswith("127."):
            address = ("", port)
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]
        raise FathomError(f"port {port} of {host} cannot be used: {reason}") from None


def split(address: str) -> tuple[str, int]:
    """Returns host and port of ``host:port``; the host may be IPv6 in brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _receive(workers: Sequence[str], deadline: float, limit: float) -> dict[int, socket.socket]:
    """Returns the connections of all other workers."""
    came: queue.Queue[tuple[int, socket.socket]] = queue.Queue()
    others: dict[int, socket.socket] = {}
    missing, refused, refusal = set(range(1, len(workers))), -1, ""
    with listen(*split(workers[0]), [split(each)[0] for each in workers]) as server:
        server.settimeout(_RETRY_S)
        while missing and not refusal:
            with contextlib.suppress(TimeoutError):
                visitor = server.accept()[0]
                threading.Thread(target=_greet, args=(visitor, came), daemon=True).start()
            while not came.empty():
                number, visitor = came.get()
                if number in others:
                    refusal = f"two workers have the number {number}"
                elif number not in missing:
                    refusal = f"a worker has the number {number}: there are {len(workers)}, from 0"
                others[refused if refusal else number] = visitor
            missing -= set(others)
            if missing and time.monotonic() > deadline:
                refusal = refusal or f"{named(sorted(missing))} did not come within {limit:.0f} s"
    if refusal:
        for visitor in others.values():
            with contextlib.suppress(OSError), visitor:
                _send(visitor, {"refusal": refusal})
        raise FathomError(refusal)
    return others


def _greet(visitor: socket.socket, came: "queue.Queue[tuple[int, socket.socket]]") -> None:
    """Lets a worker of this launch in; closes the connections of others."""
    message = _hear(visitor, _LONGEST_ANSWER) or {}
    ours = hmac.compare_digest(str(message.get("secret")).encode(), _secret().encode())
    with contextlib.suppress(OSError):
        if ours and isinstance(number := message.get("number"), int):
            _send(visitor, {"welcome": True})
            return came.put((number, visitor))
        if "secret" in message:
            _send(visitor, {"refusal": "the first worker is of another launch, by its secret"})
        visitor.close()


def _visit(address: str, index: int, deadline: float) -> socket.socket:
    """Returns the connection to the first worker."""
    reason = ""
    while time.monotonic() < deadline:
        try:
            first = socket.create_connection(split(address), timeout=_LONGEST_ANSWER)
        except OSError as error:
            reason = f"cannot be reached: {error.strerror or error}"
        else:
            with contextlib.suppress(OSError):
                _send(first, {"secret": _secret(), "number": index})
            message = _hear(first, _LONGEST_ANSWER) or {}
            if "welcome" in message:
                return first
            first.close()
            reason = "does not answer as one"
            if "refusal" in message:
                raise FathomError(str(message["refusal"]))
        time.sleep(_RETRY_S)
    raise FathomError(f"the first worker, {address}, {reason}")


def _short(fact: str) -> object:
    """Returns a fact of its JSON, or a digest of it: a message has a limit."""
    if len(fact) <= _LONGEST_FACT:
        return json.loads(fact)
    return hashlib.sha256(fact.encode()).hexdigest()


def _difference(number: int, theirs: object, ours: Facts) -> str:
    """Returns how the facts of a worker differ from those of the first, in words."""
    if not isinstance(theirs, dict):
        return f"worker {number} gives no facts"
    names = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
    shown = (f"{n} ({theirs.get(n)!s:.40}, not {ours.get(n)!s:.40})" for n in names)
    return f"worker {number} differs from the first in {', '.join(shown)}" if names else ""


def _secret() -> str:
    return os.environ.get(SECRET, "")


def _send(connection: socket.socket, message: Facts) -> None:
    connection.sendall((json.dumps(message) + "\n").encode())


def _hear(connection: socket.socket, limit: float | None) -> Mapping[str, object] | None:
    """Returns the message that the other side sends; None if it sends none in time, or no such."""
    connection.settimeout(limit)
    try:
        with connection.makefile("rb", buffering=0) as lines:  # reads no byte of the next message
            message = json.loads(lines.readline(_LONGEST_LINE))
            return message if isinstance(message, dict) else None
    except (OSError, *WRONG_JSON):
        return None


def _notice_silence(connection: socket.socket) -> None:
    """Makes a connection break when the other host gives no sign of life."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    each = LONGEST_SILENCE // _PROBES
    for name, value in (
        *(("TCP_KEEPIDLE", each), ("TCP_KEEPALIVE", each)),  # of Linux, of macOS
        *(("TCP_KEEPINTVL", each), ("TCP_KEEPCNT", _PROBES - 1)),
    ):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
