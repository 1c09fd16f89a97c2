"""Runs the workload: ``python -m fathom.autoenc``."""

from fathom.cli.run import run_workload

if __name__ == "__main__":
    run_workload("autoenc")
