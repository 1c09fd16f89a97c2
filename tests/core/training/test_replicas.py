"""Training on several replicas is that of one: the same losses, whatever their number."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from commands import run
from rich.console import Console

from fathom import FathomError, __main__
from fathom.cli import launch
from fathom.core.training import strategies
from fathom.core.training.rendezvous import meet

SEVERAL = ("memnet", "alexnet", "residual", "seq2seq", "dlrm", "transformer")


def losses_of(workloads):
    """Returns the losses of workloads on 1, 2 and 3 replicas, each number in a process."""
    script = Path(__file__).with_name("replicated.py")
    processes = [
        subprocess.Popen(
            [sys.executable, script, str(replicas), *workloads],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for replicas in (1, 2, 3)  # TensorFlow allows one number in a process
    ]
    found = []
    for process in processes:
        output, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors[-2000:]
        found.append(json.loads(output.splitlines()[-1]))
    return found


@pytest.mark.parametrize(
    "workloads",
    [["autoenc"], pytest.param(SEVERAL, marks=pytest.mark.slow)],
    ids=["one", "several"],
)
def test_losses_do_not_depend_on_the_number_of_replicas(workloads):
    losses = losses_of(workloads)
    for workload in workloads:
        one, two, three = (each[workload] for each in losses)
        assert len(set(one)) > 1
        np.testing.assert_allclose(two, one, rtol=1e-5, err_msg=workload)
        np.testing.assert_allclose(three, one, rtol=1e-5, err_msg=workload)


def fathom(*arguments):
    return run(__main__.main, list(arguments))


def refusal(capsys, *arguments):
    assert fathom(*arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


SMALL = ("--set=hidden_units=8", "--set=latents=2", "--steps=1", "--device=cpu")


def test_what_cannot_be_distributed_is_refused(capsys):
    for arguments, message in (
        (("autoenc", "--strategy=mirrored", "--batch-size=7", "--infer"), "is for training"),
        (("autoenc", "--strategy=mirrored", "--xla", *SMALL), "does not work with --xla"),
        (("autoenc", "--replicas=2", *SMALL), "is for --strategy mirrored"),
        (("autoenc", "--strategy=parameter-server"), "invalid choice"),
        (("autoenc", "--strategy=mirrored", "--precision=float16", *SMALL), "try bfloat16"),
        (("deepq", "--strategy=mirrored"), "deepq cannot be distributed: its agent acts"),
    ):
        assert message in refusal(capsys, "run", *arguments)


def test_every_batch_must_have_equal_parts():
    signatures = [[tf.TensorSpec((size, 12), tf.int32)] for size in (170, 341, 64)]
    strategies.check_batches(signatures, 1)
    with pytest.raises(FathomError, match="a batch of 341 cannot be divided among 2 replicas"):
        strategies.check_batches(signatures, 2)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "must be JSON as"),
        ('{"cluster":' * 10**5, "must be JSON as"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1e999}}',
         "must be JSON as"),
        ('{"cluster": {"worker": ["a:1"]}}', "must be JSON as"),
        ('{"cluster": {"ps": ["a:1"], "worker": ["a:2"]}, "task": {"type": "worker", "index": 0}}',
         "all tasks are workers"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}', "and none 1"),
        ('{"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 1}}',
         "an address twice"),
        ('{"cluster": {"worker": ["a:%s"]}, "task": {"type": "worker", "index": 0}}' % ("9" * 5000),
         "no host:port"),
        ('{"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}}', "no host:port"),
    ],
)  # fmt: skip
def test_a_malformed_cluster_is_refused(config, message, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(FathomError, match=message):
        strategies.cluster()


def test_without_a_cluster_the_command_that_makes_one_is_named(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(FathomError, match="python -m fathom launch -n N"):
        strategies.cluster()


def test_slurm_describes_the_cluster_on_hosts_without_gpus(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv("SLURM_PROCID", "2")
    with pytest.raises(FathomError, match=r"does not describe the workers .*: use srun"):
        strategies.cluster()
    variables = {"NUM_TASKS": "3", "NODELIST": "node[1-2]", "TASKS_PER_NODE": "2,1"}
    for name, value in variables.items():
        monkeypatch.setenv(f"SLURM_STEP_{name}", value)
    monkeypatch.setenv("PATH", "")  # no nvidia-smi
    addresses = ("node1:8888", "node1:8889", "node2:8888")
    assert strategies.cluster() == strategies.Cluster(addresses, 2)


def test_a_port_in_use_is_refused():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        address = f"localhost:{taken.getsockname()[1]}"
        with pytest.raises(FathomError, match=f"of {address} cannot be used"):
            strategies._check_port(address)


def test_launched_workers_train_as_one_process(tmp_path, capsys):
    result, logs = tmp_path / "r.json", tmp_path / "logs"
    sizes = ("image_size=67", "smallest_side=76", "largest_side=76", "evaluation_side=76")
    options = (*(f"--set={each}" for each in sizes), "--set=hidden_units=64", "--set=classes=10")
    options += ("--steps=4", "--batch-size=6", "--threads=1", "--device=cpu")
    command = ("alexnet", "--train", *options, f"--json={result}")  # which reads its own images
    assert fathom("launch", "-n", "2", "--out", str(logs), "--", *command) == 0
    assert "4 steps in" in capsys.readouterr().out
    assert "steps in" not in (logs / "worker-1.log").read_text()
    document = json.loads(result.read_text())
    two, distribution = document["steps"]["loss"], document["distribution"]
    assert (distribution["workers"], distribution["batch_statistics"]) == (2, None)
    assert distribution["gradient_bytes"] == 4 * document["cost"]["parameters"]
    assert distribution["sent_bytes"] == distribution["gradient_bytes"]  # 2 (2 - 1) / 2
    assert distribution["link"]["bytes_per_second"] > 0
    assert 0 < distribution["collective_share"] < 1
    assert min(distribution["waiting_seconds"]) < max(distribution["collective_seconds"])
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run(
        [sys.executable, "-m", "fathom", "run", *command, "--no-xla"],
        env=environment, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    one = json.loads(result.read_text())["steps"]["loss"]
    np.testing.assert_allclose(two, one, rtol=1e-5)


def test_of_several_failures_the_killed_worker_is_named(tmp_path):
    (log := tmp_path / "log").touch()
    processes = [SimpleNamespace(poll=lambda code=code: code) for code in (2, -9)]
    assert launch._wait(processes, log, Console(quiet=True)) == 1


def test_the_first_failure_ends_all_workers(tmp_path, capsys):
    command = ("autoenc", "--train", "--batch-size=7", *SMALL)
    error = refusal(capsys, "launch", "-n", "2", "--out", str(tmp_path), "--", *command)
    assert "a batch of 7 cannot be divided among 2 replicas" in error
    assert f"see {tmp_path}" in error


def test_hosts_get_the_commands_to_run(capsys):
    assert fathom("launch", "-n", "2", "--hosts", "a,b", "--", "vgg", "--train") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("ssh a ")
    assert '"index": 1' in second
    assert "a:20000" in second
    assert "run vgg --train --strategy multi-worker" in second


def test_workers_can_train_until_a_target(capsys):
    asked = ("quality", "autoenc", "--target", "negative_elbo=110", "--batches", "100,400")
    assert fathom("launch", "-n", "2", "--hosts", "a,b", "--", *asked) == 0
    assert f"{' '.join(asked)} --strategy multi-worker" in capsys.readouterr().out
    assert "unknown workload" in refusal(capsys, "launch", "-n", "2", "--", "quality")
    profile = ("launch", "-n", "2", "--", "profile", "vgg")
    assert "profile is of one device" in refusal(capsys, *profile)


def meeting(*wanted, workers=None, limit=5.0):
    """Lets workers meet, each in a thread; returns what each of them is told."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    told = {}

    def come(place, index, identity):
        try:
            meet([address] * (workers or len(wanted)), index, identity, limit)
            told[place] = "go"
        except FathomError as error:
            told[place] = str(error)

    threads = [
        threading.Thread(target=come, args=(place, *each)) for place, each in enumerate(wanted)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return [told[place] for place in range(len(wanted))]


def test_workers_go_when_all_are_there():
    same = {"batch_size": 8, "commit": "abc"}
    assert meeting((0, same), (2, same), (1, same)) == ["go"] * 3


def test_workers_that_differ_are_refused_by_what_differs():
    told = meeting((0, {"seed": 0, "commit": "a"}), (1, {"seed": 1, "commit": "b"}))
    assert told == ["worker 1 differs from the first in commit, seed"] * 2


def test_a_number_that_two_workers_have_is_refused():
    first, *others = meeting((0, {}), (1, {}), (1, {}))
    assert first == "two workers have the number 1"
    assert first in others


def test_a_worker_that_does_not_come_is_named():
    assert meeting((0, {}), workers=3, limit=1.0) == ["worker 1 and 2 did not come within 1 s"]
    (told,) = meeting((1, {}), workers=2, limit=0.5)
    assert "cannot be reached" in told
