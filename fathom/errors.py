"""The exception type for errors that a user can fix."""

import re

_NODES = (
    r"\{\{.*?\}\} ?|\[Op:\w*\].*"
    r"|Error in user-defined function passed to \S+ transformation with iterator: \S+: "
)

WRONG_JSON = (
    *(ValueError, TypeError, AttributeError),
    *(LookupError, ArithmeticError, RecursionError),
)
"""What reading JSON, and using what was read as something else than it is, may raise."""


class FathomError(Exception):
    """A user error or unusable input, in one line that states the problem and the remedy.

    The command line prints the message without a traceback and exits with code 2.
    """


def cause(error: BaseException) -> str:
    """Returns the first line of an error's message, without the names of TensorFlow's nodes."""
    message = getattr(error, "message", None) or str(error)
    return re.sub(_NODES, "", message).strip().partition("\n")[0].strip()
