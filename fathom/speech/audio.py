"""Sound files: NIST SPHERE, as the LDC's TIMIT has them, and RIFF WAVE; 16-bit PCM, one channel."""

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

from fathom.errors import FathomError
from fathom.system.files import atomic_write

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE  # format tags of RIFF
_SPHERE_MAGIC = b"NIST_1A\n"


@dataclass(frozen=True, eq=False)
class Audio:
    """A recording.

    Attributes:
        samples: int16 [n].
        rate: samples a second.
    """

    samples: np.ndarray
    rate: int

    def resampled(self, rate: int) -> np.ndarray:
        """Returns float32 samples, from -1 to 1, at another rate: a polyphase filter of SciPy's."""
        samples = self.samples.astype(np.float32) / 32768
        if rate == self.rate:
            return samples
        common = math.gcd(rate, self.rate)
        return resample_poly(samples, rate // common, self.rate // common).astype(np.float32)


def decode(content: bytes, path: Path) -> Audio:
    """Reads the bytes of a SPHERE or RIFF file; the content decides which.

    Args:
        content: the file's bytes.
        path: the file, for messages.

    Raises:
        FathomError: it is neither, is cut off, or holds something else than 16-bit PCM samples of
            one channel; the message says what.
    """
    if content.startswith(_SPHERE_MAGIC):
        audio = _decode_sphere(content, path)
    elif content[:4] == b"RIFF" and content[8:12] == b"WAVE":
        audio = _decode_riff(content, path)
    else:
        raise FathomError(f"{path} is neither a NIST SPHERE nor a RIFF WAVE file")
    if len(audio.samples) == 0:
        raise FathomError(f"{path} has no samples")
    if not 1_000 <= audio.rate <= 1_000_000:
        raise FathomError(f"{path} has a sample rate of {audio.rate} Hz")
    return audio


def _decode_sphere(content: bytes, path: Path) -> Audio:
    """Reads a text header of ``name -type value`` lines, and the samples after it.

    The header's second line is its length in bytes, a multiple of 1024; ``end_head`` ends it.
    """
    lines = content[:65536].split(b"\n", 2)
    length = lines[1].strip() if len(lines) == 3 else b""
    if not length.isdigit():
        raise FathomError(f"{path}: the SPHERE header is cut off or has no length")
    header, end, _ = content[: int(length)].partition(b"\nend_head")
    if not end or len(content) < int(length):
        raise FathomError(f"{path}: the SPHERE header is cut off: it has no end_head")
    fields = _sphere_fields(header)
    coding = fields.get("sample_coding", "pcm")
    if coding != "pcm":
        hint = "; decompress it with sph2pipe" if "shorten" in coding else ""
        raise FathomError(f"{path} holds {coding} samples, only plain PCM is read{hint}")
    rate, width, channels = (
        _sphere_number(fields, name, default, path)
        for name, default in (("sample_rate", None), ("sample_n_bytes", 2), ("channel_count", 1))
    )
    _check_layout(channels, 8 * width, path)
    data = content[int(length) :]
    expected = 2 * _sphere_number(fields, "sample_count", len(data) // 2, path)
    _check_length(data, expected, path)
    order = ">" if fields.get("sample_byte_format", "01") == "10" else "<"
    return Audio(np.frombuffer(data[:expected], f"{order}i2").astype(np.int16), rate)


def _sphere_fields(header: bytes) -> dict[str, str]:
    """Returns the values by name; comments and lines of another form are passed over."""
    parts = [line.split(None, 2) for line in header.decode("latin-1").split("\n")[2:]]
    return {part[0]: part[2].strip() for part in parts if len(part) == 3}


def _sphere_number(fields: dict[str, str], name: str, default: int | None, path: Path) -> int:
    text = fields.get(name, "" if default is None else str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise FathomError(f"{path}: the SPHERE header has {name} {text!r}, expected a number")
    return int(text)


def _decode_riff(content: bytes, path: Path) -> Audio:
    """Reads the chunks ``fmt`` and ``data``; others are passed over."""
    layout, position = None, 12
    while position + 8 <= len(content):
        name, size = struct.unpack_from("<4sI", content, position)
        position += 8
        if name == b"fmt ":
            layout = content[position : position + size]
        elif name == b"data":
            return _riff_samples(layout, content[position : position + size], size, path)
        position += size + size % 2
    raise FathomError(f"{path} is cut off: it has no samples")


def _riff_samples(layout: bytes | None, data: bytes, size: int, path: Path) -> Audio:
    if layout is None or len(layout) < 16:
        raise FathomError(f"{path} does not say what its samples are: no fmt chunk before them")
    tag, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", layout)
    if tag == _EXTENSIBLE and len(layout) >= 26:
        (tag,) = struct.unpack_from("<H", layout, 24)
    if tag != _PCM:
        kind = "floating-point samples" if tag == _FLOAT else f"samples of RIFF format {tag}"
        raise FathomError(f"{path} holds {kind}, only 16-bit PCM is read")
    _check_layout(channels, bits, path)
    _check_length(data, size, path)
    return Audio(np.frombuffer(data[: size // 2 * 2], "<i2").astype(np.int16), rate)


def _check_layout(channels: int, bits: int, path: Path) -> None:
    if channels != 1:
        raise FathomError(f"{path} has {channels} channels, expected one")
    if bits != 16:
        raise FathomError(f"{path} has {bits}-bit samples, only 16-bit PCM is read")


def _check_length(data: bytes, expected: int, path: Path) -> None:
    if len(data) < expected:
        raise FathomError(f"{path} is cut off: {len(data)} of {expected} bytes of samples")


def write_riff(path: Path, samples: np.ndarray, rate: int) -> None:
    """Writes a RIFF WAVE file.

    Args:
        path: the file.
        samples: int16 [n].
        rate: samples a second.

    Raises:
        FathomError: the file cannot be written.
    """
    data = samples.astype("<i2").tobytes()
    layout = struct.pack("<HHIIHH", _PCM, 1, rate, 2 * rate, 2, 16)
    chunks = b"WAVEfmt " + struct.pack("<I", len(layout)) + layout
    chunks += b"data" + struct.pack("<I", len(data)) + data
    with atomic_write(path) as temporary:
        temporary.write_bytes(b"RIFF" + struct.pack("<I", len(chunks)) + chunks)
