"""Audio files: NIST SPHERE, as in the LDC's TIMIT, and RIFF WAVE; 16-bit PCM, one channel."""

import io
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from scipy.signal import resample_poly

from fathom.errors import FathomError
from fathom.system.files import atomic_write

_SPHERE_MAGIC = b"NIST_1A\n"
_UNKNOWN = 0x7FFFF000  # a size from here on is that of a WAVE file that was written to a pipe


@dataclass(frozen=True, eq=False)
class Audio:
    """A recording."""

    samples: np.ndarray  # int16 [n]
    rate: int  # samples per second

    def resampled(self, rate: int) -> np.ndarray:
        """Returns float32 samples, from -1 to 1, resampled by SciPy's polyphase filter."""
        samples = self.samples.astype(np.float32) / 32768
        if rate == self.rate:
            return samples
        common = math.gcd(rate, self.rate)
        return resample_poly(samples, rate // common, self.rate // common).astype(np.float32)


def decode(content: bytes, path: Path) -> Audio:
    """Decodes a SPHERE or RIFF file, detected by its content.

    Raises:
        FathomError: it is neither, is truncated, or is not 16-bit PCM with one channel.
    """
    if content.startswith(_SPHERE_MAGIC) and b"shorten" in content[:1024]:
        raise FathomError(f"{path} is compressed by shorten: decompress it with sph2pipe")
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            if file.format not in ("NIST", "WAV", "WAVEX"):
                raise FathomError(f"{path} is neither a NIST SPHERE nor a RIFF WAVE file")
            if file.channels != 1:
                raise FathomError(f"{path} has {file.channels} channels, expected one")
            if file.subtype != "PCM_16":
                raise FathomError(f"{path} holds {file.subtype} samples, only 16-bit PCM is read")
            audio = Audio(file.read(dtype="int16"), file.samplerate)
    except soundfile.LibsndfileError as error:
        reason = error.error_string.rstrip(".")
        raise FathomError(f"{path} is not a readable SPHERE or RIFF WAVE file: {reason}") from error
    if len(audio.samples) == 0:
        raise FathomError(f"{path} has no samples")
    if not 1_000 <= audio.rate <= 1_000_000:
        raise FathomError(f"{path} has a sample rate of {audio.rate} Hz")
    if _is_cut_off(content, len(audio.samples)):
        raise FathomError(f"{path} is truncated after {len(audio.samples)} samples")
    return audio


def _is_cut_off(content: bytes, samples: int) -> bool:
    """Returns whether there is less data than the header states, which libsndfile ignores."""
    if content.startswith(_SPHERE_MAGIC):
        count = re.search(rb"\nsample_count -i (\d{1,15})\s", content[:65536])
        return count is not None and int(count[1]) > samples
    size = int.from_bytes(content[4:8], "little")
    return len(content) < size + 8 < _UNKNOWN


def write_riff(path: Path, samples: np.ndarray, rate: int) -> None:
    """Writes samples, int16 [n], as a RIFF WAVE file; the rate is in samples per second.

    Raises:
        FathomError: the file cannot be written.
    """
    with atomic_write(path) as temporary:
        soundfile.write(temporary, samples, rate, subtype="PCM_16", format="WAV")
