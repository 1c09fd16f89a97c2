"""Runs the workload: ``python -m fathom.mamba``."""

from fathom.cli.run import run_workload

if __name__ == "__main__":
    run_workload("mamba")
