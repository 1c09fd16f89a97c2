import gzip
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom import FathomError
from fathom.core.data import files
from fathom.shared.translation import parallel
from fathom.shared.translation.multi30k import Multi30k
from fathom.shared.translation.parallel import ParallelText, write_lines
from fathom.shared.translation.wmt import Wmt


def write(folder, **contents):
    """Writes files; "train_en" becomes train.en."""
    for name, content in contents.items():
        content = content.encode() if isinstance(content, str) else content
        (folder / ".".join(name.rsplit("_", 1))).write_bytes(content)
    return folder


def text(folder, source, target):
    write(folder, train_en=source, train_de=target)
    return ParallelText(folder / "train.en", folder / "train.de")


ODD = "a\u2028b\u00a0c\x85d\x0be\rf\n"


@pytest.mark.parametrize(
    ("source", "target", "pairs"),
    [
        ("a\nb\n", "A\nB\n", [("a\n", "A\n"), ("b\n", "B\n")]),
        ("a\nb", "A\nB\n", [("a\n", "A\n"), ("b", "B\n")]),
        (ODD, "A\n", [(ODD, "A\n")]),
        (gzip.compress(b"a\n"), "A\n", [("a\n", "A\n")]),
    ],
    ids=["line by line", "last line without end", "other separators", "gzip without .gz"],
)
def test_line_n_of_one_file_belongs_to_line_n_of_the_other(tmp_path, source, target, pairs):
    assert list(text(tmp_path, source, target)) == pairs


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


line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0\ufeff"))


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
    assert Multi30k.load(tmp_path).training[0].source.parent.name == "multi30k"


def test_validation_and_test_text_may_be_missing(tmp_path):
    found = Multi30k.load(write(tmp_path, train_en="a\n", train_de="A\n"))
    assert found.validation is None
    assert found.test is None


@pytest.mark.parametrize("present", [{}, {"train_en": "", "train_fr": ""}])
def test_a_folder_without_a_text_of_the_two_languages_is_refused(tmp_path, present):
    with pytest.raises(FathomError, match="no training text of en and de") as error:
        Multi30k.load(write(tmp_path, **present))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["train", "val", "test_2016_flickr"])
@pytest.mark.parametrize(("here", "missing"), [("en", "de"), ("de", "en")])
def test_a_text_in_one_language_alone_is_refused(tmp_path, name, here, missing):
    write(tmp_path, train_en="a\n", train_de="A\n")
    (tmp_path / f"{name}.{missing}").unlink(missing_ok=True)
    write_lines(tmp_path / f"{name}.{here}.gz", ("a",))
    with pytest.raises(FathomError, match=rf"{name}\.{missing} is missing: {name}\.{here} is"):
        Multi30k.load(tmp_path)


def test_a_text_of_another_pair_of_languages_is_passed_over(tmp_path):
    write(tmp_path, train_en="a\n", train_de="A\n", newstest2013_en="a\n", newstest2013_fr="b\n")
    assert Multi30k.load(tmp_path).validation is None


def test_the_synthetic_text_is_a_function_of_the_seed(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        Multi30k.synthesize(tmp_path / name, seed, train_size=20, test_size=5)
    first, same, other = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "abc"
    ]
    assert first == same
    assert first != other
    assert len(first) == 6


def test_the_synthetic_translation_puts_the_verb_last_and_its_articles_agree(tmp_path):
    Multi30k.synthesize(tmp_path, 0, train_size=500, test_size=5)
    pairs = dict(Multi30k.load(tmp_path).training[0])
    verbs = {"viset", "amet", "trovet", "folget", "horet", "malet", "traget", "denket"}
    for other_side in pairs.values():
        for clause in other_side.rstrip(".\n").split(","):
            assert clause.split()[-1] in verbs
            assert sum(word in verbs for word in clause.split()) == 1
    for source, other_side in pairs.items():
        if source.startswith("the dog "):
            assert other_side.startswith("do hunto ")


def test_both_sets_are_synthesized_with_the_same_text_under_their_own_names(tmp_path):
    texts = []
    for dataset in (Wmt, Multi30k):
        folder = tmp_path / dataset.name
        folder.mkdir()
        dataset.synthesize(folder, 0, train_size=20, test_size=5)
        texts.append([list(text) for text in dataset.load(folder).texts()])
        assert dataset.recognizes(folder)
    assert texts[0] == texts[1]
    assert not Wmt.recognizes(tmp_path / "multi30k")
    assert not Multi30k.recognizes(tmp_path / "wmt")


@pytest.mark.parametrize("form", ["tok", "lc.norm.tok"])
def test_a_tokenized_text_is_read_where_there_is_no_other(tmp_path, form):
    write(tmp_path, **{f"train.{form}_en": "a\n", f"train.{form}_de": "A\n"})
    assert Multi30k.load(tmp_path).training[0].source.name == f"train.{form}.en"
    write(tmp_path, train_en="b\n", train_de="B\n")
    assert Multi30k.load(tmp_path).training[0].source.name == "train.en"


def test_two_tokenized_forms_are_not_chosen_between(tmp_path):
    for form in ("tok", "lc.tok"):
        write(tmp_path, **{f"train.{form}_en": "a\n", f"train.{form}_de": "A\n"})
    with pytest.raises(FathomError, match=r"train as train\.lc\.tok and train\.tok: keep one"):
        Multi30k.load(tmp_path)


def test_a_pipe_in_the_place_of_a_text_is_refused(tmp_path):
    write(tmp_path, train_en="a\n")
    os.mkfifo(tmp_path / "train.de")
    with pytest.raises(FathomError, match=r"train\.de is not a regular file"):
        list(Multi30k.load(tmp_path).training[0])


def test_a_gzip_file_that_unpacks_to_far_more_than_text_does_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_UNCHECKED_BYTES", 1000)
    with pytest.raises(FathomError, match=r"train\.en unpacks to over 100 times its size"):
        list(text(tmp_path, gzip.compress(b"\n" * 10**6), "A\n"))


def test_a_line_without_an_end_is_not_read_whole(tmp_path):
    with pytest.raises(FathomError, match="line 2 is longer than 1048576 bytes"):
        list(text(tmp_path, b"a\n" + bytes(3 << 20), "A\nB\n"))


def test_verifying_reads_the_texts_of_the_languages_a_sample_or_all(tmp_path, monkeypatch):
    write(tmp_path, train_en="a\nb\nc\n", train_fr=b"A\nB\n\xff\n")
    french = Multi30k.Options(target_language="fr")
    with pytest.raises(FathomError, match="no training text of en and de"):
        Multi30k.verify(tmp_path, Multi30k.Options(), False)
    monkeypatch.setattr(parallel, "_SAMPLE", 2)
    read = "2 sentence pairs of en and fr can be read (up to 2 of each text; --all: all)"
    assert read in Multi30k.verify(tmp_path, french, False)
    with pytest.raises(FathomError, match=r"train\.fr, line 3 is not UTF-8"):
        Multi30k.verify(tmp_path, french, True)


def test_multi30k_has_29000_pairs(real_data):
    found = Multi30k.load(real_data / "wmt", "en", "de")
    assert sum(1 for _ in found.training[0]) == 29_000
    assert sum(1 for _ in found.test) == 1_000
