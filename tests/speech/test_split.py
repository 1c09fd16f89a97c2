from pathlib import Path

from fathom.speech.split import CORE_TEST, DEVELOPMENT, split

SPEAKERS = sorted(CORE_TEST | DEVELOPMENT | {"mabc0", "fabc0"})


def files(folder, speakers, sentences=8):
    return [Path(f"{folder}/DR1/{s.upper()}/SX{i}.WAV") for s in speakers for i in range(sentences)]


def test_the_standard_sets_have_24_and_50_speakers_none_in_both():
    assert (len(CORE_TEST), len(DEVELOPMENT)) == (24, 50)
    assert not CORE_TEST & DEVELOPMENT
    assert sum(speaker.startswith("f") for speaker in CORE_TEST) == 8  # 1 woman, 2 men a region


def test_all_of_timit_is_split_into_the_standard_sets():
    spoken = files("train", ["mxyz0"])
    train, development, test = split(spoken, files("test", SPEAKERS))
    assert train == spoken
    assert (len(development), len(test)) == (400, 192)
    assert {path.parent.name.lower() for path in development} == DEVELOPMENT
    assert {path.parent.name.lower() for path in test} == CORE_TEST


def test_of_another_tree_a_tenth_of_the_training_utterances_is_held_out():
    spoken = files("train", ["mxyz0", "fxyz0", "mxyz1"])
    tested = files("test", [speaker for speaker in SPEAKERS if speaker != "mdab0"])
    train, development, test = split(spoken, tested)
    assert test == tested
    assert len(development) == 2
    assert sorted(train + development) == sorted(spoken)
    assert split(spoken, tested) == (train, development, test)


def test_of_few_utterances_none_is_held_out():
    spoken = files("train", ["mxyz0"])
    assert split(spoken, []) == (spoken, [], [])
