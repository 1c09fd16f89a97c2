"""The bAbI tasks (Weston et al., 2015): short stories with questions about them.

A file is a sequence of stories. A line is a number, which starts at 1 in each story, and a
statement, or a question with its answer and the numbers of the supporting statements, separated by
tabs:

    1 Mary moved to the bathroom.
    2 John went to the hallway.
    3 Where is Mary?        bathroom        1
"""

import codecs
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from fathom.core.data.dataset import DataSet, Reading
from fathom.core.data.files import folders_below
from fathom.errors import FathomError
from fathom.memnet import stories
from fathom.system.files import list_folder, read_file
from fathom.system.memory import require_free_memory

TASKS = range(1, 21)
JOINT = 0  # instead of a task's number: all tasks together
HELD_OUT = 0.1  # of the training questions, for validation; paper, section 4.2
MOST_MEMORIES = 50  # of memory="longest"; paper, section 4.2

Words = tuple[str, ...]


class Question(NamedTuple):
    """A question of a file."""

    story: tuple[Words, ...]  # the previous statements, the oldest first, each a tuple of words
    question: Words  # its words
    answer: str  # the correct answer, one word; answers joined by commas are one word
    supporting: tuple[int, ...]  # indices in ``story`` of the supporting statements


Splits = tuple[list[Question], list[Question], list[Question]]  # training, validation and test


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions as word indices in the vocabulary; 0 is the null word."""

    story: np.ndarray  # int32 [n, memory, words]; the newest statement first, then null words
    lengths: np.ndarray  # int32 [n], statements of the story kept in memory
    question: np.ndarray  # int32 [n, words]
    answer: np.ndarray  # int32 [n], each at least 1
    task: np.ndarray  # int32 [n]

    def __len__(self) -> int:
        return len(self.answer)


@dataclass(frozen=True, eq=False)
class Babi(DataSet):
    """One task, or all of them together, in memory."""

    name = "babi"
    title = "bAbI tasks v1.2"
    licence = "CC BY 3.0"
    home_page = "https://research.facebook.com/downloads/babi/"
    layout = "tasks_1-20_v1-2/<language>/qa{1-20}_*{train,test}.txt"

    train: Questions  # without those held out
    validation: Questions  # of its file, or else the last tenth of each task's training questions
    test: Questions
    vocabulary: tuple[str, ...]  # the null word, "", and the words in alphabetical order
    tasks: tuple[int, ...]  # that were read

    @classmethod
    def load(
        cls,
        directory: Path,
        task: int = 1,
        memory: int | Literal["longest"] = 50,
        joint_vocabulary: bool = False,
    ) -> "Babi":
        """Reads a task.

        Args:
            directory: a language's folder (such as ``en-10k``), ``tasks_1-20_v1-2`` or its parent;
                of several languages ``en`` is read.
            task: its number, or ``JOINT``.
            memory: number of newest statements of a story to keep; ``longest``: as many as the
                longest training story has, at most 50 (as in the authors' code).
            joint_vocabulary: use the words of all tasks, not only of those read.

        Raises:
            FathomError: the task or one of its files is missing, a file is malformed (the message
                names the file and the line), or the stories do not fit into memory.
        """
        folder = _language_folder(directory)
        present = [number for number in TASKS if _file(folder, number, "train")]
        if task != JOINT and task not in present:
            raise FathomError(
                f"{folder} has no task {task} (qa{task}_*train.txt): "
                f"{', '.join(map(str, present)) or 'none'} {'are' if present[1:] else 'is'} there"
            )
        if not present:
            raise FathomError(f"{folder} has no task: bAbI is expected as {cls.layout}")
        tasks = present if task == JOINT else [task]
        named = present if joint_vocabulary else tasks
        read = {number: _read_task(folder, number) for number in named}
        vocabulary = ("", *_words(_questions(read.values())))
        numbers = {word: number for number, word in enumerate(vocabulary)}
        splits = {number: read[number] for number in tasks}
        questions = _questions(splits.values())
        width = max(len(words) for q in questions for words in (q.question, *q.story))
        kept = _longest_story(splits.values()) if memory == "longest" else memory
        needed = len(questions) * kept * width * np.dtype(np.int32).itemsize
        require_free_memory(needed, f"{len(questions)} stories", "set a smaller memory")
        encoded = [
            _concatenate([_encode(splits[n][split], n, numbers, kept, width) for n in tasks])
            for split in range(3)
        ]
        train, validation, test = encoded
        return cls(train, validation, test, vocabulary, tuple(tasks))

    @classmethod
    def verify(cls, directory: Path, options: Reading, everything: bool) -> str:
        """Reads the files of all available tasks."""
        folder = _language_folder(directory)
        present = [task for task in TASKS if _file(folder, task, "train")]
        count = len(_questions(_read_task(folder, task) for task in present))
        return f"{len(present)} tasks in {folder.name}, {count:,} questions, can be read"

    @classmethod
    def synthesize(
        cls, directory: Path, seed: int, train_size: int = 1_000, test_size: int = 1_000
    ) -> None:
        """Writes stories of tasks 1, 2, 6, 15 and 20 in bAbI's own format and layout."""
        rng = np.random.default_rng(seed)
        folder = directory / "tasks_1-20_v1-2" / "en"
        folder.mkdir(parents=True)
        for name, write in stories.TASKS.items():
            for split, size in (("train", train_size), ("test", test_size)):
                text = stories.many(write, size, rng)
                (folder / f"{name}_{split}.txt").write_text(text, encoding="utf-8")


def _language_folder(directory: Path) -> Path:
    """Returns the folder with the tasks' files in or below the given folder."""
    found: list[Path] = []
    try:
        for folder in folders_below(directory, 2):
            if any(path.match("qa*.txt") for path in list_folder(folder)):
                found.append(folder)
                if folder == directory:
                    return directory
    except FathomError:
        if not found:
            raise
    languages = sorted(found, key=lambda folder: (folder.name != "en", folder))
    if not languages:
        raise FathomError(f"{directory} has no task: bAbI is expected as {Babi.layout}")
    if len(languages) > 1 and languages[0].name != "en":
        names = ", ".join(str(folder.relative_to(directory)) for folder in languages)
        raise FathomError(f"{directory} holds {names} and no en: give one of them as --data-dir")
    return languages[0]


def _file(folder: Path, task: int, split: str) -> Path | None:
    """Returns a task's file of a split (train, valid or test), or None."""
    return next((p for p in list_folder(folder) if p.match(f"qa{task}_*{split}.txt")), None)


def _read_task(folder: Path, task: int) -> Splits:
    """Returns a task's questions for training, validation and test."""
    path, test = _file(folder, task, "train"), _file(folder, task, "test")
    if path is None or test is None:
        raise FathomError(f"{path} has no qa{task}_*test.txt beside it")
    train, valid = read_questions(path), _file(folder, task, "valid")
    if valid is not None:
        return train, read_questions(valid), read_questions(test)
    if len(train) == 1:
        raise FathomError(
            f"{path} holds one question, which is held out for validation: none is left to train "
            f"on; add questions, or a file qa{task}_valid.txt"
        )
    held_out = math.ceil(len(train) * HELD_OUT)
    return train[: len(train) - held_out], train[len(train) - held_out :], read_questions(test)


def read_questions(path: Path) -> list[Question]:
    """Reads a file of stories.

    Raises:
        FathomError: the file cannot be read, holds no question, ends within a line, or a line is
            malformed; the message names the file and the line.
    """
    content = read_file(path).removeprefix(codecs.BOM_UTF8)
    questions: list[Question] = []
    story = _Story()
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            text = line.decode("utf-8").strip()
            if text:
                story = story.next(text)
                questions += story.asked
        except ValueError as error:  # including UnicodeDecodeError
            what = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
            raise FathomError(f"{path}, line {number}: {what}") from error
    if not questions:
        raise FathomError(f"{path} holds no question")
    if not content.endswith(b"\n"):
        raise FathomError(f"{path} ends within a line: is it cut off?")
    return questions


@dataclass(frozen=True)
class _Story:
    """A story up to one of its lines."""

    number: int = 0  # of the line, in the story
    statements: tuple[tuple[int, Words], ...] = ()  # the statements so far by line number
    asked: tuple[Question, ...] = ()  # the question of this line; empty for a statement

    def next(self, line: str) -> "_Story":
        """Returns the story with one more line, or a new one that starts with it.

        Raises:
            ValueError: the line is malformed.
        """
        number, statements = self._place(line)
        _, _, text = line.partition(" ")
        if "\t" not in text:
            if "?" in text:
                raise ValueError("a question without a tab and its answer")
            words = _split(text)
            if not text.rstrip().endswith("."):
                raise ValueError("a statement without its full stop: the file may be cut off")
            return _Story(number, (*statements, (number, words)))
        if not statements:
            raise ValueError("a question before any statement of its story")
        asked = _parse_question(text, [number for number, _ in statements])
        story = tuple(words for _, words in statements)
        return _Story(number, statements, (asked._replace(story=story),))

    def _place(self, line: str) -> tuple[int, tuple[tuple[int, Words], ...]]:
        """Returns the line's number and the previous statements of its story."""
        digits = line.partition(" ")[0]
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError(f"expected a number, a space and a sentence, not {line[:40]!r}")
        if digits == "1":
            return 1, ()
        if digits != str(self.number + 1):
            raise ValueError(
                f"number {digits[:20]} after {self.number}: a story's lines are numbered one by one"
            )
        return self.number + 1, self.statements


def _parse_question(text: str, lines: Sequence[int]) -> Question:
    """Returns a question without its story; ``lines`` are the numbers of the statements."""
    question, answer, *rest = text.split("\t")
    if len(rest) > 1:
        raise ValueError(f"{len(rest) + 1} tabs, expected a question, its answer and its support")
    if not answer.strip():
        raise ValueError("a question without an answer")
    if len(answer.split()) > 1 or ("?" in question and question.rpartition("?")[2].strip()):
        raise ValueError("words without a tab between: expected a question, its answer of one word")
    supporting = []
    for digits in (rest[0] if rest else "").split():
        if digits not in map(str, lines):
            raise ValueError(f"supporting fact {digits[:20]} is not a statement of the story")
        supporting.append(lines.index(int(digits)))
    return Question((), _split(question), answer.strip().lower(), tuple(supporting))


def _split(sentence: str) -> Words:
    """Returns a sentence's words in lower case, without its full stop or question mark."""
    words = tuple(sentence.strip().rstrip(".?").lower().split())
    if not words:
        raise ValueError("a sentence without words")
    return words


def _questions(tasks: Iterable[Splits]) -> list[Question]:
    """Returns the questions of all splits of tasks."""
    return [question for splits in tasks for split in splits for question in split]


def _words(questions: Iterable[Question]) -> list[str]:
    """Returns all words in alphabetical order."""
    words: set[str] = set()
    for story, question, answer, _ in questions:
        words.update(question, (answer,), *story)
    return sorted(words)


def _longest_story(tasks: Iterable[Splits]) -> int:
    """Returns the number of statements of the longest story not for test, at most 50."""
    trained = (question for train, valid, _ in tasks for question in (*train, *valid))
    return min(MOST_MEMORIES, max(len(question.story) for question in trained))


def _encode(
    questions: Sequence[Question], task: int, numbers: dict[str, int], memory: int, width: int
) -> Questions:
    """Encodes a task's questions as word indices."""
    count = len(questions)
    encoded = Questions(
        np.zeros((count, memory, width), np.int32),
        np.array([min(len(q.story), memory) for q in questions], np.int32),
        np.zeros((count, width), np.int32),
        np.array([numbers[q.answer] for q in questions], np.int32),
        np.full(count, task, np.int32),
    )
    for i, question in enumerate(questions):
        encoded.question[i, : len(question.question)] = [numbers[w] for w in question.question]
        for place, words in enumerate(reversed(question.story[-memory:])):
            encoded.story[i, place, : len(words)] = [numbers[word] for word in words]
    return encoded


def _concatenate(parts: Sequence[Questions]) -> Questions:
    fields = ("story", "lengths", "question", "answer", "task")
    return Questions(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields))
