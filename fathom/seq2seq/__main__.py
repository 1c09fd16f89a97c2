"""Runs the workload: ``python -m fathom.seq2seq``."""

from fathom.cli.run import run_workload

if __name__ == "__main__":
    run_workload("seq2seq")
