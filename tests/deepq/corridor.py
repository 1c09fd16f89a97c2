"""A tiny game without chance whose optimal policy is known."""

import numpy as np

from fathom.deepq import DeepQ
from fathom.deepq.emulator import SIDE, Turn

ROOMS = 4
OPTIONS = {
    "network": 2013,
    "batch_size": 16,
    "replay_size": 1000,
    "learning_starts": 100,
    "update_frequency": 2,
    "target_update": 25,
    "final_exploration_frame": 200,
    "evaluation_episodes": 3,
    "learning_rate": 0.001,
}


class Corridor:
    """Four rooms in a row: leaving it to the right is worth a point, to the left costs one.

    The game begins in the second room; action 0 is a step to the left, 1 to the right.
    """

    games = 1
    actions = ("left", "right")

    def __init__(self):
        self.room = 1

    def reset(self):
        self.room = 1
        return draw(self.room)[None]

    def step(self, actions):
        self.room += 1 if actions[0] else -1
        over, reward = not 0 <= self.room < ROOMS, 0
        if over:
            reward = 1 if self.room > 0 else -1
            self.room = 1
        return Turn(
            draw(self.room)[None],
            np.array([reward], np.float32),
            np.array([False]),
            np.array([over]),
            np.array([False]),
        )

    def screen(self):
        return np.repeat(draw(self.room)[..., None], 3, 2)

    def save(self):
        return bytes([self.room])

    def restore(self, state):
        self.room = state[0]


def draw(room):
    """Returns what a room looks like, uint8 [84, 84]."""
    frame = np.zeros((SIDE, SIDE), np.uint8)
    frame[:, 21 * room : 21 * (room + 1)] = 255
    return frame


class CorridorDeepQ(DeepQ):
    """Deep Q-learning in the corridor."""

    def build_game(self, stream):
        return Corridor()

    def build_games(self, stream, number):
        return Corridor()


def corridor(**options):
    """Returns a model that learns the corridor in seconds."""
    return CorridorDeepQ("/cpu:0", {**OPTIONS, **options})
