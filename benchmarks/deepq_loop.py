"""Times deepq's loop of acting and learning, in Fathom or in PyTorch in the style of CleanRL.

    python benchmarks/deepq_loop.py --library fathom
    python benchmarks/deepq_loop.py --library pytorch

Each needs only its own library: PyTorch's loop needs PyTorch, gymnasium, ale-py and OpenCV. Both
play Pong with the network of 2015 and a minibatch of 32; an
update follows every four actions, all of them chosen by the network: in turn in one game, or at
once in ``--games 4``. Times are medians.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

BATCH, ACTIONS, FRAMES = 32, 4, 5_000


class Stopwatch:
    """Medians of the times of parts, in milliseconds: of the clock, and of the processor."""

    def __init__(self) -> None:
        self.times: dict[str, list[tuple[float, float]]] = {}

    def time(self, part: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function, times it and returns what it returns."""
        started = time.perf_counter(), time.process_time()
        value = function(*arguments)
        elapsed = time.perf_counter() - started[0], time.process_time() - started[1]
        self.times.setdefault(part, []).append(elapsed)
        return value

    def medians(self) -> dict[str, dict[str, float]]:
        """Returns the medians after a warm-up of a tenth."""
        return {
            part: {
                kind: round(1e3 * statistics.median(column[len(column) // 10 :]), 3)
                for kind, column in zip(
                    ("clock ms", "cpu ms"), zip(*times, strict=True), strict=True
                )
            }
            for part, times in self.times.items()
        }


def fathom_loop(updates: int, games: int, threads: int, xla: bool) -> dict[str, dict[str, float]]:
    """Runs Fathom's loop."""
    from fathom import DeepQ

    options = {"threads": threads, "learning_starts": FRAMES, "final_exploration": 0.0}
    options["environments"] = games
    model = DeepQ("/cpu:0", {**options, "final_exploration_frame": 1, "xla": xla})
    model.setup()
    model.run(n_steps=1)
    watch, batches = Stopwatch(), model.training_batches(1)
    agent, hyperparameters = model.agent, model.hyperparameters
    agent.player.choose = _timed(watch, "acting", agent.player.choose)
    agent.player.act = _timed(watch, "emulator", agent.player.act)
    agent.memory.sample = _timed(watch, "sampling", agent.memory.sample)

    def learn(batch: Any) -> float:
        return float(model.train(*batch))

    def update() -> None:
        watch.time("learning step without sampling", learn, next(batches))

    for _ in range(updates):
        watch.time("whole loop", update)
    assert hyperparameters.batch_size == BATCH
    assert hyperparameters.update_frequency == ACTIONS
    return watch.medians()


def _timed(watch: Stopwatch, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: watch.time(part, function, *arguments)


def pytorch_loop(
    updates: int, games: int, threads: int, compiled: bool
) -> dict[str, dict[str, float]]:
    """Runs the loop as CleanRL's dqn_atari.py does: gymnasium's wrappers, a replay of stacks."""
    import ale_py
    import gymnasium
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    torch.set_num_threads(threads)
    gymnasium.register_envs(ale_py)

    def make_game() -> gymnasium.Env:
        game = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0)
        game = gymnasium.wrappers.AtariPreprocessing(game)
        return gymnasium.wrappers.FrameStackObservation(game, 4)

    players = [make_game() for _ in range(games)]

    def network() -> nn.Module:
        layers = [nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU()]
        layers += [nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512)]
        layers += [nn.ReLU(), nn.Linear(512, int(players[0].action_space.n))]
        return nn.Sequential(*layers).to(memory_format=torch.channels_last)

    online, target = network(), network()
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4, fused=True)
    states = np.zeros((FRAMES, 4, 84, 84), np.uint8)
    actions, rewards, ends = (np.zeros(FRAMES, kind) for kind in (np.int64, np.float32, bool))
    rng, watch = np.random.default_rng(0), Stopwatch()

    def q_values(model: nn.Module, state: torch.Tensor) -> torch.Tensor:
        return model(state.float().div(255).contiguous(memory_format=torch.channels_last))

    def loss(batch: tuple) -> torch.Tensor:
        state, action, reward, next_state, end = batch
        with torch.no_grad():
            best = q_values(target, next_state).max(1).values
        value = q_values(online, state).gather(1, action[:, None])[:, 0]
        return F.smooth_l1_loss(value, reward + 0.99 * best * ~end)

    compiled_loss = torch.compile(loss) if compiled else loss
    compiled_act = torch.compile(q_values) if compiled else q_values

    def act() -> list[int]:
        with torch.no_grad():
            return compiled_act(online, torch.as_tensor(np.stack(current))).argmax(1).tolist()

    def sample() -> tuple:
        chosen = rng.integers(FRAMES - games, size=BATCH)
        following = states[chosen + games]  # of the same game
        arrays = states[chosen], actions[chosen], rewards[chosen], following, ends[chosen]
        return tuple(map(torch.as_tensor, arrays))

    def learn(batch: tuple) -> float:
        error = compiled_loss(batch)
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        return error.item()

    current, position = [game.reset(seed=i)[0] for i, game in enumerate(players)], 0

    def remember(number: int, action: int, step: Callable[..., tuple]) -> None:
        nonlocal position
        states[position], actions[position] = current[number], action
        current[number], rewards[position], ends[position], _, _ = step(players[number], action)
        if ends[position]:
            current[number] = players[number].reset()[0]
        position = (position + 1) % FRAMES

    def play(game: gymnasium.Env, action: int) -> tuple:
        return game.step(action)

    def timed_play(game: gymnasium.Env, action: int) -> tuple:
        return watch.time("emulator", play, game, action)

    def update() -> None:
        for _ in range(ACTIONS // games):
            for number, action in enumerate(watch.time("acting", act)):
                remember(number, action, timed_play)
        watch.time("learning step without sampling", learn, watch.time("sampling", sample))

    for i in range(FRAMES):
        remember(i % games, int(rng.integers(6)), play)
    for _ in range(updates):
        watch.time("whole loop", update)
    return watch.medians()


def main() -> None:
    """Runs the loop that the command line names and prints its times as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", choices=("fathom", "pytorch"), required=True)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--games", type=int, choices=(1, 2, 4), default=1, help="played at once")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compiled", action="store_true", help="XLA, or torch.compile")
    args = parser.parse_args()
    loop = fathom_loop if args.library == "fathom" else pytorch_loop
    print(json.dumps(loop(args.updates, args.games, args.threads, args.compiled), indent=1))


if __name__ == "__main__":
    main()
