"""Training on several replicas is that of one: the same losses, whatever their number."""

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from commands import run

from fathom import FathomError, __main__, workloads
from fathom.cli import launch
from fathom.core.training import collectives, rendezvous, strategies
from fathom.core.training.rendezvous import meet
from fathom.system import device

FAST = ("autoenc",)
REFUSED = {"deepq", "gcn", "grpo"}  # with the reason, as tested below
OTHERS = sorted(set(workloads.names()) - {*FAST, *REFUSED})


def losses_of(names, variants):
    """Returns the losses of workloads, each variant in a process of its own."""
    script = Path(__file__).with_name("replicated.py")
    processes = [
        subprocess.Popen(
            [sys.executable, script, replicas, *names],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            text=True,
        )
        for replicas, environment in variants  # TensorFlow allows one number in a process
    ]
    found = []
    for process in processes:
        output, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors[-2000:]
        found.append(json.loads(output.splitlines()[-1]))
    return found


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(FAST, marks=pytest.mark.slow),
        *(pytest.param([name], marks=pytest.mark.nightly) for name in OTHERS),
    ],
    ids=lambda names: names[0],
)
def test_losses_do_not_depend_on_the_number_of_replicas(names):
    losses = losses_of(names, [("1", {}), ("2", {}), ("3", {})])
    for workload in names:
        one, two, three = (each[workload] for each in losses)
        assert len(set(one)) > 1
        np.testing.assert_allclose(two, one, rtol=1e-5, err_msg=workload)
        np.testing.assert_allclose(three, one, rtol=1e-5, err_msg=workload)


def losses_by_gloo(names, workers, kind="gloo"):
    """Returns the losses of one process, and those of workers, which are the same in all."""
    addresses = [free_address() for _ in range(workers)]
    configs = [launch._environment(addresses, i, None, "secret") for i in range(workers)]
    one, *others = losses_of(names, [("1", {}), *((kind, config) for config in configs)])
    assert others[1:] == others[:-1]
    return one, others[0]


@pytest.mark.slow
def test_sums_by_gloo_give_the_same_losses():
    pytest.importorskip("torch")
    names = ["autoenc", "residual", "dlrm", "transformer", "memnet"]  # sparse rows, and statistics
    one, together = losses_by_gloo(names, 3)
    for name in names:
        np.testing.assert_allclose(together[name], one[name], rtol=1e-5, err_msg=name)


@pytest.mark.slow
def test_experts_divided_among_workers_give_the_same_losses():
    pytest.importorskip("torch")
    one, two = losses_by_gloo(["moe"], 2)
    np.testing.assert_allclose(two["moe"], one["moe"], rtol=1e-5)


@pytest.mark.slow
def test_sums_in_bfloat16_give_nearly_the_same_losses():
    pytest.importorskip("torch")
    names = ["autoenc", "dlrm"]  # dlrm's rows are gathered
    one, two = losses_by_gloo(names, 2, "gloo-bfloat16")
    for name in names:
        np.testing.assert_allclose(two[name], one[name], rtol=2e-2, err_msg=name)
        assert two[name][1:] != pytest.approx(one[name][1:], rel=1e-7)  # they were rounded


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
        (("gcn", "--strategy=mirrored"), "gcn cannot be distributed: each replica would compute"),
        (("grpo", "--strategy=mirrored"), "grpo cannot be distributed: its answers are sampled"),
        (("autoenc", "--collectives=gloo", *SMALL), "is for --strategy multi-worker"),
        (("autoenc", "--reduce-dtype=bfloat16", *SMALL), "is for --collectives gloo"),
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
        ('{"cluster": {"worker": ["a..b:1"]}, "task": {"type": "worker", "index": 0}}',
         "no host:port"),
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
    monkeypatch.setenv("SLURM_JOB_ID", "100")  # the ports are this job's
    addresses = ("node1:11600", "node1:11601", "node2:11600")
    assert strategies.cluster() == strategies.Cluster(addresses, 2)
    monkeypatch.setenv("SLURM_PROCID", "3")
    with pytest.raises(FathomError, match="SLURM_PROCID is 3, and there are 3 tasks"):
        strategies.cluster()


def test_a_port_in_use_is_refused():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        cluster, cpu = strategies.Cluster((address, "127.0.0.1:1"), 0), device.select("cpu")
        with pytest.raises(
            FathomError, match=r"of 127.0.0.1 cannot be used: Address already in use$"
        ):
            strategies._join(cluster, {}, "tensorflow", cpu)


@pytest.mark.slow
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


LOSER = "print('worker 0 was lost', flush=True); os._exit(2)"


def program(code, log=None):
    command = [sys.executable, "-S", "-c", f"import os, signal, time; {code}"]
    return subprocess.Popen(command, stdout=log)


def wait(tmp_path, *codes):
    """Returns the worker that failed, of those that run some code."""
    logs = [tmp_path / f"worker-{index}.log" for index in range(len(codes))]
    workers = [program(code, log.open("wb")) for code, log in zip(codes, logs, strict=True)]
    failed = launch._wait(workers, logs, lambda: None)
    for worker in workers:
        worker.kill()
        worker.wait()
    return failed


def test_of_several_failures_the_first_is_named(tmp_path):
    late = "time.sleep(1.5); os._exit(2)"
    assert wait(tmp_path, late, "os.kill(os.getpid(), signal.SIGKILL)", late) == 1
    assert wait(tmp_path, late, "os._exit(3)") == 1


def test_of_a_worker_and_one_that_lost_it_the_former_is_named(tmp_path, monkeypatch):
    assert wait(tmp_path, "time.sleep(1); os._exit(1)", LOSER) == 0
    monkeypatch.setattr(launch, "_LONGEST_CAUSE", 0.5)
    assert wait(tmp_path, "time.sleep(20)", LOSER) == 1


@pytest.mark.slow
def test_the_chief_may_take_long_after_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "_LONGEST_END", 0.5)
    assert wait(tmp_path, "time.sleep(2)", "") is None
    assert wait(tmp_path, "", "time.sleep(20)") == 1


@pytest.mark.slow
def test_the_first_failure_ends_all_workers(tmp_path, capsys):
    command = ("autoenc", "--train", "--batch-size=7", *SMALL)
    error = refusal(capsys, "launch", "-n", "2", "--out", str(tmp_path), "--", *command)
    assert "a batch of 7 cannot be divided among 2 replicas" in error
    assert f"see {tmp_path}" in error


def test_hosts_get_the_commands_to_run(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("FATHOM_DATA_DIR", "/data sets")
    monkeypatch.chdir(tmp_path)
    assert fathom("launch", "-n", "4", "--hosts", "a,b", "--", "vgg", "--train") == 0
    lines = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
    assert [(ssh, host) for ssh, host, _ in lines] == [("ssh", each) for each in "aabb"]
    env, *words = shlex.split(lines[3][2])
    assert (env, words[:2]) == ("env", ["-C", str(tmp_path)])
    at = words.index(sys.executable)
    assert " ".join(words[at + 1 :]) == "-m fathom run vgg --train --strategy multi-worker"
    variables = dict(word.split("=", 1) for word in words[2:at])
    assert variables["FATHOM_DATA_DIR"] == "/data sets"
    assert variables["CUDA_VISIBLE_DEVICES"] == "1"  # the second of b
    config = json.loads(variables["TF_CONFIG"])
    assert config["task"]["index"] == 3
    assert [address[0] for address in config["cluster"]["worker"]] == list("aabb")
    secret = f"{rendezvous.SECRET}={variables[rendezvous.SECRET]}"
    assert all(secret in shlex.split(there) for *_, there in lines)
    assert len(secret) > 64
    refused = refusal(capsys, "launch", "-n", "3", "--hosts", "a,b", "--", "vgg", "--train")
    assert "3 workers cannot be divided among 2 hosts" in refused


def test_each_worker_of_a_machine_has_its_own_gpu(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert launch._gpus(2) == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-a,5")
    assert launch._gpus(2) == ["2", "GPU-a"]
    with pytest.raises(FathomError, match="has 3 GPUs for 4 workers"):
        launch._gpus(4)
    for none in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", none)
        assert launch._gpus(2) == [none, none]


def test_the_last_words_of_a_worker_that_was_stopped_are_shown():
    printed, shown = [], []

    class Worker:
        """Says where it can be resumed and ends, just before it is asked whether it has."""

        asked = 0

        def terminate(self):
            pass

        def poll(self):
            self.asked += 1
            if self.asked == 1:
                return None
            printed.append("--resume continues from step 3")
            return 0

    launch._stop([Worker()], lambda: shown.extend(printed))
    assert shown == ["--resume continues from step 3"]


@pytest.mark.parametrize("end", ["os._exit(1)", LOSER])
def test_a_failed_training_starts_again_from_its_checkpoint(end, tmp_path, capsys, monkeypatch):
    started = []

    def start(command, variables, log):
        started.append(list(command))
        return program(end if len(started) <= 4 else "", log)

    monkeypatch.setattr(launch, "_start", start)
    command = ("launch", "-n", "2", "--out", str(tmp_path / "logs"), "--max-restarts=2", "--")
    assert fathom(*command, "vgg", "--train", f"--checkpoint-dir={tmp_path}") == 0
    assert ["--resume" in each for each in started] == [False] * 2 + [True] * 4
    assert capsys.readouterr().out.count("starting all again") == 2
    assert "give --checkpoint-dir" in refusal(capsys, *command, "vgg")
    assert "quality keeps finished trainings" in refusal(capsys, *command, "quality", "vgg")
    assert "name a file" in refusal(capsys, *command, "vgg", "--json", "-")


@pytest.mark.parametrize("end", ["os._exit(1)", "time.sleep(20)"])
def test_a_training_that_the_chief_has_completed_is_not_repeated(
    end, tmp_path, capsys, monkeypatch
):
    started = []

    def start(command, variables, log):
        started.append(command)
        return program("" if len(started) == 1 else f"time.sleep(1); {end}")

    monkeypatch.setattr(launch, "_start", start)
    monkeypatch.setattr(launch, "_LONGEST_END", 2.0)
    command = ("launch", "-n", "2", "--out", str(tmp_path / "logs"), "--max-restarts=2", "--")
    assert fathom(*command, "vgg", "--train", f"--checkpoint-dir={tmp_path}") == 0
    assert len(started) == 2
    assert "the training is complete, but worker 1 failed" in capsys.readouterr().out


def test_workers_can_train_until_a_target(capsys):
    asked = ("quality", "autoenc", "--target", "negative_elbo=110", "--batches", "100,400")
    assert fathom("launch", "-n", "2", "--hosts", "a,b", "--", *asked) == 0
    assert f"{' '.join(asked)} --strategy multi-worker" in capsys.readouterr().out
    assert "unknown workload" in refusal(capsys, "launch", "-n", "2", "--", "quality")
    profile = ("launch", "-n", "2", "--", "profile", "vgg")
    assert "profile is of one device" in refusal(capsys, *profile)


def test_workers_compare_their_data_steps_and_variables_before_the_first_step(
    tmp_path, monkeypatch
):
    rounds = []
    monkeypatch.setattr(strategies, "agree", lambda facts: rounds.append(dict(facts())))

    def facts(steps, **settings):
        rounds.clear()
        small = {"hidden_units": 8, "latents": 2, "batch_size": 20}
        model = workloads.load("autoenc")("/cpu:0", small)
        model.setup({"checkpoint_dir": tmp_path, **settings})
        model.run(n_steps=steps, warmup=0)
        model.teardown()
        return {name: value for each in rounds for name, value in each.items()}

    first, second = facts(2), facts(1, resume=True)
    assert (first["data"], first["restored step"], first["steps"]) == ("synthetic", 0, 2)
    assert (second["restored step"], second["steps"]) == (2, 3)
    assert first["variables"] != second["variables"]


@pytest.mark.slow
def test_a_signal_to_launch_lets_the_workers_write_a_checkpoint(tmp_path):
    command = ("launch", "-n", "2", "--out", str(tmp_path / "logs"), "--")
    training = ("autoenc", "--train", "--batch-size=60", "--threads=1", *SMALL[:2])
    endless = ("--device=cpu", "--steps=1000000", f"--checkpoint-dir={tmp_path / 'kept'}")
    launched = subprocess.Popen(
        [sys.executable, "-m", "fathom", *command, *training, *endless],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in launched.stdout:
        if line.startswith("step "):
            break
    launched.terminate()
    output, errors = launched.communicate(timeout=300)
    assert launched.returncode == 128 + signal.SIGTERM
    (step,) = re.findall(r"--resume continues from step ([\d,]+)", output)
    number = step.replace(",", "")
    assert (tmp_path / "kept" / f"ckpt-{number}.index").exists()
    assert errors == "fathom: interrupted\n"
    assert f"step {step}" in (tmp_path / "logs" / "worker-1.log").read_text()


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def meeting(*wanted, workers=None, limit=5.0, address=None):
    """Lets workers meet, each in a thread; returns what each of them is told."""
    address = address or free_address()

    def come(index, facts):
        try:
            meet([address] * (workers or len(wanted)), index, limit).agree(facts)
        except FathomError as error:
            return str(error)
        return "go"

    with ThreadPoolExecutor(len(wanted)) as each_in_its_thread:
        return list(each_in_its_thread.map(come, *zip(*wanted, strict=True), timeout=30))


def test_workers_go_when_all_are_there():
    same = {"batch_size": 8, "commit": "abc"}
    assert meeting((0, same), (2, same), (1, same)) == ["go"] * 3


def test_workers_that_differ_are_refused_by_what_differs():
    answers = meeting((0, {"steps": 9, "source": "a"}), (1, {"steps": 8, "source": "b"}))
    assert answers == ["worker 1 differs from the first in source (b, not a), steps (8, not 9)"] * 2


def test_a_number_that_two_workers_have_is_refused():
    first, *others = meeting((0, {}), (1, {}), (1, {}))
    assert first == "two workers have the number 1"
    assert first in others


def test_a_number_that_no_worker_has_is_refused_as_such():
    answers = meeting((0, {}), (5, {}))
    assert answers == ["a worker has the number 5: there are 2, from 0"] * 2


def test_a_worker_that_does_not_come_is_named():
    assert meeting((0, {}), workers=3, limit=1.0) == ["worker 1 and 2 did not come within 1 s"]
    (answers,) = meeting((1, {}), workers=2, limit=0.5)
    assert "cannot be reached" in answers


def test_what_no_worker_has_sent_is_ignored():
    address = free_address()

    def disturb():
        strange = (b"GET / HTTP/1.1\r\n\r\n", b"5\n", b"{}\n", b'{"secret": 5}\n', b"\xff" * 10**5)
        for line in strange:
            for _ in range(50):
                with contextlib.suppress(ConnectionRefusedError):
                    stranger = socket.create_connection(rendezvous.split(address), timeout=5)
                    break
                time.sleep(0.1)
            with contextlib.suppress(OSError), stranger:
                stranger.sendall(line)

    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    assert meeting((0, {}), (1, {}), workers=3, limit=3.0, address=address)[0] == (
        "worker 2 did not come within 3 s"
    )
    disturbing.join(30)


def test_another_launch_is_refused_by_its_secret(monkeypatch):
    monkeypatch.setenv(rendezvous.SECRET, "ours")
    assert meeting((0, {}), (1, {})) == ["go"] * 2
    secrets = iter(["theirs", "ours", "ours", "ours"])
    monkeypatch.setattr(rendezvous, "_secret", lambda: next(secrets))
    first, other = meeting((0, {}), (1, {}), limit=1.0)
    assert first == "worker 1 did not come within 1 s"
    assert "is of another launch" in other


def test_the_first_worker_listens_on_its_own_address():
    with rendezvous.listen("127.0.0.1", 0, ["127.0.0.1"]) as server:
        assert server.getsockname()[0] == "127.0.0.1"
    with rendezvous.listen("127.0.0.1", 0, ["127.0.0.1", "other"]) as server:
        assert server.getsockname()[0] == "0.0.0.0"  # where others can come
    with pytest.raises(FathomError, match="port 1 of no-such-host cannot be used"):
        rendezvous.listen("no-such-host", 1, ["no-such-host"])


def test_who_loses_a_worker_can_name_it():
    address = free_address()
    with ThreadPoolExecutor(3) as threads:
        met = list(threads.map(lambda i: meet([address] * 3, i, 5.0), range(3), timeout=30))
    assert met[0].lost() == []
    met[1]._connections[0].close()
    assert met[0].lost() == [1]
    assert met[2].lost() == [1]
    with pytest.raises(FathomError, match="worker 1 was lost"):
        met[0].agree({})
    met[0]._connections[2].close()
    with pytest.raises(FathomError, match="worker 0 was lost"):
        met[2].end()


def test_the_share_of_the_sums_is_of_the_first_workers_own_steps():
    strategy = SimpleNamespace(num_replicas_in_sync=2)
    execution = SimpleNamespace(
        strategy="multi-worker", collectives="tensorflow", reduce_dtype="float32"
    )
    sums = collectives.Collectives(strategy, execution, None)
    sums._workers = 2
    sums._counted.assign(2)  # of three steps: nobody knows the times of the last
    sums._sums.assign([[1.0, 9.0], [0.0, 8.0]])  # the other waited while the first one wrote
    sums.end()
    assert sums.record([1.0, 1.0, 7.0]).collective_share == 0.5
