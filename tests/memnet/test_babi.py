import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fathom.errors import FathomError
from fathom.memnet.babi import JOINT, Babi, Question, read_questions

any_content = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

STORY = """\
1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Mary travelled to the office.
5 Where is Mary?\toffice\t4
1 John is in the garden.
2 Where is John?\tGarden\t1
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_task(folder, task=1, train=STORY, test=STORY, name="single-supporting-fact_"):
    write(folder / f"qa{task}_{name}train.txt", train)
    write(folder / f"qa{task}_{name}test.txt", test)
    return folder


def error_of(directory, **options):
    with pytest.raises(FathomError) as caught:
        Babi.load(directory, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def error_in(tmp_path, text):
    path = write(tmp_path / "file.txt", text)
    with pytest.raises(FathomError) as caught:
        read_questions(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_questions_are_read_with_the_statements_before_them(tmp_path):
    first, second, third = read_questions(write(tmp_path / "file.txt", STORY))
    assert first == Question(
        (("mary", "moved", "to", "the", "bathroom"), ("john", "went", "to", "the", "hallway")),
        ("where", "is", "mary"),
        "bathroom",
        (0,),
    )
    assert len(second.story) == 3
    assert second.supporting == (2,)
    assert third.story == (("john", "is", "in", "the", "garden"),)
    assert third.answer == "garden"


def test_a_space_before_the_tab_makes_no_difference(tmp_path):
    spaced, plain = (
        read_questions(write(tmp_path / "file.txt", f"1 A b.\n2 Who?{tab}b\t1\n"))
        for tab in (" \t", "\t")
    )
    assert spaced == plain


def test_answers_joined_by_commas_are_one_word(tmp_path):
    text = "1 John took the milk.\n2 What is John carrying?\tmilk,football\t1\n"
    assert read_questions(write(tmp_path / "file.txt", text))[0].answer == "milk,football"
    babi = Babi.load(write_task(tmp_path / "en", 8, 10 * text, text), 8)
    assert "milk,football" in babi.vocabulary


def test_carriage_returns_and_blank_lines_are_passed_over(tmp_path):
    text = STORY.replace("\n", "\r\n") + "\n \n"
    assert read_questions(write(tmp_path / "a.txt", text)) == read_questions(
        write(tmp_path / "b.txt", STORY)
    )


def test_a_question_may_name_no_support(tmp_path):
    for end in ("\n", "\t\n"):
        path = write(tmp_path / "file.txt", f"1 A b.\n2 Who?\tb{end}")
        assert read_questions(path)[0].supporting == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 Where is Mary?\thall\t1\n", "line 1: a question before any statement of its story"),
        ("1 A b.\n2 Who?\tb\t3\n", "line 2: supporting fact 3 is not a statement of the story"),
        ("1 A b.\n2 Who?\tb\t1 2\n", "line 2: supporting fact 2 is not a statement"),
        ("1 A b.\n2 Who?\tb\tx\n", "line 2: supporting fact x is not a statement"),
        ("1 A b.\n3 Who?\tb\t1\n", "line 2: number 3 after 1: a story's lines are numbered one"),
        ("2 A b.\n", "line 1: number 2 after 0"),
        ("1 A b.\n2 Who is it?\n", "line 2: a question without a tab and its answer"),
        ("1 A b.\n2 Who is it? b 1\n", "line 2: a question without a tab and its answer"),
        ("1 A b.\n2 Who?\tb\t1\n3 Whe", "line 3: a statement without its full stop"),
        ("1 A b.\n2 Who?\tbo", "ends within a line: is it cut off?"),
        ("1 A b.\n2 Who?\t \t1\n", "line 2: a question without an answer"),
        ("1 A b.\n2 Who?\tb\t1\t1\n", "line 2: 3 tabs, expected"),
        ("1 A b.\n2 Who? b\t1\n", "line 2: words without a tab between"),
        ("1 A b.\n2 Who?\tb 1\n", "line 2: words without a tab between"),
        ("1 A b.\n2 ?\tb\t1\n", "line 2: a sentence without words"),
        ("1 A b.\nWho?\tb\t1\n", "line 2: expected a number, a space and a sentence"),
        ("1\n", "line 1: a sentence without words"),
        ("", "holds no question"),
        ("1 A b.\n", "holds no question"),
    ],
)
def test_a_malformed_line_is_named_with_what_is_wrong(tmp_path, text, message):
    assert message in error_in(tmp_path, text)


def test_a_file_that_is_not_utf_8_is_named_with_its_line(tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(b"1 A b.\n2 \xff.\n")
    with pytest.raises(FathomError, match="line 2: is not UTF-8"):
        read_questions(path)


def test_a_byte_order_mark_is_passed_over(tmp_path):
    marked = write(tmp_path / "marked.txt", "\ufeff" + STORY)
    assert read_questions(marked) == read_questions(write(tmp_path / "plain.txt", STORY))


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FathomError, match="cannot read"):
        read_questions(tmp_path / "nowhere.txt")


@pytest.mark.parametrize("below", ["tasks_1-20_v1-2/en", "en", "."])
def test_the_folder_may_be_the_languages_or_one_above(tmp_path, below):
    write_task(tmp_path / below)
    assert Babi.load(tmp_path).tasks == (1,)


def test_other_languages_and_sizes_are_read_where_they_are_named(tmp_path):
    write_task(tmp_path / "en", train=10 * STORY)
    write_task(tmp_path / "en-10k", train=20 * STORY)
    assert len(Babi.load(tmp_path).train) == 27
    assert len(Babi.load(tmp_path / "en-10k").train) == 54


def test_a_tenth_of_the_training_questions_is_held_out(tmp_path):
    babi = Babi.load(write_task(tmp_path, train=10 * STORY))
    assert (len(babi.train), len(babi.validation), len(babi.test)) == (27, 3, 3)


def test_one_question_cannot_be_both_trained_on_and_held_out(tmp_path):
    one = "1 A b.\n2 Who?\tb\t1\n"
    message = error_of(write_task(tmp_path, train=one, name=""))
    assert "qa1_train.txt holds one question, which is held out for validation" in message
    write(tmp_path / "qa1_valid.txt", one)
    assert len(Babi.load(tmp_path).train) == 1


def test_a_memory_that_does_not_fit_is_refused_with_its_size(tmp_path):
    message = error_of(write_task(tmp_path, train=10 * STORY), memory=2**31 - 1)
    # 33 questions, 5 words a sentence, 4 bytes a word
    assert message.startswith(f"33 stories would take {33 * (2**31 - 1) * 5 * 4:,} bytes (1320.0")
    assert message.endswith("GiB are free: set a smaller memory")


def test_the_valid_trees_have_a_file_of_their_own(tmp_path):
    write_task(tmp_path, train=10 * STORY, name="")
    write(tmp_path / "qa1_valid.txt", 2 * STORY)
    babi = Babi.load(tmp_path)
    assert (len(babi.train), len(babi.validation), len(babi.test)) == (30, 6, 3)


def test_task_1_is_not_taken_for_task_10(tmp_path):
    write_task(tmp_path, 10, train=10 * STORY)
    assert "has no task 1 (qa1_*train.txt): 10 is there" in error_of(tmp_path, task=1)


def test_what_is_missing_is_named(tmp_path):
    assert "has no task: bAbI is expected as tasks_1-20_v1-2" in error_of(tmp_path)
    write(tmp_path / "qa2_two-supporting-facts_train.txt", STORY)
    assert "qa2_two-supporting-facts_train.txt has no qa2_*test.txt" in error_of(tmp_path, task=2)
    assert "has no task 3" in error_of(tmp_path, task=3)


def test_the_newest_sentences_come_first_and_fill_the_memory(tmp_path):
    babi = Babi.load(write_task(tmp_path, train=10 * STORY), memory=4)
    words = [[babi.vocabulary[w] for w in s if w] for s in babi.test.story[1]]
    assert words == [
        ["mary", "travelled", "to", "the", "office"],
        ["john", "went", "to", "the", "hallway"],
        ["mary", "moved", "to", "the", "bathroom"],
        [],
    ]
    assert babi.test.lengths.tolist() == [2, 3, 1]


def test_a_story_longer_than_the_memory_keeps_its_newest_sentences(tmp_path):
    lines = [f"{i} Word{i} is here." for i in range(1, 229)]
    text = "\n".join([*lines, "229 Who is here?\tword228\t228", ""])
    babi = Babi.load(write_task(tmp_path, train=2 * text, test=text))
    first_words = [babi.vocabulary[sentence[0]] for sentence in babi.test.story[0]]
    assert first_words == [f"word{i}" for i in range(228, 178, -1)]


def test_the_longest_memory_holds_the_longest_training_story_and_at_most_50_sentences(tmp_path):
    longer = "".join(f"{i} Mary moved on.\n" for i in range(1, 8)) + "8 Who is it?\tMary\t1\n"
    babi = Babi.load(write_task(tmp_path, train=10 * STORY, test=longer), memory="longest")
    assert babi.train.story.shape[1] == 3
    assert babi.test.lengths.tolist() == [3]
    longest = "".join(f"{i} Mary moved on.\n" for i in range(1, 60)) + "60 Who is it?\tMary\t1\n"
    babi = Babi.load(write_task(tmp_path, train=10 * longest), memory="longest")
    assert babi.train.story.shape[1] == 50


def test_the_null_word_is_no_word_of_the_vocabulary(tmp_path):
    babi = Babi.load(write_task(tmp_path, train=10 * STORY))
    assert babi.vocabulary[0] == ""
    assert list(babi.vocabulary[1:]) == sorted(set(babi.vocabulary[1:]))
    assert babi.test.answer.min() >= 1


def test_several_tasks_are_joined_with_one_vocabulary(tmp_path):
    write_task(tmp_path, 1, train=10 * STORY)
    write_task(tmp_path, 2, train=10 * STORY.replace("Mary", "Sandra"), test=2 * STORY)
    joint = Babi.load(tmp_path, JOINT)
    assert joint.tasks == (1, 2)
    assert {"mary", "sandra"} < set(joint.vocabulary)
    assert np.bincount(joint.test.task).tolist() == [0, 3, 6]
    assert "sandra" not in Babi.load(tmp_path, 1).vocabulary
    assert Babi.load(tmp_path, 1, joint_vocabulary=True).vocabulary == joint.vocabulary


word = st.text(st.characters(categories=["Lu", "Ll", "Nd"]), min_size=1, max_size=6)
sentence = st.lists(word.map(str.lower), min_size=1, max_size=5).map(tuple)
story = st.lists(sentence, min_size=1, max_size=6).map(tuple)


@any_content
@given(st.lists(st.tuples(story, sentence, word.map(str.lower)), min_size=1, max_size=4))
def test_what_is_written_is_read_back(tmp_path, asked):
    lines = []
    for heard, question, answer in asked:
        lines += [f"{i + 1} {' '.join(words)}." for i, words in enumerate(heard)]
        lines.append(f"{len(heard) + 1} {' '.join(question)}?\t{answer}\t{len(heard)}")
    read = read_questions(write(tmp_path / "file.txt", "\n".join([*lines, ""])))
    assert read == [Question(s, q, a, (len(s) - 1,)) for s, q, a in asked]


def read_or_refuse(path, content):
    path.write_bytes(content)
    try:
        questions = read_questions(path)
    except FathomError as error:
        message = str(error)
    else:
        assert questions
        assert all(question.story for question in questions)
        return
    assert path.name in message
    assert len(message.splitlines()) == 1


@any_content
@given(st.binary(max_size=200))
def test_random_bytes_are_questions_or_an_error(tmp_path, content):
    read_or_refuse(tmp_path / "file", content)


@any_content
@given(st.lists(st.sampled_from(["1", "2", "3", " ", "\t", "\n", "a", "?", ".", ","]), max_size=40))
def test_scrambled_stories_are_questions_or_an_error(tmp_path, pieces):
    read_or_refuse(tmp_path / "file", "".join(pieces).encode())


@any_content
@given(st.data())
def test_a_damaged_story_is_questions_or_an_error(tmp_path, data):
    content = bytearray(STORY.encode())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    read_or_refuse(tmp_path / "file", bytes(content))


def test_the_real_tasks_are_read(real_data):
    directory = Path(real_data) / "babi"
    joint = Babi.load(directory, JOINT)
    assert len(joint.tasks) == 20
    assert (len(joint.train), len(joint.validation), len(joint.test)) == (18_000, 2_000, 20_000)
    assert len(joint.vocabulary) == 175
    task = Babi.load(directory, 1)
    assert task.train.story.shape == (900, 50, 6)
    assert len(task.vocabulary) == 20


@pytest.mark.parametrize("folder", ["en-10k", "tasks_1-20_v1-2/en-10k"])
def test_the_only_language_that_is_there_is_read(tmp_path, folder):
    write_task(tmp_path / folder, train=4 * STORY)
    assert len(Babi.load(tmp_path).test) == 3


def test_english_is_read_where_it_is_there_and_several_others_are_named(tmp_path):
    write_task(tmp_path / "en-10k", train=4 * STORY)
    write_task(tmp_path / "hn", train=4 * STORY)
    assert "holds en-10k, hn and no en: give one of them as --data-dir" in error_of(tmp_path)
    write_task(tmp_path / "en", train=8 * STORY)
    assert len(Babi.load(tmp_path).train) > 15


def test_verifying_reads_every_task(tmp_path):
    write_task(tmp_path / "en", train=4 * STORY)
    write_task(tmp_path / "en", 2, train=4 * STORY)
    read = Babi.verify(tmp_path, Babi.Options(), False)
    assert read == "2 tasks in en, 30 questions, can be read"
    write(tmp_path / "en/qa2_single-supporting-fact_test.txt", "junk")
    with pytest.raises(FathomError, match=r"qa2_.*test\.txt, line 1"):
        Babi.verify(tmp_path, Babi.Options(), False)


def test_a_pipe_in_the_place_of_a_task_is_refused(tmp_path):
    write_task(tmp_path, train=4 * STORY)
    path = tmp_path / "qa1_single-supporting-fact_test.txt"
    path.unlink()
    os.mkfifo(path)
    assert f"{path} is not a regular file" in error_of(tmp_path)
