"""Runs the workload: ``python -m fathom.modern.grpo``."""

from fathom.cli.run import run_workload

if __name__ == "__main__":
    run_workload("grpo")
