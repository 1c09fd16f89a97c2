import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom import FathomError
from fathom.seq2seq.wmt import ParallelText, Wmt, write_lines


def write(folder, **contents):
    """Writes files; "train_en" becomes train.en."""
    for name, content in contents.items():
        content = content.encode() if isinstance(content, str) else content
        (folder / ".".join(name.rsplit("_", 1))).write_bytes(content)
    return folder


def text(folder, source, target):
    write(folder, train_en=source, train_de=target)
    return ParallelText(folder / "train.en", folder / "train.de")


def test_line_n_of_one_file_belongs_to_line_n_of_the_other(tmp_path):
    assert list(text(tmp_path, "a\nb\n", "A\nB\n")) == [("a\n", "A\n"), ("b\n", "B\n")]


def test_the_last_line_needs_no_end(tmp_path):
    assert len(list(text(tmp_path, "a\nb", "A\nB\n"))) == 2


def test_other_line_separators_stay_inside_a_line(tmp_path):
    odd = "a\u2028b\u00a0c\x85d\x0be\rf"
    pairs = list(text(tmp_path, odd + "\n", "A\n"))
    assert pairs == [(odd + "\n", "A\n")]


def test_nul_is_read_as_a_space_and_a_byte_order_mark_is_left_out(tmp_path):
    pairs = text(tmp_path, b"\xef\xbb\xbfa\0b\n\0\n", "A\nB\n")
    assert list(pairs) == [("a b\n", "A\n")]
    assert pairs.blank == 1


def test_pairs_with_a_blank_side_are_left_out_and_counted(tmp_path):
    pairs = text(tmp_path, "a\n \nc\n\n", "A\nB\n\n\n")
    assert [source for source, _ in pairs] == ["a\n"]
    assert pairs.blank == 3
    list(pairs)
    assert pairs.blank == 3  # of one pass


def test_gzip_is_told_by_its_content(tmp_path):
    pairs = text(tmp_path, gzip.compress(b"a\n"), "A\n")
    assert list(pairs) == [("a\n", "A\n")]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\nc\n", "A\n", r"train\.de has 1 lines and .*train\.en 3"),
        ("a\n", "A\nB\nC\n", r"train\.en has 1 lines and .*train\.de 3"),
        (b"a\nb\n\xff\xfe\n", "A\nB\nC\n", r"train\.en, line 3 is not UTF-8"),
        ("a\nb\n", b"A\n\xe4\n", r"train\.de, line 2 is not UTF-8"),
        ("", "", "no sentence pairs"),
        ("\n\n", "A\nB\n", "no sentence pairs"),
        (gzip.compress(b"a\n" * 999)[:-9], "A\n" * 999, r"train\.en is damaged"),
    ],
    ids=["shorter", "longer", "latin source", "latin target", "empty", "blank", "cut gzip"],
)
def test_a_malformed_text_is_named_in_one_line(tmp_path, source, target, message):
    with pytest.raises(FathomError, match=message) as error:
        list(text(tmp_path, source, target))
    assert "\n" not in str(error.value)


def test_a_file_that_vanished_is_named(tmp_path):
    with pytest.raises(FathomError, match=r"cannot read .*none\.en"):
        list(ParallelText(tmp_path / "none.en", tmp_path / "none.de"))


line = st.text(st.characters(codec="utf-8", exclude_characters="\n\0\ufeff"))


@given(st.lists(st.tuples(line, line), min_size=1))
def test_every_pair_of_random_lines_is_read_or_counted_as_blank(lines):
    with tempfile.TemporaryDirectory() as folder:
        sides = [Path(folder) / name for name in ("t.en", "t.de")]
        for path, side in zip(sides, zip(*lines, strict=True), strict=True):
            path.write_bytes("".join(f"{s}\n" for s in side).encode())
        pairs = ParallelText(*sides)
        whole = [(s, t) for s, t in lines if s.strip() and t.strip()]
        if not whole:
            with pytest.raises(FathomError, match="no sentence pairs"):
                list(pairs)
            return
        assert [(s[:-1], t[:-1]) for s, t in pairs] == whole
        assert pairs.blank == len(lines) - len(whole)


@given(st.binary(), st.binary())
def test_random_bytes_are_read_or_refused_in_one_line(source, target):
    with tempfile.TemporaryDirectory() as folder:
        refused = None
        try:
            pairs = list(text(Path(folder), source, target))
        except FathomError as error:
            refused = str(error)
        assert "\n" not in refused if refused else all(s.strip() and t.strip() for s, t in pairs)


@pytest.mark.parametrize(
    ("names", "target"),
    [
        (["train"], "de"),
        (["giga-fren.release2.fixed"], "fr"),
        (["europarl-v7.fr-en"], "fr"),
        (["europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v10.de-en"], "de"),
    ],
)
def test_the_training_texts_are_found_under_the_names_that_they_are_released_with(
    tmp_path, names, target
):
    for name in [*names, "newstest2013", "newstest2015"]:
        write_lines(tmp_path / f"{name}.en.gz", ("a",))
        write_lines(tmp_path / f"{name}.{target}", ("A",))
    found = Wmt.load(tmp_path, "en", target)
    assert sorted(t.source.name for t in found.training) == sorted(f"{n}.en.gz" for n in names)
    assert found.validation.target.name == f"newstest2013.{target}"
    assert found.test.target.name == f"newstest2015.{target}"


def test_the_text_may_be_one_folder_below(tmp_path):
    (tmp_path / "multi30k").mkdir()
    write(tmp_path / "multi30k", train_en="a\n", train_de="A\n")
    assert Wmt.load(tmp_path).training[0].source.parent.name == "multi30k"


def test_validation_and_test_text_may_be_missing(tmp_path):
    found = Wmt.load(write(tmp_path, train_en="a\n", train_de="A\n"))
    assert found.validation is None
    assert found.test is None


@pytest.mark.parametrize("present", [{}, {"train_en": "", "train_fr": ""}])
def test_a_folder_without_a_text_of_the_two_languages_is_refused(tmp_path, present):
    with pytest.raises(FathomError, match="no training text of en and de") as error:
        Wmt.load(write(tmp_path, **present))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["train", "europarl-v7.de-en", "val", "test_2016_flickr"])
@pytest.mark.parametrize(("here", "missing"), [("en", "de"), ("de", "en")])
def test_a_text_in_one_language_alone_is_refused(tmp_path, name, here, missing):
    write(tmp_path, train_en="a\n", train_de="A\n")
    (tmp_path / f"{name}.{missing}").unlink(missing_ok=True)
    write_lines(tmp_path / f"{name}.{here}.gz", ("a",))
    with pytest.raises(FathomError, match=rf"{name}\.{missing} is missing: {name}\.{here} is"):
        Wmt.load(tmp_path)


def test_a_text_of_another_pair_of_languages_is_passed_over(tmp_path):
    write(tmp_path, train_en="a\n", train_de="A\n", newstest2013_en="a\n", newstest2013_fr="b\n")
    assert Wmt.load(tmp_path).validation is None


def test_the_synthetic_text_is_a_function_of_the_seed(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        Wmt.synthesize(tmp_path / name, seed, train_size=20, test_size=5)
    first, same, other = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "abc"
    ]
    assert first == same
    assert first != other
    assert len(first) == 6


def test_the_synthetic_translation_puts_the_verb_last_and_its_articles_agree(tmp_path):
    Wmt.synthesize(tmp_path, 0, train_size=500, test_size=5)
    pairs = dict(Wmt.load(tmp_path).training[0])
    verbs = {"viset", "amet", "trovet", "folget", "horet", "malet", "traget", "denket"}
    for said in pairs.values():
        for clause in said.rstrip(".\n").split(","):
            assert clause.split()[-1] in verbs
            assert sum(word in verbs for word in clause.split()) == 1
    for source, said in pairs.items():
        if source.startswith("the dog "):
            assert said.startswith("do hunto ")


def test_multi30k_has_29000_pairs(real_data):
    found = Wmt.find(real_data / "wmt", "en", "de")
    assert sum(1 for _ in found.training[0]) == 29_000
    assert sum(1 for _ in found.test) == 1_000
