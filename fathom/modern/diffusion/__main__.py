"""Runs the workload: ``python -m fathom.diffusion``."""

from fathom.cli.run import run_workload

if __name__ == "__main__":
    run_workload("diffusion")
