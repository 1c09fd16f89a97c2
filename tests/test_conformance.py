"""The conformance suite on the eight workloads and on those of ``fathom.modern``."""

from fathom import workloads
from fathom.testing.conformance import *  # noqa: F403
from fathom.testing.conformance import check_training_of_three_steps, run_command
from fathom.testing.descriptors import descriptor

WORKLOADS = workloads.select("eight,modern")


def test_a_process_of_its_own_prints_no_noise(tmp_path):
    workload = descriptor("autoenc")
    arguments = ["fathom", "run", workload.name, *workload.arguments(), "--steps=3", "--evaluate"]
    done = run_command(*arguments, "--json=result.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    check_training_of_three_steps(done.stdout, tmp_path / "result.json")
