import numpy as np
import pytest

from fathom.speech import synthetic
from fathom.speech.audio import decode
from fathom.speech.phones import INDEX
from fathom.speech.synthetic import SOUNDS, WORDS, Speaker
from fathom.speech.timit import Timit

MAN = Speaker("mabc0", pitch=110, tract=1.0, pace=1.0)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    directory = tmp_path_factory.mktemp("timit")
    Timit.synthesize(directory, seed=3)
    return directory


def spectrum_peak(phone, low, high):
    """Returns the strongest frequency of a long phone between two, in Hz."""
    ends = np.array([1600, 9600, 11200])
    wave = synthetic.speak(["h#", phone, "h#"], ends, MAN, np.random.default_rng(0))[3200:8000]
    power = np.abs(np.fft.rfft(wave * np.hanning(len(wave)))) ** 2
    frequencies = np.fft.rfftfreq(len(wave), 1 / synthetic.RATE)
    inside = (frequencies >= low) & (frequencies < high)
    return frequencies[inside][power[inside].argmax()]


def test_the_tree_is_read_as_timit_and_nothing_is_left_out(tree, tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    timit = Timit.load(tree)
    assert (len(timit.train), len(timit.validation), len(timit.test)) == (58, 6, 16)
    assert timit.skipped == {}
    assert timit.train.frames.mean() > 200
    speakers = [{name.split("/")[-2] for name in part.names} for part in (timit.train, timit.test)]
    assert list(map(len, speakers)) == [8, 4]
    assert not speakers[0] & speakers[1]


def test_every_utterance_has_its_words_and_text_beside_its_phones(tree):
    paths = sorted(tree.rglob("*.wav"))
    assert len(paths) == 80
    for path in paths:
        audio = decode(path.read_bytes(), path)
        phones = [line.split() for line in path.with_suffix(".phn").read_text().splitlines()]
        words = [line.split() for line in path.with_suffix(".wrd").read_text().splitlines()]
        spoken = [phone for _, _, word in words for phone in WORDS[word].split()]
        assert [phone for _, _, phone in phones] == ["h#", *spoken, "h#"]
        assert int(phones[-1][1]) == len(audio.samples)
        text = " ".join(word for _, _, word in words).capitalize()
        assert path.with_suffix(".txt").read_text() == f"0 {len(audio.samples)} {text}.\n"


def test_every_sound_is_a_phone_and_every_words_phone_has_a_sound():
    assert set(SOUNDS) <= set(INDEX)
    assert {phone for word in WORDS.values() for phone in word.split()} <= set(SOUNDS)


def test_the_seed_fixes_every_byte(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "SPEAKERS", {"train": 1, "test": 1})
    synthetic.write_tree(tmp_path, seed=3)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 4 * (8 + 4)
    for path in written:
        assert path.read_bytes() == (tree / path.relative_to(tmp_path)).read_bytes()


def test_a_vowel_has_its_formants_and_a_fricative_its_band():
    for phone in ("iy", "aa", "ux"):
        first, second, _ = SOUNDS[phone].formants
        assert spectrum_peak(phone, 150, (first + second) / 2) == pytest.approx(first, abs=90)
    assert spectrum_peak("s", 0, 8000) == pytest.approx(6000, abs=1200)
    assert spectrum_peak("sh", 0, 8000) == pytest.approx(3000, abs=1200)


def test_speakers_differ_in_pitch_and_tract():
    speakers = [Speaker.draw(np.random.default_rng(seed)) for seed in range(20)]
    assert {speaker.name[0] for speaker in speakers} == {"f", "m"}
    assert len({round(speaker.pitch) for speaker in speakers}) > 10
    assert max(s.tract for s in speakers) - min(s.tract for s in speakers) > 0.1
