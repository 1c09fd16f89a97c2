"""The sums: what is generated, and what a file has to have."""

import pytest

from fathom.errors import FathomError
from fathom.modern.grpo.sums import Sums


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """Gives the synthetic sums."""
    folder = tmp_path_factory.mktemp("sums")
    Sums.synthesize(folder, 0)
    return Sums.load(folder)


def lines_of(sums, part):
    return [part[i : i + sums.sequence] for i in range(0, len(part), sums.sequence)]


def test_all_sums_of_two_digits_are_there_once_and_right(generated):
    assert (generated.question, generated.sequence) == (6, 10)
    lines = [
        line
        for part in (generated.training, generated.validation)
        for line in lines_of(generated, part)
    ]
    assert len(lines) == len(set(lines)) == 10_000
    for line in lines:
        first, second, answer = int(line[:2]), int(line[3:5]), line[6:]
        assert answer == f"{first + second}".ljust(4, "\n")


def test_no_pair_of_operands_is_in_both_parts(generated):
    pairs = [
        {frozenset((line[:2], line[3:5])) for line in lines_of(generated, part)}
        for part in (generated.training, generated.validation)
    ]
    assert not pairs[0] & pairs[1]
    assert len(pairs[1]) == 505


def test_the_seed_decides(tmp_path, generated):
    Sums.synthesize(tmp_path, 1)
    assert Sums.load(tmp_path).validation != generated.validation


@pytest.mark.parametrize(
    ("training", "held_out", "message"),
    [
        ("1+1=2\n", "", "held-out.txt is empty"),
        ("1+1=2\n1+2=4\n", "2+2=4\n", "line 2: expected a sum such as"),
        ("1+1=2\n", "2-2=0\n", "line 1: expected a sum such as"),
        ("1+1=2\n", "02+02=4\n", "several lengths"),
        ("1+2=3\n", "2+1=3\n", "both files have a sum of 1 and 2"),
    ],
)
def test_a_wrong_file_is_named_in_one_line(tmp_path, training, held_out, message):
    (tmp_path / "training.txt").write_text(training)
    (tmp_path / "held-out.txt").write_text(held_out)
    with pytest.raises(FathomError, match=message) as error:
        Sums.load(tmp_path)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FathomError, match=r"training\.txt"):
        Sums.load(tmp_path)
