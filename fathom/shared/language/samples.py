"""Samples of text as a file."""

from collections.abc import Sequence
from pathlib import Path

from fathom.system.files import atomic_write


def save(path: Path, samples: Sequence[tuple[str, str]]) -> None:
    """Writes prompts and what the network wrote after them.

    Raises:
        FathomError: the file cannot be written.
    """
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for prompt, written in samples:
            file.write(f"--- prompt: {prompt!r}\n{prompt}{written}\n\n")
