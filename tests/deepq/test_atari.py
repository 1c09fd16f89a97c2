import os
import shutil
import subprocess
import sys

import pytest

from fathom.deepq.atari import Atari
from fathom.errors import FathomError


def verify(directory):
    return Atari.verify(directory, Atari.Options(), False)


def test_the_games_that_come_with_the_emulator_are_right():
    assert "games are as the emulator knows them" in verify(Atari.packaged())


def test_a_game_of_another_name_is_refused_with_its_own(tmp_path):
    shutil.copy(Atari.packaged() / "breakout.bin", tmp_path / "pong.bin")
    with pytest.raises(FathomError, match=r"pong\.bin is breakout: name it breakout\.bin"):
        verify(tmp_path)


@pytest.mark.parametrize("content", [b"", b"junk" * 512])
def test_a_file_that_is_no_game_is_refused(tmp_path, content):
    (tmp_path / "pong.bin").write_bytes(content)
    with pytest.raises(FathomError, match=r"pong\.bin is damaged, or another game"):
        verify(tmp_path)


def test_a_pipe_in_the_place_of_a_game_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pong.bin")
    with pytest.raises(FathomError, match=r"pong\.bin is not a regular file"):
        Atari.load(tmp_path).rom("pong")


@pytest.mark.slow
def test_an_error_after_the_games_were_built_is_one_line(tmp_path):
    command = [sys.executable, "-m", "fathom.deepq", "--infer", "--checkpoint-dir", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1  # the emulator prints more if it is still in use at exit
