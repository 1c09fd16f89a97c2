"""Runs the workload: ``python -m fathom.modern.dlrm``."""

from fathom.cli.run import run_workload

if __name__ == "__main__":
    run_workload("dlrm")
