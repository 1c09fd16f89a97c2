"""A small imitation of TIMIT: sentences of a few words, spoken by a simple formant synthesizer.

A voice is a sum of harmonics whose amplitudes follow three formants; fricatives and bursts are
band-limited noise. Formants glide between phones, and speakers differ in pitch, vocal tract length
and pace. As in TIMIT, no speaker is in both splits.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fathom.speech.audio import write_riff

RATE = 16_000  # samples per second
SPEAKERS = {"train": 8, "test": 4}
UTTERANCES = {"train": 8, "test": 4}  # of each speaker
_FRAME = 80  # samples between updates of the voice's parameters

# The words of TIMIT's two SA sentences, in its phones.
WORDS = {
    **{"she": "sh iy", "had": "hv ae dcl d", "your": "y axr", "dark": "d aa r kcl k"},
    **{"suit": "s ux tcl", "greasy": "g r iy s iy", "wash": "w aa sh", "water": "w ao dx axr"},
    **{"all": "ao l", "year": "y ih r", "don't": "d ow n", "ask": "ae s kcl k", "me": "m iy"},
    **{"to": "tcl t ix", "carry": "k eh r iy", "oily": "oy l iy", "rag": "r ae gcl g"},
    **{"like": "l ay kcl k", "that": "dh ae tcl"},
}


Formants: TypeAlias = tuple[float, float, float]


@dataclass(frozen=True)
class Sound:
    """How a phone sounds."""

    milliseconds: float  # its length
    formants: Formants = (500, 1500, 2500)  # three frequencies in Hz, of a man
    towards: Formants | None = None  # the formants at its end, where they differ
    voice: float = 0.0  # strength of the harmonics
    hiss: float = 0.0  # strength of the noise
    band: float = 4000.0  # centre of the noise in Hz


def _vowel(
    f1: float, f2: float, f3: float, towards: Formants | None = None, milliseconds: float = 110
) -> Sound:
    return Sound(milliseconds, (f1, f2, f3), towards, voice=1.0)


def _sonorant(f1: float, f2: float, f3: float, voice: float = 0.6) -> Sound:
    return Sound(65, (f1, f2, f3), voice=voice)


SOUNDS = {
    "h#": Sound(120),
    "aa": _vowel(730, 1090, 2440),
    "ae": _vowel(660, 1720, 2410),
    "ao": _vowel(570, 840, 2410),
    "axr": _vowel(490, 1350, 1690),
    "ay": _vowel(730, 1100, 2400, towards=(350, 2100, 2600), milliseconds=150),
    "eh": _vowel(530, 1840, 2480),
    "ih": _vowel(390, 1990, 2550),
    "ix": _vowel(400, 1750, 2500, milliseconds=70),
    "iy": _vowel(270, 2290, 3010),
    "ow": _vowel(540, 1000, 2350, towards=(350, 800, 2300), milliseconds=130),
    "oy": _vowel(520, 850, 2400, towards=(350, 2000, 2600), milliseconds=160),
    "ux": _vowel(320, 1650, 2300),
    "l": _sonorant(360, 1000, 2700),
    "r": _sonorant(330, 1060, 1400),
    "w": _sonorant(290, 610, 2150),
    "y": _sonorant(260, 2200, 3000),
    "m": _sonorant(250, 1000, 2200, voice=0.3),
    "n": _sonorant(250, 1500, 2300, voice=0.3),
    "dx": Sound(35, (300, 1600, 2600), voice=0.2),
    "dh": Sound(50, (300, 1300, 2500), voice=0.3, hiss=0.05, band=6000),
    "hv": Sound(60, (500, 1500, 2500), voice=0.2, hiss=0.2, band=1500),
    "s": Sound(110, hiss=0.5, band=6000),
    "sh": Sound(110, hiss=0.6, band=3000),
    "dcl": Sound(50, (200, 1500, 2500), voice=0.08),
    "gcl": Sound(50, (200, 1800, 2300), voice=0.08),
    "kcl": Sound(60),
    "tcl": Sound(60),
    "d": Sound(25, (300, 1700, 2600), voice=0.2, hiss=0.4, band=4500),
    "g": Sound(25, (300, 1800, 2300), voice=0.2, hiss=0.4, band=1800),
    "k": Sound(40, hiss=0.5, band=1800),
    "t": Sound(40, hiss=0.5, band=5000),
}


@dataclass(frozen=True)
class Speaker:
    """A voice."""

    name: str  # as TIMIT's: sex, initials and a digit
    pitch: float  # Hz
    tract: float  # factor of all formants
    pace: float  # factor of all lengths

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "Speaker":
        """Draws a speaker."""
        female = rng.random() < 0.5
        initials = "".join(chr(ord("a") + int(i)) for i in rng.integers(26, size=3))
        return cls(
            f"{'f' if female else 'm'}{initials}0",
            rng.uniform(180, 230) if female else rng.uniform(95, 135),
            rng.uniform(1.1, 1.2) if female else rng.uniform(0.95, 1.05),
            rng.uniform(0.85, 1.2),
        )


def write_tree(directory: Path, seed: int) -> None:
    """Writes ``{train,test}/dr<n>/<speaker>/sx<n>.{wav,phn,wrd,txt}``, the same for a seed."""
    for part, (folder, speakers) in enumerate(SPEAKERS.items()):
        for number in range(speakers):
            rng = np.random.default_rng([seed, part, number])
            speaker = Speaker.draw(rng)
            place = directory / folder / f"dr{1 + number % 8}" / speaker.name
            place.mkdir(parents=True)
            for sentence in range(UTTERANCES[folder]):
                words = [str(word) for word in rng.choice(list(WORDS), rng.integers(3, 6))]
                _write_utterance(place / f"sx{10 * number + sentence + 1}", words, speaker, rng)


def _write_utterance(
    path: Path, words: list[str], speaker: Speaker, rng: np.random.Generator
) -> None:
    """Writes the four files of an utterance; ``path`` has no suffix."""
    phones = ["h#", *(phone for word in words for phone in WORDS[word].split()), "h#"]
    lengths = np.array([SOUNDS[phone].milliseconds for phone in phones], np.float64)
    lengths *= speaker.pace * rng.uniform(0.8, 1.25, len(phones))
    ends = np.cumsum(np.maximum(2, np.round(lengths * RATE / 1000 / _FRAME)).astype(int)) * _FRAME
    write_riff(path.with_suffix(".wav"), speak(phones, ends, speaker, rng), RATE)

    begins = [0, *ends[:-1]]
    spoken = [f"{b} {e} {p}\n" for b, e, p in zip(begins, ends, phones, strict=True)]
    path.with_suffix(".phn").write_text("".join(spoken))
    lines, first = [], 1
    for word in words:
        last = first + len(WORDS[word].split())
        lines.append(f"{begins[first]} {ends[last - 1]} {word}\n")
        first = last
    path.with_suffix(".wrd").write_text("".join(lines))
    sentence = " ".join(words).capitalize()
    path.with_suffix(".txt").write_text(f"0 {ends[-1]} {sentence}.\n")


def speak(
    phones: list[str], ends: np.ndarray, speaker: Speaker, rng: np.random.Generator
) -> np.ndarray:
    """Speaks phones.

    Args:
        phones: names in ``SOUNDS``.
        ends: int [n], the sample after each phone's last, a multiple of 80.
        speaker: who.
        rng: decides the rest.

    Returns:
        int16 [samples] at 16 kHz.
    """
    counts = np.diff(ends // _FRAME, prepend=0)
    sounds = [SOUNDS[phone] for phone in phones]
    formants = np.concatenate(
        [
            np.linspace(sound.formants, sound.towards or sound.formants, count)
            for sound, count in zip(sounds, counts, strict=True)
        ]
    )
    voice, hiss, band = (
        np.repeat([getattr(sound, name) for sound in sounds], counts)
        for name in ("voice", "hiss", "band")
    )
    formants = speaker.tract * _smooth(formants, 9) * rng.normal(1, 0.03, 3)
    wave = _harmonics(formants, _smooth(voice, 5), speaker, rng)
    wave += _noise(_smooth(hiss, 3), speaker.tract * band, rng)
    wave += rng.normal(0, 0.003, len(wave))
    return np.round(32767 * np.clip(0.5 * wave, -1, 1)).astype(np.int16)


def _smooth(values: np.ndarray, width: int) -> np.ndarray:
    """Returns the running mean over ``width`` frames, an odd number, along the first axis."""
    reach = width // 2
    padded = np.pad(values, [(reach, reach)] + [(0, 0)] * (values.ndim - 1), "edge")
    return np.mean([padded[i : i + len(values)] for i in range(width)], axis=0)


def _harmonics(
    formants: np.ndarray, voice: np.ndarray, speaker: Speaker, rng: np.random.Generator
) -> np.ndarray:
    """Returns the voiced part, float [samples], of formants [frames, 3] and strengths [frames]."""
    frames = len(voice)
    drift = np.linspace(rng.uniform(1.05, 1.2), rng.uniform(0.8, 0.95), frames)  # it falls
    pitch = speaker.pitch * drift * (1 + 0.01 * _smooth(rng.normal(0, 1, frames), 9))
    at_samples = np.arange(frames * _FRAME) / _FRAME
    phase = 2 * np.pi * np.cumsum(np.interp(at_samples, np.arange(frames), pitch)) / RATE
    wave = np.zeros(frames * _FRAME)
    for number in range(1, int(4500 / speaker.pitch)):
        frequency = number * pitch[:, None]
        widths = 60 + 0.06 * formants  # Hz
        resonance = 1 / (1 + ((frequency - formants) / widths) ** 2)
        strength = voice * (resonance @ [1.0, 0.6, 0.35] + 0.01) / np.sqrt(number)
        wave += np.interp(at_samples, np.arange(frames), strength) * np.sin(number * phase)
    return 0.5 * wave


def _noise(hiss: np.ndarray, band: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns noise, float [samples], of strengths [frames] around frequencies [frames]."""
    frequencies = np.fft.rfftfreq(2 * _FRAME, 1 / RATE)
    spectrum = np.exp(-(((frequencies - band[:, None]) / 1000) ** 2))
    white = np.fft.rfft(rng.normal(0, 1, (len(hiss), 2 * _FRAME)))
    pieces = np.fft.irfft(white * spectrum * hiss[:, None]) * np.hanning(2 * _FRAME)
    wave = np.zeros((len(hiss) + 1) * _FRAME)
    wave[:-_FRAME] += pieces[:, :_FRAME].ravel()
    wave[_FRAME:] += pieces[:, _FRAME:].ravel()
    return wave[:-_FRAME]
