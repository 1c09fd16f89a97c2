"""The workers of a training meet before TensorFlow starts: it would wait for them without a limit.

The first worker listens on its own port. The others tell it their number and what they are about to
run; it lets all go when everyone is there and wants the same.
"""

import contextlib
import json
import socket
import time
from collections.abc import Mapping, Sequence

from fathom.errors import FathomError

_LONGEST_ANSWER = 10.0  # seconds for a worker to say what it wants
_RETRY_S = 0.2
_GO = "go"


def meet(workers: Sequence[str], index: int, wanted: Mapping[str, object], limit: float) -> None:
    """Returns when all workers are there.

    Args:
        workers: their addresses, ``host:port``; the first one's is used.
        index: of this worker.
        wanted: what this worker is about to run, by name; it has to be the same for all.
        limit: longest time in seconds.

    Raises:
        FathomError: a worker does not come in time, has another's number, or wants something else;
            or the port cannot be used.
    """
    plain = json.loads(json.dumps(dict(wanted), default=str))
    deadline = time.monotonic() + limit
    if index:
        _visit(workers[0], index, plain, deadline)
    else:
        _host(workers, plain, deadline, limit)


def _host(
    workers: Sequence[str], wanted: Mapping[str, object], deadline: float, limit: float
) -> None:
    port = int(workers[0].rpartition(":")[2])
    visitors: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(socket.create_server(("", port)))
        except OSError as error:
            raise FathomError(f"port {port} cannot be used: {error.strerror}") from None
        server.settimeout(_RETRY_S)
        verdict = _GO
        while len(visitors) < len(workers) - 1 and verdict == _GO:
            with contextlib.suppress(TimeoutError):
                visitor = stack.enter_context(server.accept()[0])
                answer = _line(visitor, _LONGEST_ANSWER)
                if answer:
                    verdict = _judge(json.loads(answer), set(visitors), wanted)
                    visitors[json.loads(answer)["index"]] = visitor
            if time.monotonic() > deadline:
                missing = sorted(set(range(1, len(workers))) - set(visitors))
                numbers = " and ".join(map(str, missing))
                verdict = f"worker {numbers} did not come within {limit:.0f} s"
        for visitor in visitors.values():
            with contextlib.suppress(OSError):
                visitor.sendall(f"{verdict}\n".encode())
    if verdict != _GO:
        raise FathomError(verdict)


def _judge(answer: Mapping[str, object], there: set[int], wanted: Mapping[str, object]) -> str:
    """Returns whether a worker can take part, or why not."""
    index, theirs = answer["index"], answer["wanted"]
    if index in there:
        return f"two workers have the number {index}"
    if theirs != wanted and isinstance(theirs, dict):
        names = sorted(name for name in {*theirs, *wanted} if theirs.get(name) != wanted.get(name))
        return f"worker {index} differs from the first in {', '.join(names)}"
    return _GO


def _visit(address: str, index: int, wanted: Mapping[str, object], deadline: float) -> None:
    host, _, port = address.rpartition(":")
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=_LONGEST_ANSWER) as first:
                first.sendall((json.dumps({"index": index, "wanted": wanted}) + "\n").encode())
                verdict = _line(first, max(_RETRY_S, deadline - time.monotonic()))
            if verdict == _GO:
                return
            raise FathomError(verdict or f"the first worker, {address}, ended")
        except OSError as error:
            if time.monotonic() > deadline:
                raise FathomError(
                    f"the first worker, {address}, cannot be reached: {error.strerror or error}"
                ) from None
            time.sleep(_RETRY_S)


def _line(connection: socket.socket, limit: float) -> str:
    """Returns the line that the other side sends; empty if it sends none in time."""
    connection.settimeout(limit)
    try:
        with connection.makefile(encoding="utf-8") as lines:
            return lines.readline().rstrip("\n")
    except OSError:
        return ""
