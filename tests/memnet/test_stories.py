"""The synthetic stories: an independent reader of their sentences must come to the same answers."""

import re

import pytest

from fathom.memnet.babi import Babi, read_questions

SIZE = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    directory = tmp_path_factory.mktemp("babi")
    Babi.synthesize(directory, 0, train_size=SIZE, test_size=50)
    return directory / "tasks_1-20_v1-2" / "en"


def questions(folder, task):
    return read_questions(next(folder.glob(f"qa{task}_*train.txt")))


def places(story):
    """Returns where each person went last, and what they hold, and where things were left."""
    where, held, left = {}, {}, {}
    for person, *words in story:
        text = " ".join(words)
        if moved := re.search(r"(?:moved|went|back|travelled|journeyed) to the (\w+)$", text):
            where[person] = moved[1]
        elif taken := re.search(r"(?:got|grabbed|took|picked up) the (\w+) there$", text):
            held[taken[1]] = person
            left.pop(taken[1], None)
        elif dropped := re.search(r"(?:dropped|down|left|discarded) the (\w+) there$", text):
            del held[dropped[1]]
            left[dropped[1]] = where[person]
        else:
            raise AssertionError(text)
    return where, held, left


def test_task_1_asks_where_a_person_is(folder):
    for q in questions(folder, 1):
        assert q.answer == places(q.story)[0][q.question[-1]]
        assert len(q.supporting) == 1
        assert q.story[q.supporting[0]][-1] == q.answer


def test_task_2_asks_where_an_object_is(folder):
    for q in questions(folder, 2):
        where, held, left = places(q.story)
        thing = q.question[-1]
        assert q.answer == (where[held[thing]] if thing in held else left[thing])
        handled, moved = (q.story[i] for i in q.supporting)
        assert thing in handled
        assert moved[-1] == q.answer


def test_task_6_asks_whether_a_person_is_in_a_place(folder):
    asked = questions(folder, 6)
    for q in asked:
        is_there = places(q.story)[0][q.question[1]] == q.question[-1]
        assert q.answer == ("yes" if is_there else "no")
    share = sum(q.answer == "yes" for q in asked) / len(asked)
    assert 0.35 < share < 0.75


def test_task_15_asks_whom_somebody_is_afraid_of(folder):
    singular = {"cats": "cat", "mice": "mouse", "sheep": "sheep", "wolves": "wolf"}
    for q in questions(folder, 15):
        afraid = {singular[s[0]]: singular[s[-1]] for s in q.story if "afraid" in s}
        kind = {s[0]: s[-1] for s in q.story if "afraid" not in s}
        assert q.answer == afraid[kind[q.question[2]]]
        assert {q.story[i][0] for i in q.supporting} >= {q.question[2]}


def test_task_20_asks_for_motives_and_what_follows_from_them(folder):
    goes = {"bored": "garden", "hungry": "kitchen", "thirsty": "kitchen", "tired": "bedroom"}
    for q in questions(folder, 20):
        state = {s[0]: s[-1] for s in q.story if s[1] == "is"}
        motive = state[q.question[2]]
        assert q.answer == (goes[motive] if q.question[0] == "where" else motive)
        assert q.story[q.supporting[0]] == (q.question[2], "is", motive)


@pytest.mark.parametrize("task", [1, 2, 6, 15, 20])
def test_each_task_has_as_many_questions_as_were_asked_for(folder, task):
    assert len(questions(folder, task)) == SIZE
    assert len(read_questions(next(folder.glob(f"qa{task}_*test.txt")))) == 50


def test_the_same_seed_writes_the_same_bytes_and_another_seed_others(tmp_path):
    written = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        Babi.synthesize(tmp_path / name, seed, train_size=20, test_size=10)
        files = sorted((tmp_path / name).rglob("*.txt"))
        written.append({path.name: path.read_bytes() for path in files})
    assert written[0] == written[1]
    assert len(written[0]) == 10
    assert all(written[0][name] != written[2][name] for name in written[0])


def test_the_default_size_is_that_of_babi(tmp_path):
    Babi.synthesize(tmp_path, 0)
    babi = Babi.load(tmp_path, 20)
    assert (len(babi.train), len(babi.validation), len(babi.test)) == (900, 100, 1_000)
