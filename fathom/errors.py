"""The one exception type for what a user can put right."""

import re

_NODES = (
    r"\{\{.*?\}\} ?|\[Op:\w*\].*"
    r"|Error in user-defined function passed to \S+ transformation with iterator: \S+: "
)


class FathomError(Exception):
    """A user's mistake or an unusable input: one line that says what was wrong and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


def cause(error: BaseException) -> str:
    """Returns the first line of an error's message, without the names of TensorFlow's nodes."""
    message = getattr(error, "message", None) or str(error)
    return re.sub(_NODES, "", message).strip().partition("\n")[0].strip()
