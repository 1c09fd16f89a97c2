"""Human-readable answers: the story, the attention of each hop, the answer."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fathom.memnet.babi import Babi
from fathom.shared import pictures
from fathom.system.files import atomic_write

_SHOWN = 4  # questions
_SENTENCES = 15  # of a story, the newest


@dataclass(frozen=True)
class Answer:
    """One question and the network's answer."""

    sentences: tuple[str, ...]  # the story's newest sentences, in order
    question: str  # the question
    given: str  # the network's answer
    right: str  # the correct answer
    attention: np.ndarray  # float32 [sentences, hops], of each hop to each sentence

    def __str__(self) -> str:
        rows = [f"{'':4}" + "".join(f" hop {k + 1}" for k in range(self.attention.shape[1]))]
        for sentence, weights in zip(self.sentences, self.attention, strict=True):
            rows.append(f"{'':4}" + "".join(f"{w:6.2f}" for w in weights) + f"  {sentence}")
        verdict = "right" if self.given == self.right else f"wrong, it is {self.right}"
        return "\n".join([f"{self.question}?", *rows, f"{'':4}answer: {self.given} ({verdict})"])


def save(answers: list[Answer], directory: Path) -> list[Path]:
    """Writes answers as text and as a picture; returns the paths of the two files.

    Raises:
        FathomError: they cannot be written.
    """
    text = directory / "memnet-answers.txt"
    with atomic_write(text) as temporary:
        temporary.write_text("\n\n".join(map(str, answers)) + "\n", encoding="utf-8")
    return [text, pictures.save(_draw(answers), text.with_suffix(".png"))]


def choose(babi: Babi, given: np.ndarray, attention: np.ndarray, seed: int) -> list[Answer]:
    """Returns the answers to a few test questions, half of them wrong if there are any.

    Args:
        babi: with the test questions.
        given: the answers, int [questions].
        attention: of each hop, float32 [questions, memory, hops].
        seed: of the selection.
    """
    order = np.random.default_rng(seed).permutation(len(babi.test))
    is_wrong = (given != babi.test.answer)[order]
    right, wrong = order[~is_wrong], order[is_wrong]
    wrong = wrong[: max(_SHOWN // 2, _SHOWN - len(right))]
    chosen = [*right[: _SHOWN - len(wrong)], *wrong]
    return [_answer(babi, i, given[i], attention[i]) for i in chosen]


def _answer(babi: Babi, i: int, given: int, attention: np.ndarray) -> Answer:
    """Returns test question ``i`` in words."""
    test, vocabulary = babi.test, babi.vocabulary
    sentences = [_text(words, vocabulary) for words in test.story[i, : test.lengths[i]]]
    shown = sentences[:_SENTENCES]
    return Answer(
        tuple(reversed(shown)),
        _text(test.question[i], vocabulary),
        vocabulary[given],
        vocabulary[test.answer[i]],
        attention[: len(shown)][::-1],
    )


def _text(words: np.ndarray, vocabulary: tuple[str, ...]) -> str:
    return " ".join(vocabulary[word] for word in words if word)


def _draw(answers: list[Answer]) -> Figure:
    """Returns a figure with the attention to each sentence, one panel per question."""
    heights = [len(answer.sentences) + 3 for answer in answers]
    figure = Figure(figsize=(7, 0.22 * sum(heights) + 0.3), layout="constrained")
    panels = figure.subplots(len(answers), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, answer in zip(panels, answers, strict=True):
        axes.imshow(answer.attention, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_yticks(range(len(answer.sentences)), answer.sentences, fontsize=8)
        hops = answer.attention.shape[1]
        axes.set_xticks(range(hops), [f"hop {k + 1}" for k in range(hops)], fontsize=8)
        is_right = answer.given == answer.right
        verdict = "right" if is_right else f"wrong: {answer.right}"
        axes.set_title(
            f"{answer.question}? {answer.given} ({verdict})",
            fontsize=9,
            color="black" if is_right else "firebrick",
        )
    return figure
