"""Custom gradients of a model's traces, and forgetting them.

Each call of a ``tf.custom_gradient`` function in a graph registers its gradient in TensorFlow,
which never forgets it. The gradient holds the graph, and the graph the variables that it captured:
without this module, a process that sets up one model after another keeps the weights of them all.
"""

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from fathom.system import private


class CustomGradients:
    """The gradients that an object's traces have registered.

    Args:
        owner: when it is freed, its gradients are forgotten.
    """

    def __init__(self, owner: object) -> None:
        self._names: set[str] = set()
        weakref.finalize(owner, _forget, self._names).atexit = False

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Notes what is registered meanwhile."""
        before = private.registered_gradients()
        try:
            yield
        finally:
            self._names.update(private.registered_gradients() - before)

    def forget(self) -> None:
        """Forgets them; the graphs that have them can no longer be differentiated."""
        _forget(self._names)


def _forget(names: set[str]) -> None:
    private.forget_gradients(names)
    names.clear()


_Method = TypeVar("_Method", bound=Callable)


def notes_gradients(method: _Method) -> _Method:
    """Decorates a method that may trace: its object notes the gradients."""

    @functools.wraps(method)
    def noting(self: Any, *arguments: Any, **options: Any) -> Any:
        with self.custom_gradients.noted():
            return method(self, *arguments, **options)

    return cast(_Method, noting)
