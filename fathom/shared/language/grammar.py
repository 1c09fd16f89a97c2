"""Sentences of a small probabilistic grammar, whose entropy is known."""

import math

import numpy as np

_CHARACTERS = 300_000

# Of each symbol: what it may stand for, and how likely that is. Small letters are printed. No two
# derivations give the same text, so that the entropy of the text is that of the choices.
_RULES: dict[str, tuple[tuple[float, tuple[str, ...]], ...]] = {
    "SENTENCE": ((0.7, ("CLAUSE", ".\n")), (0.3, ("CLAUSE", ", ", "JOIN", "CLAUSE", ".\n"))),
    "CLAUSE": ((0.6, ("NOUNS", "VERB", "NOUNS")), (0.4, ("NOUNS", "MOVE"))),
    "NOUNS": ((0.5, ("the ", "NOUN")), (0.3, ("a ", "NOUN")), (0.2, ("the ", "QUALITY", "NOUN"))),
    "NOUN": (
        *((0.3, ("king",)), (0.2, ("queen",)), (0.2, ("fool",)), (0.1, ("ghost",))),
        *((0.1, ("merchant",)), (0.1, ("witch",))),
    ),
    "QUALITY": ((0.5, ("old ",)), (0.3, ("noble ",)), (0.2, ("pale ",))),
    "VERB": (
        *((0.4, (" loves ",)), (0.3, (" fears ",)), (0.2, (" betrays ",))),
        (0.1, (" forgives ",)),
    ),
    "MOVE": ((0.5, (" dies",)), (0.3, (" sleeps",)), (0.2, (" returns",))),
    "JOIN": ((0.5, ("and ",)), (0.5, ("but ",))),
}


def write(seed: int, characters: int = _CHARACTERS) -> tuple[str, float]:
    """Returns sentences of at least so many characters, and their entropy in nats per character."""
    rng = np.random.default_rng(seed)
    sentences: list[str] = []
    length = 0
    while length < characters:
        sentences.append(_draw("SENTENCE", rng))
        length += len(sentences[-1])
    entropy, mean_length = _expected("SENTENCE")
    return "".join(sentences), entropy / mean_length


def _draw(symbol: str, rng: np.random.Generator) -> str:
    """Returns a text that a symbol stands for."""
    if symbol not in _RULES:
        return symbol
    rules = _RULES[symbol]
    chosen = rng.choice(len(rules), p=[probability for probability, _ in rules])
    return "".join(_draw(part, rng) for part in rules[chosen][1])


def _expected(symbol: str) -> tuple[float, float]:
    """Returns the entropy of what a symbol stands for, in nats, and its mean length."""
    if symbol not in _RULES:
        return 0.0, float(len(symbol))
    entropy = length = 0.0
    for probability, parts in _RULES[symbol]:
        inner = [_expected(part) for part in parts]
        entropy += probability * (sum(each[0] for each in inner) - math.log(probability))
        length += probability * sum(each[1] for each in inner)
    return entropy, length
