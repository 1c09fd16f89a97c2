"""The replay memory against a plain list of what happened."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom import FathomError
from fathom.deepq.replay import ReplayMemory

SHAPE = (2, 3)


def frame(environment, moment):
    return np.full(SHAPE, 1 + (7 * moment + 101 * environment) % 255, np.uint8)


def filled(size, environments, ends):
    """Returns a memory and what was added: ends is bool [moments, environments]."""
    memory = ReplayMemory(size, environments, SHAPE)
    for moment, end in enumerate(ends):
        every = range(environments)
        memory.add(
            np.stack([frame(e, moment) for e in every]),
            np.array([(moment + e) % 5 for e in every]),
            np.array([(moment + e) % 3 - 1 for e in every]),
            np.array(end),
            np.zeros(environments, bool),
        )
    return memory


def state(ends, environment, moment):
    """Returns the state as the paper defines it: frame by frame, backwards to the beginning."""
    frames = [frame(environment, moment)]
    while len(frames) < 4:
        moment -= 1
        if moment < 0 or ends[moment][environment]:
            frames += [np.zeros(SHAPE, np.uint8)] * (4 - len(frames))
        else:
            frames.append(frame(environment, moment))
    return np.stack(frames[::-1], -1)


def find(drawn, ends, environments, oldest):
    """Returns the environment and moment of a drawn transition, by its newest frame."""
    newest = drawn[0, 0, -1]
    return [
        (e, m)
        for e in range(environments)
        for m in range(oldest, len(ends) - 1)
        if frame(e, m)[0, 0] == newest
    ]


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_sample_is_what_a_list_of_all_transitions_holds(data):
    environments = data.draw(st.integers(1, 2))
    length = data.draw(st.integers(6, 15))
    moments = data.draw(st.integers(6, 30))
    ends = data.draw(
        st.lists(
            st.lists(st.booleans(), min_size=environments, max_size=environments),
            min_size=moments,
            max_size=moments,
        )
    )
    memory = filled(length * environments, environments, ends)
    batch = memory.sample(50, np.random.default_rng(data.draw(st.integers(0, 100))))
    assert memory.length == -(-length // 4) * 4  # whole groups of four frames
    oldest = max(0, moments - memory.length)
    for i in range(50):
        places = find(batch.states[i], ends, environments, oldest)
        assert len(places) == 1
        environment, moment = places[0]
        np.testing.assert_array_equal(batch.states[i], state(ends, environment, moment))
        assert batch.actions[i] == (moment + environment) % 5
        assert batch.rewards[i] == (moment + environment) % 3 - 1
        assert batch.terminals[i] == ends[moment][environment]
        if not batch.terminals[i]:
            np.testing.assert_array_equal(
                batch.next_states[i], state(ends, environment, moment + 1)
            )


def test_every_transition_that_is_complete_is_drawn():
    memory = filled(12, 1, [[False]] * 25)
    batch = memory.sample(500, np.random.default_rng(0))
    # Moments 13 to 24 are in the memory: 24 has no next frame, 13 to 15 lack frames before them.
    assert set(batch.states[:, 0, 0, -1]) == {frame(0, m)[0, 0] for m in range(16, 24)}


def test_transitions_of_every_game_are_drawn():
    batch = filled(20, 2, [[False, False]] * 8).sample(100, np.random.default_rng(0))
    newest = set(batch.states[:, 0, 0, -1])
    assert newest == {frame(game, moment)[0, 0] for game in range(2) for moment in range(7)}


@pytest.mark.parametrize("moments", [7, 10, 23])
def test_restarted_games_are_not_joined_to_those_before(moments):
    ends = [[False, False]] * moments
    memory = filled(20, 2, ends)
    memory.end_episodes()
    ends[-1] = [True, True]
    assert memory.terminals.sum() == 2
    for moment in range(moments, moments + 5):
        frames = np.stack([frame(game, moment) for game in range(2)])
        memory.add(frames, np.zeros(2, int), np.zeros(2), *np.zeros((2, 2), bool))
        ends.append([False, False])
    batch = memory.sample(200, np.random.default_rng(0))
    for i in range(200):
        ((game, moment),) = find(batch.states[i], ends, 2, len(ends) - memory.length)
        np.testing.assert_array_equal(batch.states[i], state(ends, game, moment))
        assert moment != moments - 1  # its next state is not known
        assert not batch.terminals[i]


def test_a_transition_that_was_cut_off_is_not_drawn():
    memory = filled(10, 1, [[False]] * 4 + [[True]] + [[False]] * 4)
    memory.cut_off[0, 4] = True
    batch = memory.sample(500, np.random.default_rng(0))
    assert set(batch.states[:, 0, 0, -1]) == {frame(0, m)[0, 0] for m in range(8) if m != 4}
    assert not batch.terminals.any()
    memory.cut_off[:] = True
    assert len(memory.sample(5, np.random.default_rng(0)).states) == 5  # it does not wait for ever


def test_an_empty_memory_has_no_episode_to_end():
    memory = ReplayMemory(20, 2, SHAPE)
    memory.end_episodes()
    assert not memory.terminals.any()


def test_the_types_are_those_of_the_step():
    batch = filled(10, 1, [[False]] * 8).sample(5, np.random.default_rng(0))
    assert [array.dtype.name for array in batch] == ["uint8", "int32", "float32", "uint8", "bool"]
    assert batch.states.shape == batch.next_states.shape == (5, *SHAPE, 4)


def test_a_hundred_thousand_frames_take_less_than_0_8_gigabytes():
    assert ReplayMemory.bytes_needed(100_000) < 0.8e9


def test_a_memory_that_does_not_fit_is_refused_with_its_size():
    with pytest.raises(FathomError, match=r"7,060,000,000,000 bytes \(6575\.1 GiB\).*replay_size"):
        ReplayMemory(1_000_000_000)
