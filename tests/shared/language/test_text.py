"""Texts, their tokens, and the grammar with a known entropy."""

import math
from collections import Counter

import numpy as np
import pytest

from fathom import workloads
from fathom.errors import FathomError
from fathom.shared.language import grammar, vocabulary
from fathom.shared.language.text import TinyShakespeare

TEXT = "To be, or not to be: that is the question. Ähm, œuvre 日本.\n" * 40


def test_the_text_is_cut_as_in_nanogpt(tmp_path):
    (tmp_path / "input.txt").write_text("0123456789" * 3 + "ab")
    text = TinyShakespeare.load(tmp_path)
    assert (len(text.training), text.validation) == (28, "89ab")
    assert text.entropy is None


def test_a_byte_order_mark_is_no_character(tmp_path):
    (tmp_path / "input.txt").write_text("0123456789", encoding="utf-8-sig")
    assert TinyShakespeare.load(tmp_path).training == "012345678"


def test_the_real_text_has_its_characters(real_data):
    text = TinyShakespeare.load(real_data / "tinyshakespeare")
    assert (len(text.training), len(text.validation)) == (1_003_854, 111_540)
    assert len(vocabulary.build("characters", text.training + text.validation, 0)) == 65


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "is empty"), (b"abc\xff", "is not UTF-8 text: byte 3")]
)
def test_an_unusable_file_is_named(content, message, tmp_path):
    with pytest.raises(FathomError, match=r"input\.txt"):
        TinyShakespeare.load(tmp_path)
    (tmp_path / "input.txt").write_bytes(content)
    with pytest.raises(FathomError, match=message):
        TinyShakespeare.load(tmp_path)


@pytest.mark.parametrize("entropy", [b"", b"1.5\n2.5\n", b"high\n", b"nan\n", b"\xff"])
def test_an_entropy_that_is_no_number_is_refused(entropy, tmp_path):
    (tmp_path / "input.txt").write_text("0123456789")
    (tmp_path / "entropy.txt").write_text("1.5\n")
    assert TinyShakespeare.load(tmp_path).entropy == 1.5
    (tmp_path / "entropy.txt").write_bytes(entropy)
    with pytest.raises(FathomError, match=r"entropy\.txt, 1 in all"):
        TinyShakespeare.load(tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in vocabulary.KINDS if kind != "published"])
def test_a_text_comes_back_from_its_tokens(kind, monkeypatch, tmp_path):
    if kind == "bpe":
        monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    words = vocabulary.build(kind, TEXT, 400)
    tokens = words.encode(TEXT)
    assert tokens.dtype == np.int32
    assert tokens.min() >= 0
    assert tokens.max() < len(words) <= 400
    assert words.decode(tokens) == TEXT
    assert words.decode(np.array([*tokens[:3], 9_999])) == words.decode(tokens[:3])
    assert vocabulary.build(kind, TEXT, 400).identity == words.identity  # from the cache
    if kind != "characters":  # which has only those of the text
        assert words.decode(words.encode("a\n\n  new ß")) == "a\n\n  new ß"
    assert (len(tokens) < 0.6 * len(TEXT)) == (kind == "bpe")


def test_a_vocabulary_without_room_for_the_characters_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    with pytest.raises(FathomError, match="no vocabulary of 260 tokens"):
        vocabulary.build("bpe", TEXT, 260)


def test_an_unknown_character_is_named():
    with pytest.raises(FathomError, match="no character 'x'"):
        vocabulary.build("characters", "abc", 0).encode("abx")


def test_byte_pairs_are_of_long_lines_too():
    text = " ".join(f"word{i % 90} follows" for i in range(1500))
    assert len(text) > 4192
    tokens = vocabulary.BytePairs(text, 380)
    assert len(tokens.encode(text)) < len(text) / 3


def test_synthetic_texts_follow_their_seed():
    first, entropy = grammar.write(1, 2_000)
    assert grammar.write(1, 2_000) == (first, entropy)
    assert grammar.write(2, 2_000)[0] != first


def test_the_entropy_is_that_of_the_sentences():
    text, entropy = grammar.write(0)
    verbs = Counter(word for word in text.split() if word in ("loves", "fears"))
    assert verbs["loves"] / verbs["fears"] == pytest.approx(4 / 3, rel=0.1)
    # The mean surprise of sentences by their own probabilities, derived from the rules anew.
    surprises = []
    for line in text.splitlines()[:3_000]:
        probability = 0.3 if ", " in line else 0.7
        for clause in line.rstrip(".").replace(", and ", ", ").replace(", but ", ", ").split(", "):
            probability *= clause_probability(clause)
        probability *= 0.5 if ", " in line else 1
        surprises.append(-math.log(probability))
    lengths = [len(line) + 1 for line in text.splitlines()[:3_000]]
    assert np.sum(surprises) / np.sum(lengths) == pytest.approx(entropy, rel=0.02)


def clause_probability(clause):
    of_noun = {"king": 0.3, "queen": 0.2, "fool": 0.2, "ghost": 0.1, "merchant": 0.1, "witch": 0.1}
    of_quality = {"old": 0.5, "noble": 0.3, "pale": 0.2}
    of_verb = {"loves": 0.4, "fears": 0.3, "betrays": 0.2, "forgives": 0.1}
    of_move = {"dies": 0.5, "sleeps": 0.3, "returns": 0.2}
    words = clause.split()
    probability = 0.6 if of_verb.keys() & set(words) else 0.4
    for i, word in enumerate(words):
        for known in (of_noun, of_quality, of_verb, of_move):
            probability *= known.get(word, 1)
        if word == "a":
            probability *= 0.3
        elif word == "the":
            probability *= 0.2 if words[i + 1] in of_quality else 0.5
    return probability


def test_published_tokens_are_those_of_the_file(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=["<s>"], show_progress=False
    )
    theirs.train_from_iterator([TEXT], trainer)
    theirs.save(str(tmp_path / "tokenizer.json"))
    words = vocabulary.build("published", TEXT, 0, tmp_path)
    assert len(words) == theirs.get_vocab_size()
    tokens = words.encode(TEXT)
    assert tokens.tolist() == theirs.encode(TEXT).ids
    assert words.decode(np.array([*tokens, 9_999])) == TEXT
    assert vocabulary.build("published", "", 0, tmp_path).identity == words.identity
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(FathomError, match=r"tokenizer\.json is no tokenizer"):
        vocabulary.build("published", TEXT, 0, tmp_path)
    with pytest.raises(FathomError, match="add --set weights=DIR"):
        vocabulary.build("published", TEXT, 0)


def test_a_short_validation_text_is_continued(tmp_path):
    (tmp_path / "input.txt").write_text(700 * "ab")
    sizes = {"layers": 1, "heads": 2, "width": 8, "batch_size": 2, "xla": False}
    model = workloads.load("gpt")("cpu", sizes | {"data_dir": str(tmp_path), "prompt_tokens": 60})
    model.setup()
    written = model.save_pictures(tmp_path)[0].read_text()
    assert written.count("ab") > 90
