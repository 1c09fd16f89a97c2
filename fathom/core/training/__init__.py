"""The training loop: runner, checkpoints, optimizers, schedules, random numbers."""
