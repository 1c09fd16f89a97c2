"""The network's input: mel-frequency cepstra or spectrograms.

Cepstra: Graves, Fernandez, Gomez and Schmidhuber 2006, section 5.1: 12 cepstral coefficients of 26
filter-bank channels and the logarithm of the energy, of windows of 10 ms every 5 ms, and the first
derivatives of all: 26 values a frame. They used HTK and do not give the rest. Here the filter bank
sums the power spectrum of a 512-point transform, cepstra are not liftered, and the log energy is
that of the window; HTK's defaults are magnitudes of a 256-point transform, liftered cepstra, and
log energies relative to the utterance's largest.

Spectrograms: Hannun et al. 2014, section 2: the power of each frequency in a frame. Frames are
10 ms apart, twice the 5 ms that section 2.1 calls half a step. The paper gives neither the window
nor a scale: here they are 20 ms and the logarithm.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import tensorflow as tf

from fathom.errors import FathomError
from fathom.speech.audio import decode
from fathom.system.device import CPU
from fathom.system.files import atomic_write, cache_directory, make_cache_folder, read_file, sha256


@dataclass(frozen=True)
class Settings:
    """How features are computed. A change invalidates cached ones."""

    kind: str = "cepstra"  # or spectrogram
    rate: int = 16_000  # samples per second; other rates are resampled
    window: int = 160  # samples: 10 ms
    hop: int = 80  # samples: 5 ms
    fft: int = 512  # samples, zero-padded after the window
    channels: int = 26  # of the mel filter bank
    lowest: float = 0.0  # Hz, where the filter bank begins; it ends at half the rate
    coefficients: int = 12  # cepstral, without the zeroth
    emphasis: float = 0.97  # HTK's PREEMCOEF
    delta: int = 2  # frames on each side of a derivative; HTK's DELTAWINDOW
    floor: float = 1e-8  # of energies: about the rounding error of 16-bit samples

    @property
    def size(self) -> int:
        """Number of values per frame."""
        if self.kind == "spectrogram":
            return self.fft // 2 + 1
        return 2 * (self.coefficients + 1)

    @property
    def step(self) -> float:
        """Seconds from one frame to the next."""
        return self.hop / self.rate

    def frames(self, samples: int) -> int:
        """Returns the number of whole windows in a recording."""
        return max(0, 1 + (samples - self.window) // self.hop)


CEPSTRA = Settings()
SPECTROGRAM = Settings("spectrogram", window=320, hop=160, fft=320)
BY_KIND = {settings.kind: settings for settings in (CEPSTRA, SPECTROGRAM)}


def compute(samples: tf.Tensor, settings: Settings = CEPSTRA) -> tf.Tensor:
    """Computes the features of a recording.

    Args:
        samples: float32 [n], from -1 to 1, at ``settings.rate``, at least one window.
        settings: how.

    Returns:
        float32 [frames, size]: 12 cepstral coefficients, the log energy, and their derivatives; or
        the log power of each frequency.
    """
    frames = tf.signal.frame(samples, settings.window, settings.hop)
    if settings.kind == "spectrogram":
        return tf.math.log(tf.maximum(_power(frames, settings), settings.floor))
    return _cepstra(frames, settings)


def _power(frames: tf.Tensor, settings: Settings) -> tf.Tensor:
    """Returns the power spectrum of each frame, float32 [frames, fft / 2 + 1]."""
    windowed = frames * tf.signal.hamming_window(settings.window, periodic=False)
    return tf.abs(tf.signal.rfft(windowed, [settings.fft])) ** 2


def _cepstra(frames: tf.Tensor, settings: Settings) -> tf.Tensor:
    """Returns the cepstra and log energies of frames [frames, window], and their derivatives."""
    energy = tf.reduce_sum(frames**2, axis=1, keepdims=True)
    # HTK emphasises within each frame, repeating its first sample.
    before = tf.concat([frames[:, :1], frames[:, :-1]], axis=1)
    power = _power(frames - settings.emphasis * before, settings)
    filters = tf.signal.linear_to_mel_weight_matrix(
        settings.channels, settings.fft // 2 + 1, settings.rate, settings.lowest, settings.rate / 2
    )
    log_mel = tf.math.log(tf.maximum(power @ filters, settings.floor))
    cepstra = tf.signal.mfccs_from_log_mel_spectrograms(log_mel)[:, 1 : settings.coefficients + 1]
    static = tf.concat([cepstra, tf.math.log(tf.maximum(energy, settings.floor))], axis=1)
    return tf.concat([static, _derivatives(static, settings.delta)], axis=1)


def _derivatives(values: tf.Tensor, reach: int) -> tf.Tensor:
    """Returns the slope of a line fitted to each frame and ``reach`` neighbours on each side.

    At the ends the first and the last frame are repeated.
    """
    count = tf.shape(values)[0]

    def neighbours(distance: int) -> tf.Tensor:
        return tf.gather(values, tf.clip_by_value(tf.range(count) + distance, 0, count - 1))

    steps = range(1, reach + 1)
    slopes = [step * (neighbours(step) - neighbours(-step)) for step in steps]
    return tf.add_n(slopes) / (2 * sum(step**2 for step in steps))


@dataclass(frozen=True, eq=False)
class Recordings:
    """The features of many files, concatenated."""

    values: np.ndarray  # float32 [sum of frames, size]
    frames: np.ndarray  # int32 [files]; 0 for an unusable file
    samples: np.ndarray  # int64 [files], before resampling
    reasons: tuple[str, ...]  # why a file is unusable, else empty


def of_files(paths: Sequence[Path], settings: Settings = CEPSTRA) -> Recordings:
    """Returns the features of sound files, from the cache if possible.

    The cache is an HDF5 file named by a digest of the settings and of all files' paths and bytes.

    Raises:
        FathomError: the cache cannot be written.
    """
    digest = hashlib.sha256(repr(settings).encode())
    for path in paths:
        digest.update(f"\n{path} {_digest(path)}".encode())
    cached = cache_directory() / "features" / f"{digest.hexdigest()[:32]}.h5"
    if not cached.exists():
        recordings = _compute_all(paths, settings)
        make_cache_folder(cached.parent)
        with atomic_write(cached) as temporary, h5py.File(temporary, "w") as file:
            for name in ("values", "frames", "samples"):
                file[name] = getattr(recordings, name)
            file.create_dataset("reasons", data=recordings.reasons, dtype=h5py.string_dtype())
        return recordings
    try:
        with h5py.File(cached) as file:
            stored = {name: file[name][()] for name in ("values", "frames", "samples")}
            return Recordings(**stored, reasons=tuple(file["reasons"].asstr()[()]))
    except (OSError, KeyError) as error:
        raise FathomError(f"{cached} is damaged: remove it") from error


def _digest(path: Path) -> str:
    try:
        return sha256(path)
    except FathomError as error:
        return str(error)  # and reading it for its samples says the rest


def _compute_all(paths: Sequence[Path], settings: Settings) -> Recordings:
    function = tf.function(
        lambda samples: compute(samples, settings),
        input_signature=[tf.TensorSpec([None], tf.float32)],
        autograph=False,
    )
    nothing = np.empty((0, settings.size), np.float32)

    def of_file(path: Path) -> tuple[np.ndarray, int, str]:
        """Returns a file's features, its samples, and why it is unusable."""
        try:
            audio = decode(read_file(path), path)
            wave = audio.resampled(settings.rate)
            if not settings.frames(len(wave)):
                raise FathomError(f"{path} is shorter than one window: {len(wave)} samples")
        except FathomError as error:
            return nothing, 0, str(error)
        return function(wave).numpy(), len(audio.samples), ""

    with CPU.placement():  # what the cache keeps does not depend on the device
        found = [of_file(path) for path in paths]
    return Recordings(
        np.concatenate([nothing, *(values for values, _, _ in found)]),
        np.array([len(values) for values, _, _ in found], np.int32),
        np.array([samples for _, samples, _ in found], np.int64),
        tuple(reason for _, _, reason in found),
    )
