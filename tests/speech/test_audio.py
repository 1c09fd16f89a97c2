import re
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.errors import FathomError
from fathom.speech.audio import Audio, decode, write_riff

SAMPLES = np.array([0, 1, -1, 300, -32768, 32767], np.int16)
PATH = Path("sound.wav")


def sphere(samples=SAMPLES, order="01", length=1024, **changed):
    fields = {
        "sample_count": f"-i {len(samples)}",
        "sample_n_bytes": "-i 2",
        "channel_count": "-i 1",
        "sample_byte_format": f"-s2 {order}",
        "sample_rate": "-i 16000",
        "sample_coding": "-s3 pcm",
        **changed,
    }
    lines = [f"{name} {value}" for name, value in fields.items() if value is not None]
    header = "\n".join(["NIST_1A", f"   {length}", "; a comment", *lines, "end_head", ""])
    return (
        header.encode().ljust(length) + samples.astype(">i2" if order == "10" else "<i2").tobytes()
    )


def chunk(name, content):
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def riff(data=None, tag=1, channels=1, rate=16_000, bits=16, before=b""):
    data = SAMPLES.astype("<i2").tobytes() if data is None else data
    layout = struct.pack("<HHIIHH", tag, channels, rate, 0, 0, bits)
    chunks = b"WAVE" + before + chunk(b"fmt ", layout) + chunk(b"data", data)
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks


def error_of(content):
    with pytest.raises(FathomError, match=r"sound\.wav") as caught:
        decode(content, PATH)
    assert "\n" not in str(caught.value)
    return str(caught.value)


TIMIT_HEADER = """NIST_1A
   1024
database_id -s5 TIMIT
database_version -s3 1.0
utterance_id -s8 cjf0_sa1
channel_count -i 1
sample_count -i 6
sample_rate -i 16000
sample_min -i -2191
sample_max -i 2790
sample_n_bytes -i 2
sample_byte_format -s2 01
sample_sig_bits -i 16
end_head
"""


def test_a_file_with_the_header_of_timits_cd_is_read():
    audio = decode(TIMIT_HEADER.encode().ljust(1024) + SAMPLES.tobytes(), PATH)
    assert audio.rate == 16_000
    np.testing.assert_array_equal(audio.samples, SAMPLES)


@pytest.mark.parametrize("order", ["01", "10"])
def test_a_sphere_file_is_read_in_either_byte_order(order):
    audio = decode(sphere(order=order), PATH)
    assert audio.rate == 16_000
    assert audio.samples.dtype == np.int16
    np.testing.assert_array_equal(audio.samples, SAMPLES)


def test_a_sphere_file_without_count_and_coding_is_read_to_its_end():
    content = sphere(sample_count=None, sample_coding=None, length=2048)
    np.testing.assert_array_equal(decode(content, PATH).samples, SAMPLES)


def test_a_riff_file_is_read_and_its_other_chunks_are_passed_over():
    audio = decode(riff(before=chunk(b"LIST", b"odd"), rate=8_000), PATH)
    assert audio.rate == 8_000
    np.testing.assert_array_equal(audio.samples, SAMPLES)


def test_a_file_that_was_written_is_read_back(tmp_path):
    write_riff(tmp_path / "sound.wav", SAMPLES, 22_050)
    audio = decode((tmp_path / "sound.wav").read_bytes(), PATH)
    assert audio.rate == 22_050
    np.testing.assert_array_equal(audio.samples, SAMPLES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a readable SPHERE or RIFF WAVE file"),
        (b"MThd and so on", "not a readable SPHERE or RIFF WAVE file"),
        (b"FORM\0\0\0\x1aAIFF", "not a readable SPHERE or RIFF WAVE file"),
        (b"NIST_1A\n", "not a readable SPHERE"),
        (sphere()[:100], "not a readable SPHERE"),
        (sphere()[:1030], "truncated after 3 samples"),
        (sphere(sample_coding="-s26 pcm,embedded-shorten-v2.00"), "shorten.*sph2pipe"),
        (sphere(sample_coding="-s4 ulaw"), "ULAW samples, only 16-bit PCM"),
        (sphere(channel_count="-i 2"), "2 channels"),
        (sphere(sample_n_bytes="-i 3"), "not a readable SPHERE"),
        (sphere(sample_rate="-i 7"), "sample rate of 7 Hz"),
        (sphere(SAMPLES[:0]), "no samples"),
        (riff()[:20], "not a readable SPHERE or RIFF"),
        (riff()[:-4], "truncated after 4 samples"),
        (riff(tag=3, bits=32), "FLOAT samples"),
        (riff(tag=7, bits=8), "ULAW samples"),
        (riff(bits=24), "PCM_24 samples"),
        (riff(channels=2), "2 channels"),
        (riff(data=b""), "no samples"),
        (riff(rate=0), "sample rate of 0|not a readable"),
        (b"RIFF....WAVE" + chunk(b"data", b"1234"), "not a readable SPHERE or RIFF"),
    ],
    ids=range(21),
)
def test_a_file_that_cannot_be_used_is_named_with_its_fault(content, message):
    assert re.search(message, error_of(content))


def read_or_refuse(content):
    """Returns the number of samples, or the message of the refusal."""
    try:
        return len(decode(content, PATH).samples)
    except FathomError as error:
        return str(error)


def is_answer(answer):
    return answer > 0 if isinstance(answer, int) else len(answer.splitlines()) == 1


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"", b"NIST_1A\n   1024\n", b"RIFF1234WAVE"]))
def test_any_bytes_are_read_or_refused_in_one_line(content, start):
    assert is_answer(read_or_refuse(start + content))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([sphere(), riff()]), st.data())
def test_a_changed_or_shortened_file_is_read_or_refused_in_one_line(content, data):
    changed = bytearray(content)
    changed[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert is_answer(read_or_refuse(bytes(changed[: data.draw(st.integers(0, len(content)))])))


def test_a_tone_keeps_its_frequency_and_strength_when_it_is_resampled():
    time = np.arange(8_000) / 8_000
    tone = np.round(10_000 * np.sin(2 * np.pi * 440 * time)).astype(np.int16)
    wave = Audio(tone, 8_000).resampled(16_000)
    assert wave.dtype == np.float32
    assert len(wave) == 16_000
    expected = 10_000 / 32_768 * np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    np.testing.assert_allclose(wave[200:-200], expected[200:-200], atol=2e-3)


def test_audio_at_the_right_rate_is_only_scaled():
    np.testing.assert_array_equal(Audio(SAMPLES, 16_000).resampled(16_000), SAMPLES / 32_768)


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF])
def test_a_wave_file_that_was_written_to_a_pipe_is_read(size):
    content = riff()
    content = content[:4] + struct.pack("<I", size) + content[8:]
    np.testing.assert_array_equal(decode(content, PATH).samples, SAMPLES)
