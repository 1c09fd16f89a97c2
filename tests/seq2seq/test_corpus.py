import pytest

from fathom import FathomError
from fathom.seq2seq import corpus
from fathom.seq2seq.corpus import Settings
from fathom.shared.translation.parallel import ParallelText, write_lines
from fathom.shared.translation.symbols import UNK

SETTINGS = Settings(source_size=7, target_size=8, lowercase=False)


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "cache"))
    write_lines(tmp_path / "a.en.gz", ("one two two", "", "three two three four"))
    write_lines(tmp_path / "a.de.gz", ("eins zwei", "null", "drei"))
    return (ParallelText(tmp_path / "a.en.gz", tmp_path / "a.de.gz"),)


def same(a, b):
    return (
        a.source.words == b.source.words
        and a.target.words == b.target.words
        and a.pairs.source.ids.tolist() == b.pairs.source.ids.tolist()
        and a.pairs.target.lengths.tolist() == b.pairs.target.lengths.tolist()
        and a.blank == b.blank
    )


def test_words_become_numbers_and_the_rarest_are_unknown(texts):
    built = corpus.load(texts, SETTINGS)
    assert built.source.words[4:] == ("two", "three", "four")
    assert built.pairs.source.ids.tolist() == [UNK, 4, 4, 5, 4, 5, 6]
    assert built.pairs.source.lengths.tolist() == [3, 4]
    assert built.pairs.target.lengths.tolist() == [2, 1]
    assert built.blank == 1


def test_a_text_with_nul_in_a_word_is_kept(texts):
    write_lines(texts[0].source, ("one\0two", "", "three"))
    assert corpus.load(texts, SETTINGS).source.words[4:] == ("one", "three", "two")


def test_the_second_time_it_comes_from_the_cache(texts, monkeypatch):
    built = corpus.load(texts, SETTINGS)
    monkeypatch.setattr(corpus, "_build", lambda *_: pytest.fail("built again"))
    assert same(corpus.load(texts, SETTINGS), built)


def test_other_settings_or_another_text_are_built_again(texts):
    first = corpus.load(texts, SETTINGS)
    assert not same(corpus.load(texts, Settings(6, 8, False)), first)
    write_lines(texts[0].source, ("five", "six", "seven"))
    assert "five" in corpus.load(texts, SETTINGS).source.words


def test_a_damaged_cache_is_rebuilt(texts, tmp_path):
    built = corpus.load(texts, SETTINGS)
    (kept,) = (tmp_path / "cache" / "wmt").iterdir()
    kept.write_bytes(kept.read_bytes()[:100])
    assert same(corpus.load(texts, SETTINGS), built)


def test_a_cache_that_cannot_be_written_is_an_error_of_one_line(texts, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(FathomError, match=r"cannot write .*; set FATHOM_CACHE_DIR"):
        corpus.load(texts, SETTINGS)


def test_letters_made_small_are_other_words(texts):
    write_lines(texts[0].source, ("One", "", "one"))
    write_lines(texts[0].target, ("eins", "", "zwei"))
    built = corpus.load(texts, Settings(7, 8, lowercase=True))
    assert built.source.words[4:] == ("one",)
    assert built.encode([("ONE", "eins")]).source.ids.tolist() == [4]
