"""Runs the workload: ``python -m fathom.alexnet``."""

from fathom.cli.run import run_workload

if __name__ == "__main__":
    run_workload("alexnet")
