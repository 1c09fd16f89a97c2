import os

import numpy as np
import pytest

from fathom.errors import FathomError
from fathom.speech.audio import write_riff
from fathom.speech.phones import INDEX, PHONES
from fathom.speech.timit import Timit, find_audio, read_transcription

FRAMES = 10
SAMPLES = 160 + 80 * (FRAMES - 1)
PHONES_OF = "0 300 h#\n300 500 s\n500 880 h#\n"


def write(path, phones=PHONES_OF, samples=SAMPLES, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    wave = np.random.default_rng(seed).normal(0, 3_000, samples).astype(np.int16)
    write_riff(path, wave, 16_000)
    upper = path.suffix.isupper()
    stem = path.name.partition(".")[0]
    if phones is not None:
        path.with_name(f"{stem}.{'PHN' if upper else 'phn'}").write_text(phones)
    return path


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "cache"))
    root = tmp_path / "timit"
    for i in range(3):
        write(root / f"train/dr1/fabc0/sx{i}.wav", seed=i)
    write(root / "test/dr2/mxyz0/si7.wav", seed=9)
    return root


def reason_of(tree, phones=PHONES_OF, samples=SAMPLES):
    """Adds an utterance and returns why it was left out."""
    write(tree / "train/dr1/fabc0/sx9.wav", phones, samples)
    timit = Timit.load(tree)
    assert len(timit.train) == 3
    ((name, reason),) = timit.skipped.items()
    assert name.endswith("sx9")
    assert "\n" not in reason
    return reason


def test_both_parts_are_read_with_their_phones(tree):
    timit = Timit.load(tree)
    assert timit.train.names == tuple(f"train/dr1/fabc0/sx{i}" for i in range(3))
    assert timit.test.names == ("test/dr2/mxyz0/si7",)
    assert timit.train.frames.tolist() == [FRAMES] * 3
    assert timit.train.label_lengths.tolist() == [3] * 3
    assert [PHONES[label] for label in timit.test.labels] == ["h#", "s", "h#"]
    assert timit.skipped == {}


def test_the_training_parts_features_have_mean_0_and_variance_1(tree):
    timit = Timit.load(tree)
    np.testing.assert_allclose(timit.train.features.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(timit.train.features.std(0), 1, atol=1e-3)
    assert np.abs(timit.test.features.mean(0)).max() > 1e-3


def test_names_may_be_upper_case_and_the_tree_may_lie_a_folder_below(tree, tmp_path):
    root = tmp_path / "upper"
    for i in range(3):
        write(root / f"TIMIT/TRAIN/DR1/FABC0/SX{i}.WAV", seed=i)
    write(root / "TIMIT/TEST/DR2/MXYZ0/SI7.WAV", seed=9)
    upper, lower = Timit.load(root), Timit.load(tree)
    np.testing.assert_array_equal(upper.train.features, lower.train.features)
    np.testing.assert_array_equal(upper.train.labels, lower.train.labels)


def test_linked_folders_are_read_and_may_lead_in_circles(tree, tmp_path):
    folder = next(path for path in (tree / "train").iterdir() if path.is_dir())
    files = len(list(find_audio(tree / "train")))
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "elsewhere" / "circle").symlink_to(tree / "train", target_is_directory=True)
    assert len(list(find_audio(tree / "train"))) == files > 0


def test_a_conversion_beside_its_original_is_one_utterance(tmp_path):
    for name in ("SX1.WAV", "SX1.WAV.wav", "SX2.WAV.wav", "SX2.PHN", ".hidden.wav"):
        (tmp_path / name).touch()
    assert [path.name for path in find_audio(tmp_path)] == ["SX1.WAV", "SX2.WAV.wav"]


def test_sa_sentences_are_left_out(tree):
    write(tree / "train/dr1/fabc0/sa1.wav")
    write(tree / "train/dr1/fabc0/SA2.WAV")
    timit = Timit.load(tree)
    assert len(timit.train) == 3
    assert timit.skipped == {}


@pytest.mark.parametrize(
    ("phones", "message"),
    [
        (None, "no transcription: sx9.phn is missing"),
        ("", "sx9.phn has no phones"),
        ("0 300 h#\n300 s\n", "sx9.phn, line 2: expected first sample, end and phone, not '300 s'"),
        ("0 x h#\n", "line 1: expected"),
        ("0 300 h#\n\n250 400 s\n", "line 3 is out of order: 250 to 400 after sample 300"),
        ("0 300 h#\n300 300 s\n", "line 2 is out of order"),
        (f"0 300 h#\n300 {SAMPLES + 17} s\n", f"ends at sample {SAMPLES + 17}, but the audio has"),
        (f"0 300 h#\n300 {'4' * 5_000} s\n", "line 2: expected first sample, end and phone"),
        ("0 300 h#\n300 400 qq\n", "line 2: 'qq' is none of TIMIT's 61 phones"),
    ],
    ids=range(9),
)
def test_an_utterance_with_bad_phones_is_left_out_with_the_reason(tree, phones, message):
    assert message in reason_of(tree, phones)


def test_a_byte_order_mark_before_the_phones_is_passed_over(tree):
    path = write(tree / "train/dr1/fabc0/sx9.wav", "\ufeff0 300 h#\n")
    assert read_transcription(path, SAMPLES) == [INDEX["h#"]]


def test_phones_that_are_not_text_are_refused_with_their_line(tree):
    path = write(tree / "train/dr1/fabc0/sx9.wav")
    path.with_suffix(".phn").write_bytes(b"0 300 h#\n300 400 \xff\n")
    with pytest.raises(FathomError, match=r"line 2: .* is none of TIMIT's 61 phones"):
        read_transcription(path, SAMPLES)


def test_a_last_phone_may_end_a_few_samples_after_the_audio(tree):
    path = write(tree / "train/dr1/fabc0/sx9.wav", f"0 {SAMPLES + 16} h#\n")
    assert read_transcription(path, SAMPLES) == [INDEX["h#"]]


def test_an_utterance_of_one_phone_is_used(tree):
    write(tree / "train/dr1/fabc0/sx9.wav", "0 880 AA\n")
    timit = Timit.load(tree)
    assert timit.train.label_lengths.tolist() == [3, 3, 3, 1]


def test_more_phones_than_frames_cannot_be_aligned(tree):
    phones = "".join(f"{i} {i + 1} {PHONES[i]}\n" for i in range(FRAMES))
    path = write(tree / "train/dr1/fabc0/sx8.wav", phones)
    assert len(Timit.load(tree).train) == 4
    path.unlink()
    phones += f"{FRAMES} {FRAMES + 1} aa\n"
    assert f"11 phones, which need 11 steps, but only {FRAMES} steps" in reason_of(tree, phones)


def test_with_a_stride_phones_need_as_many_steps(tree):
    write(tree / "train/dr1/fabc0/sx9.wav", "0 200 s\n200 400 aa\n400 600 s\n600 880 aa\n")
    assert not Timit.load(tree, stride=3).skipped  # 10 frames: 4 steps
    (reason,) = Timit.load(tree, stride=4).skipped.values()
    assert "4 phones, which need 4 steps, but only 3 steps" in reason


def test_a_repeated_phone_needs_a_frame_more(tree):
    phones = "".join(f"{i} {i + 1} s\n" for i in range(6))
    assert "6 phones, which need 11 steps" in reason_of(tree, phones)


def test_audio_that_cannot_be_used_is_left_out_with_the_reason(tree):
    path = write(tree / "train/dr1/fabc0/sx9.wav")
    path.write_bytes(path.read_bytes()[:-100])
    (reason,) = Timit.load(tree).skipped.values()
    assert "truncated" in reason
    path.write_bytes(path.read_bytes()[:40] + bytes(4))
    (reason,) = Timit.load(tree).skipped.values()
    assert "no samples" in reason
    assert "shorter than one window" in reason_of(tree, samples=100)


def test_a_folder_without_the_tree_is_refused_with_the_layout(tmp_path):
    with pytest.raises(FathomError, match=r"no folders train and test.*\.\{wav,phn\}"):
        Timit.load(tmp_path)


def test_a_training_part_without_a_good_utterance_is_refused_with_the_first_reason(tree):
    for path in (tree / "train").rglob("*.phn"):
        path.write_text("0 100 nothing\n")
    with pytest.raises(FathomError, match=r"no training utterance that can.*'nothing'"):
        Timit.load(tree)
    for path in (tree / "train").rglob("*.wav"):
        path.unlink()
    with pytest.raises(FathomError, match="there is none"):
        Timit.load(tree)


@pytest.mark.parametrize("above", ["TIMIT", "timit/TIMIT"])
def test_the_tree_may_lie_below_the_folder(tree, tmp_path, above):
    (tmp_path / "given" / above).parent.mkdir(parents=True)
    tree.rename(tmp_path / "given" / above)
    assert len(Timit.load(tmp_path / "given").train) == 3


def test_nltks_sample_is_read_and_its_last_regions_are_the_test_part(tree, tmp_path):
    for speaker in ("dr1-fvmh0", "dr6-mbma1", "dr7-fblv0", "dr8-mbcg0"):
        write(tmp_path / "nltk" / speaker / "sx1.wav")
        write(tmp_path / "nltk" / speaker / "sa1.wav")
    (tmp_path / "nltk" / "timitdic.txt").touch()
    timit = Timit.load(tmp_path / "nltk")
    assert timit.train.names == ("dr1-fvmh0/sx1", "dr6-mbma1/sx1")
    assert timit.test.names == ("dr7-fblv0/sx1", "dr8-mbcg0/sx1")


def verify(directory):
    return Timit.verify(directory, Timit.Options(), False)


def test_verifying_reads_every_utterance(tree):
    assert verify(tree) == "3 train and 1 test utterances can be read"


def test_verifying_refuses_what_training_would_leave_out(tree):
    junk = tree / "test/dr2/mxyz0/sx9.wav"
    junk.write_bytes(b"junk")
    with pytest.raises(FathomError, match=r"sx9\.wav is not a readable SPHERE or RIFF"):
        verify(tree)
    write(junk, phones="0 300 nothing\n")
    with pytest.raises(FathomError, match="'nothing' is none of TIMIT's 61 phones"):
        verify(tree)
    samples = 1600  # 19 frames are 10 steps, for 12 phones
    phones = "".join(f"{133 * i} {133 * (i + 1)} {('aa', 'b')[i % 2]}\n" for i in range(12))
    write(junk, phones, samples)
    with pytest.raises(FathomError, match="12 phones, which need 12 steps, but only 10"):
        verify(tree)


def test_a_pipe_in_the_place_of_a_sound_is_left_out(tree):
    os.mkfifo(tree / "train/dr1/fabc0/sx9.wav")
    (reason,) = Timit.load(tree).skipped.values()
    assert "is not a regular file" in reason


@pytest.mark.parametrize(("name", "utterances"), [("timit", "48 train"), ("digits", "train")])
def test_the_real_trees_are_right(real_data, name, utterances):
    assert utterances in verify(real_data / name)


def test_every_utterance_of_the_real_tree_is_read(real_data, tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    timit = Timit.load(real_data / "timit")
    parts = timit.train, timit.validation, timit.test
    assert list(map(len, parts)) == [44, 4, 16]  # 80 with the SA sentences
    assert timit.skipped == {}
