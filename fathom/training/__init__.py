"""The training loop and what belongs to it: checkpoints, optimizers, schedules, randomness."""
