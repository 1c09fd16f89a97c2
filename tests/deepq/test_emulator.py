"""The games: preprocessing as in the paper, chance fixed by the seed, and what cannot be played."""

import sys
from pathlib import Path

import ale_py
import gymnasium
import numpy as np
import pytest
from ale_py import roms

from fathom import FathomError
from fathom.deepq import emulator
from fathom.deepq.atari import Atari
from fathom.deepq.emulator import Emulator, Turn, VectorEmulator, resize


def rom(game):
    return Path(roms.get_rom_path(game))


def play(game, actions):
    """Returns the frames and rewards of a sequence of actions."""
    turns = [game.step(np.array([action])) for action in actions]
    return np.concatenate([t.frames for t in turns]), np.concatenate([t.rewards for t in turns])


def random_actions(number, count=4, seed=0):
    return np.random.default_rng(seed).integers(count, size=number)


@pytest.mark.parametrize("shape", [(210, 160), (250, 160), (214, 160)])
def test_a_frame_is_the_mean_of_the_screen_over_areas(shape):
    screen = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    # Of each of 84 areas, the share of every row or column, each of which is cut in 84 parts.
    rows, columns = (np.repeat(np.eye(n), 84, 0).reshape(84, n, n).mean(1) for n in shape)
    assert np.abs(resize(screen) - rows @ screen @ columns.T).max() < 0.5001


def test_several_games_are_those_of_the_given_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path / "nowhere"))
    given = tmp_path / "my_pong.bin"
    given.write_bytes((Path(roms.__file__).parent / "pong.bin").read_bytes())
    assert VectorEmulator(given, 0, 0.0, games=2, threads=1).reset().shape == (2, 84, 84)


def test_a_frame_is_that_of_opencv():
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(0)
    for screen in rng.integers(0, 4, (50, 210, 160), dtype=np.uint8) * 80:
        expected = cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA)
        np.testing.assert_array_equal(resize(screen), expected)


@pytest.mark.parametrize("game", ["Pong", "Breakout"])
def test_a_game_is_that_of_gymnasiums_preprocessing_frame_by_frame(game):
    pytest.importorskip("cv2")
    gymnasium.register_envs(ale_py)
    plain = gymnasium.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0)
    theirs = gymnasium.wrappers.AtariPreprocessing(plain, noop_max=0)
    ours = Emulator(rom(game.lower()), 0, noop_starts=0)
    np.testing.assert_array_equal(ours.reset()[0], theirs.reset(seed=0)[0])
    for action in random_actions(600):
        frame, reward, over, _, _ = theirs.step(action)
        turn = ours.step(np.array([action]))
        assert (turn.rewards[0], turn.game_over[0]) == (reward, over)
        if over:
            frame, _ = theirs.reset()
        np.testing.assert_array_equal(turn.frames[0], frame)


@pytest.mark.parametrize("game", [pytest.param("pong", marks=pytest.mark.slow), "breakout"])
def test_games_at_once_are_the_same_as_one_by_one(game):
    together = VectorEmulator(rom(game), 0, 0.0, games=2, threads=1, noop_starts=0)
    alone = [Emulator(rom(game), 0, noop_starts=0) for _ in range(2)]
    np.testing.assert_array_equal(together.reset(), np.concatenate([g.reset() for g in alone]))
    for actions in random_actions((500, 2)):
        turn = together.step(actions)
        steps = [g.step(action[None]) for g, action in zip(alone, actions, strict=True)]
        expected = Turn(*map(np.concatenate, zip(*steps, strict=True)))
        np.testing.assert_array_equal(turn.frames, expected.frames)
        np.testing.assert_array_equal(turn.rewards, expected.rewards)
        np.testing.assert_array_equal(turn.game_over, expected.game_over)
        ended = turn.game_over | turn.life_lost
        np.testing.assert_array_equal(ended, expected.game_over | expected.life_lost)


def build(kind):
    if kind == "one":
        return Emulator(rom("breakout"), 0, noop_starts=0)
    return VectorEmulator(rom("breakout"), 0, 0.0, games=1, threads=1, noop_starts=0)


@pytest.mark.parametrize("kind", ["one", "several"])
def test_a_game_over_at_the_longest_is_cut_off_and_a_lost_one_is_not(kind, monkeypatch):
    monkeypatch.setattr(emulator, "LONGEST_GAME", 80)
    games = build(kind)
    games.reset()
    turns = [games.step(np.array([1])) for _ in range(20)]
    assert [bool(turn.game_over[0]) for turn in turns] == [False] * 19 + [True]
    assert [bool(turn.cut_off[0]) for turn in turns] == [False] * 19 + [True]
    monkeypatch.undo()
    games = build(kind)
    games.reset()
    turn = games.step(np.array([1]))  # fire, and let the ball fall
    while not turn.game_over[0]:
        turn = games.step(np.array([1]))
    assert not turn.cut_off[0]


@pytest.mark.slow
def test_games_at_once_begin_apart_and_repeat_with_the_seed():
    def frames(seed):
        games = VectorEmulator(rom("pong"), seed, 0.25, games=3, threads=2)
        games.reset()
        return np.stack([games.step(np.array([2, 3, 4])).frames for _ in range(40)])

    first = frames(1)
    np.testing.assert_array_equal(first, frames(1))
    assert np.any(first != frames(2))
    assert np.any(first[:, 0] != first[:, 1])


def test_a_game_begins_with_one_to_thirty_no_ops_that_the_seed_fixes():
    def frames_before(seed):
        game = Emulator(rom("pong"), seed)
        for _ in range(20):
            game.reset()
            yield game._ale.getEpisodeFrameNumber()

    first = list(frames_before(1))
    assert first == list(frames_before(1))
    assert first != list(frames_before(2))
    assert min(first) >= 1
    assert 20 < max(first) <= 30


def test_sticky_actions_repeat_the_action_before():
    def frames(probability, action):
        game = Emulator(rom("pong"), 0, probability, noop_starts=0)
        game.reset()
        return play(game, [action] * 30)[0]

    np.testing.assert_array_equal(frames(1.0, 2), frames(1.0, 3))  # the first no-op for ever
    assert np.any(frames(0.0, 2) != frames(0.0, 3))


def test_a_lost_life_is_told():
    game = Emulator(rom("breakout"), 0)
    game.reset()
    lost, over = 0, 0
    while not over:
        turn = game.step(np.array([1]))  # fire, and let the ball fall
        lost, over = lost + turn.life_lost[0], turn.game_over[0]
    assert lost == 5


def test_a_restored_game_goes_on_as_the_saved_one_did():
    game = Emulator(rom("breakout"), 3, sticky_actions=0.25)
    game.reset()
    play(game, random_actions(100))
    state = game.save()
    expected = play(game, random_actions(400, seed=1))
    other = Emulator(rom("breakout"), 5, sticky_actions=0.25)
    other._seed = 3  # of the no-ops; the sticky actions' random numbers are in the state
    other.restore(state)
    for ours, theirs in zip(play(other, random_actions(400, seed=1)), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_roms_that_come_with_ale_py_are_found():
    atari = Atari.load(Atari.packaged())
    assert len(atari.roms) > 100
    assert atari.rom("ms_pacman").read_bytes() == rom("ms_pacman").read_bytes()


@pytest.mark.parametrize("game", ["pnog", "Pong", "pong-v5"])
def test_an_unknown_game_is_answered_with_the_nearest_names(game):
    with pytest.raises(FathomError, match=f"unknown game '{game}': did you mean pong"):
        Atari.load(Atari.packaged()).rom(game)


def test_a_game_like_no_other_is_answered_with_the_known_names():
    with pytest.raises(FathomError, match=r"unknown game 'nosuch': Known are .*, pong,"):
        Atari.load(Atari.packaged()).rom("nosuch")


def test_a_folder_named_as_a_rom_is_none(tmp_path):
    (tmp_path / "breakout.bin").touch()
    (tmp_path / "pong.bin").mkdir()
    assert list(Atari.load(tmp_path).roms) == ["breakout"]


def test_games_cannot_be_synthesized(tmp_path):
    with pytest.raises(FathomError, match="real ones come with ale-py"):
        Atari.synthesize(tmp_path, 0)


def test_a_folder_without_roms_is_refused(tmp_path):
    with pytest.raises(FathomError, match="holds no ROMs"):
        Atari.load(tmp_path)


def test_a_game_for_two_players_is_refused():
    with pytest.raises(FathomError, match=r"combat cannot be played.*two players"):
        Emulator(rom("combat"), 0)


def test_a_damaged_rom_is_refused(tmp_path):
    path = tmp_path / "pong.bin"
    path.write_bytes(rom("pong").read_bytes()[:-1])
    with pytest.raises(FathomError, match=r"pong.bin is damaged"):
        Emulator(path, 0)


def test_a_game_with_one_action_is_refused(monkeypatch):
    class OneAction(ale_py.ALEInterface):
        def getMinimalActionSet(self):  # noqa: N802
            return [ale_py.Action.NOOP]

    monkeypatch.setattr(ale_py, "ALEInterface", OneAction)
    with pytest.raises(FathomError, match="pong cannot be played: its only actions"):
        Emulator(rom("pong"), 0)


def test_missing_ale_py_is_an_error_of_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(FathomError, match=r"ale-py is missing.*pip install ale-py"):
        emulator.import_ale()
