import contextlib
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import tensorflow as tf
from scipy.fft import dct

from fathom.errors import FathomError
from fathom.speech import features
from fathom.speech.audio import write_riff
from fathom.speech.features import Settings


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def noise(samples, seed=0):
    return np.random.default_rng(seed).normal(0, 0.1, samples).astype(np.float32)


def write(path, samples):
    write_riff(path, (32_767 * samples).astype(np.int16), 16_000)
    return path


def hertz_to_mel(frequency):
    return 1127 * np.log1p(frequency / 700)


def mel_cepstra(wave):
    """The features by their definitions, frame by frame, in float64."""
    edges = np.linspace(0, hertz_to_mel(8000), 28)
    mels = hertz_to_mel(np.arange(257) * 16_000 / 512)
    static = []
    for start in range(0, len(wave) - 159, 80):
        frame = wave[start : start + 160].astype(np.float64)
        emphasised = frame - 0.97 * np.concatenate([frame[:1], frame[:-1]])
        hamming = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(160) / 159)
        power = np.abs(np.fft.fft(emphasised * hamming, 512)[:257]) ** 2
        bank = []
        for low, centre, high in zip(edges, edges[1:], edges[2:], strict=False):
            rise, fall = (mels - low) / (centre - low), (high - mels) / (high - centre)
            weight = np.clip(np.minimum(rise, fall), 0, None)
            weight[0] = 0
            bank.append(max(weight @ power, 1e-8))
        cepstra = dct(np.log(bank), type=2) / np.sqrt(2 * 26)
        static.append([*cepstra[1:13], np.log(max(frame @ frame, 1e-8))])
    static = np.array(static)
    padded = np.concatenate([static[:1]] * 2 + [static] + [static[-1:]] * 2)
    count = len(static)
    slope = sum(k * (padded[2 + k :][:count] - padded[2 - k :][:count]) for k in (1, 2)) / 10
    return np.concatenate([static, slope], axis=1)


@pytest.mark.parametrize("samples", [160, 239, 240, 1_600])
def test_features_are_mel_cepstra_by_an_independent_computation(samples):
    wave = noise(samples)
    computed = features.compute(tf.constant(wave)).numpy()
    assert computed.shape == (features.CEPSTRA.frames(samples), 26)
    np.testing.assert_allclose(computed, mel_cepstra(wave), atol=2e-3)


@pytest.mark.parametrize("samples", [320, 479, 480, 1_600])
def test_a_spectrogram_is_the_log_power_of_each_frequency_every_10_ms(samples):
    wave = noise(samples)
    computed = features.compute(tf.constant(wave), features.SPECTROGRAM).numpy()
    hamming = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(320) / 319)
    frames = [wave[start : start + 320] * hamming for start in range(0, samples - 319, 160)]
    power = np.abs(np.fft.rfft(np.array(frames, np.float64))) ** 2
    assert computed.shape == (features.SPECTROGRAM.frames(samples), features.SPECTROGRAM.size)
    np.testing.assert_allclose(computed, np.log(np.maximum(power, 1e-8)), atol=5e-2)


@pytest.mark.parametrize("settings", features.BY_KIND.values(), ids=features.BY_KIND)
def test_silence_has_finite_features(settings):
    assert np.isfinite(features.compute(tf.zeros([800]), settings).numpy()).all()


def test_files_are_computed_once_and_then_read_from_the_cache(tmp_path, cache, monkeypatch):
    paths = [write(tmp_path / f"{i}.wav", noise(800 + 80 * i, i)) for i in range(3)]
    first = features.of_files(paths)
    assert first.frames.tolist() == [9, 10, 11]
    assert first.samples.tolist() == [800, 880, 960]
    assert len(list(cache.iterdir())) == 1
    monkeypatch.setattr(features, "_compute_all", None)
    again = features.of_files(paths)
    np.testing.assert_array_equal(again.values, first.values)
    np.testing.assert_array_equal(again.frames, first.frames)
    assert again.reasons == first.reasons == ("", "", "")


def test_features_of_files_are_computed_on_the_cpu(tmp_path, cache, monkeypatch):
    messages = []

    @contextlib.contextmanager
    def placement():
        messages.append("placed")
        yield
        messages.append("left")

    monkeypatch.setattr(features, "CPU", SimpleNamespace(placement=placement))
    monkeypatch.setattr(
        features, "compute", lambda *_: messages.append("computed") or tf.zeros([9, 26])
    )
    features.of_files([write(tmp_path / "a.wav", noise(800, 1))])
    assert messages == ["placed", "computed", "left"]


def test_a_changed_file_and_changed_settings_are_recomputed(tmp_path, cache):
    path = write(tmp_path / "0.wav", noise(800))
    features.of_files([path])
    write(path, noise(800, seed=1))
    features.of_files([path])
    features.of_files([path], Settings(emphasis=0.9))
    assert len(list(cache.iterdir())) == 3


def test_a_file_that_cannot_be_used_has_no_frames_but_a_reason(tmp_path):
    good = write(tmp_path / "good.wav", noise(800))
    short = write(tmp_path / "short.wav", noise(159))
    bad = tmp_path / "bad.wav"
    bad.write_bytes(b"no sound")
    for _ in range(2):  # computed, and from the cache
        recordings = features.of_files([short, good, bad, tmp_path / "none.wav"])
        assert recordings.frames.tolist() == [0, 9, 0, 0]
        assert "shorter than one window" in recordings.reasons[0]
        assert recordings.reasons[1] == ""
        assert "not a readable" in recordings.reasons[2]
        assert "cannot read" in recordings.reasons[3]


def test_no_files_have_no_features():
    for _ in range(2):  # computed, and from the cache
        recordings = features.of_files([])
        assert recordings.values.shape == (0, 26)
        assert recordings.reasons == ()


def test_a_damaged_cache_is_named(tmp_path, cache):
    path = write(tmp_path / "0.wav", noise(800))
    features.of_files([path])
    (stored,) = cache.iterdir()
    stored.write_bytes(stored.read_bytes()[:100])
    with pytest.raises(FathomError, match=f"{stored} is damaged: remove it"):
        features.of_files([path])
    with h5py.File(stored, "w"):
        pass
    with pytest.raises(FathomError, match="damaged"):
        features.of_files([path])
