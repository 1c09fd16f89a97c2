"""The exception types for errors that a user can fix."""

import importlib.util
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


class DivergedError(FathomError):
    """A training's loss is not finite: the same training again would end the same way."""


def cause(error: BaseException) -> str:
    """Returns an error's first line without the names of TensorFlow's nodes, or else its class."""
    message = getattr(error, "message", None) or str(error)
    text = re.sub(_NODES, "", message).strip().partition("\n")[0].strip()
    return text or type(error).__name__


def require(wanted: str, extra: str, *packages: str) -> None:
    """Raises FathomError if packages of an extra are missing that something needs."""
    missing = [each for each in packages if importlib.util.find_spec(each) is None]
    if missing:
        raise FathomError(
            f"{wanted} needs {' and '.join(missing)}: pip install 'fathom-workloads[{extra}]'"
        )
