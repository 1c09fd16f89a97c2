"""A synthetic pair of languages that can be learned exactly.

The source has English word order: article, adjectives, noun, verb, object, place. The target
translates word by word, but puts its verb last and its adjectives after the noun, and its article
agrees with the noun's gender.
"""

import numpy as np

# Nouns with their translation and its gender, which determines the article.
_NOUNS = {
    **{"dog": ("hunto", 0), "cat": ("kati", 1), "child": ("kindu", 2), "horse": ("rossio", 0)},
    **{"bird": ("vogli", 1), "house": ("hausu", 2), "tree": ("baumo", 0), "river": ("flussi", 1)},
    **{"book": ("buchu", 2), "friend": ("frondo", 0), "teacher": ("lehri", 1)},
    **{"ship": ("schiffu", 2)},
}
_ARTICLES = {"the": ("do", "di", "du"), "a": ("uno", "uni", "unu")}
_ADJECTIVES = {
    **{"small": "klen", "big": "gros", "old": "alt", "young": "jun", "red": "rot", "green": "grun"},
    **{"happy": "fro", "quiet": "stil"},
}
_VERBS = {
    **{"sees": "viset", "loves": "amet", "finds": "trovet", "follows": "folget", "hears": "horet"},
    **{"paints": "malet", "carries": "traget", "remembers": "denket"},
}
_PREPOSITIONS = {"near": "neb", "behind": "hint", "under": "unt", "with": "mit"}
_CONJUNCTIONS = {"and": "ond", "but": "aba", "while": "wal"}


_Words = tuple[list[str], list[str]]


def sentence_pair(rng: np.random.Generator) -> tuple[str, str]:
    """Returns a sentence of one to three clauses and its translation, each with a full stop."""
    source, target = _clause(rng)
    for _ in range(rng.choice(3, p=(0.7, 0.2, 0.1))):
        conjunction = rng.choice(list(_CONJUNCTIONS))
        more_source, more_target = _clause(rng)
        source[-1] += ","
        target[-1] += ","
        source += [conjunction, *more_source]
        target += [_CONJUNCTIONS[conjunction], *more_target]
    return " ".join(source) + ".", " ".join(target) + "."


def _clause(rng: np.random.Generator) -> _Words:
    """Returns subject, verb and perhaps object and place; the translation has its verb last."""
    source, target = _noun_phrase(rng)
    verb = rng.choice(list(_VERBS))
    source.append(verb)
    if rng.random() < 0.7:
        _add(source, target, _noun_phrase(rng))
    if rng.random() < 0.3:
        preposition = rng.choice(list(_PREPOSITIONS))
        _add(source, target, ([preposition], [_PREPOSITIONS[preposition]]))
        _add(source, target, _noun_phrase(rng))
    return source, [*target, _VERBS[verb]]


def _noun_phrase(rng: np.random.Generator) -> _Words:
    """Returns article, up to two adjectives and noun; the translation has its noun second."""
    article, noun = rng.choice(list(_ARTICLES)), rng.choice(list(_NOUNS))
    adjectives = list(rng.choice(list(_ADJECTIVES), rng.integers(3), replace=False))
    translated, gender = _NOUNS[noun]
    source = [article, *adjectives, noun]
    return source, [
        _ARTICLES[article][gender],
        translated,
        *(_ADJECTIVES[word] for word in adjectives),
    ]


def _add(source: list[str], target: list[str], more: _Words) -> None:
    source += more[0]
    target += more[1]
