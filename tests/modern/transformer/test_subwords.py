"""The shared vocabulary of subwords."""

import numpy as np
import pytest

from fathom.errors import FathomError
from fathom.modern.transformer import subwords
from fathom.shared.translation.parallel import ParallelText, write_lines
from fathom.shared.translation.symbols import PAD, UNK

PAIRS = [("A dog sees a cat.", "Ein Hund sieht eine Katze."), ("Two dogs!", "Zwei Hunde!")] * 20


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """Gives a text in a folder of its own, whose vocabulary is not cached yet."""
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "cache"))
    for language, lines in zip(("en", "de"), zip(*PAIRS, strict=True), strict=True):
        write_lines(tmp_path / f"a.{language}.gz", lines)
    return (ParallelText(tmp_path / "a.en.gz", tmp_path / "a.de.gz"),)


def test_sentences_are_restored_as_written(texts):
    vocabulary = subwords.load(texts, 60)
    pairs = vocabulary.encode(PAIRS[:2])
    assert len(vocabulary) <= 60
    assert pairs.target.ids.min() > UNK
    words = np.append(pairs.target.padded(np.array([0]), pairs.target.sizes[0])[0], [7, PAD])
    assert vocabulary.sentence(words) == "Ein Hund sieht eine Katze."
    assert "".join(vocabulary.pieces(words)) == "▁Ein▁Hund▁sieht▁eine▁Katze."


def test_unknown_letters_are_unknown_words_and_are_not_said(texts):
    vocabulary = subwords.load(texts, 60)
    (ids,) = (vocabulary.encode([("a Ж cat", "a")]).source.ids,)
    assert UNK in ids
    assert vocabulary.sentence(ids) == "a cat"


def test_the_vocabulary_is_trained_once(texts, monkeypatch):
    first = subwords.load(texts, 60)
    with monkeypatch.context() as patch:
        patch.setattr(subwords, "_train", None)
        assert subwords.load(texts, 60).model == first.model
    assert subwords.load(texts, 50).model != first.model


def test_a_damaged_vocabulary_is_trained_anew(texts, tmp_path):
    first = subwords.load(texts, 60)
    (kept,) = (tmp_path / "cache" / "wmt").glob("*.model")
    kept.write_bytes(b"damaged")
    assert subwords.load(texts, 60).model == first.model


def test_a_small_text_has_fewer_subwords_than_allowed(texts):
    assert len(subwords.load(texts, 8000)) < 200


def test_a_vocabulary_without_room_for_the_letters_is_named(texts):
    with pytest.raises(FathomError, match="no vocabulary of 10 subwords can be made") as error:
        subwords.load(texts, 10)
    assert "\n" not in str(error.value)


def test_a_damaged_text_is_named_as_its_reader_names_it(texts, monkeypatch):
    def lines(texts):
        yield from ["A dog sees a cat."] * 100  # SentencePiece passes on only an error of the first
        raise FathomError("a.en.gz is damaged")

    monkeypatch.setattr(subwords, "_lines", lines)
    with pytest.raises(FathomError, match=r"^a\.en\.gz is damaged"):
        subwords.load(texts, 60)
