import os
import shutil

import pytest

from fathom.deepq.atari import Atari
from fathom.errors import FathomError


def verify(directory):
    return Atari.verify(directory, Atari.Options(), False)


def test_the_games_that_come_with_the_emulator_are_right():
    assert "games are as the emulator knows them" in verify(Atari.packaged())


@pytest.mark.parametrize("content", [b"", b"junk" * 512, "breakout"])
def test_a_file_that_is_not_the_game_of_its_name_is_refused(tmp_path, content):
    if isinstance(content, str):
        shutil.copy(Atari.packaged() / f"{content}.bin", tmp_path / "pong.bin")
    else:
        (tmp_path / "pong.bin").write_bytes(content)
    with pytest.raises(FathomError, match=r"pong\.bin is damaged, or another game"):
        verify(tmp_path)


def test_a_pipe_in_the_place_of_a_game_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pong.bin")
    with pytest.raises(FathomError, match=r"pong\.bin is not a regular file"):
        Atari.load(tmp_path).rom("pong")
