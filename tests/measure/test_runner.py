import fcntl
import functools
import io
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from synthetic_folder import ENVIRONMENT, result

from fathom.__main__ import main
from fathom.cli import probe
from fathom.errors import FathomError
from fathom.measure.runs import folder, request, runner
from fathom.measure.runs.plan import Planned
from fathom.results.characterization import Machine, Probe

PLANNED = Planned(
    id="autoenc-train-cpu0-timing",
    kind="timing",
    purpose=("modes",),
    workload="autoenc",
    mode="train",
    device="/cpu:0",
    threads=None,
    cores=1,
    repeat=0,
    precision="float32",
    batch_size=None,
    argv=(),
)
MAKE = runner._make
WRITE = f"""
import json, os, pathlib, sys
file = sys.argv[1].partition("=")[2]
cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
document = json.loads({json.dumps(json.dumps(result()))})
document["environment"]["cores_available"] = cores
pathlib.Path(file).write_text(json.dumps(document))
"""


def program(code, **changes):
    """Returns a planned run of a small program in the place of a workload."""
    return PLANNED.model_copy(update={"argv": ("python", "-c", code)} | changes)


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    runner._create(folder)
    return folder


@pytest.fixture
def screen():
    """A screen whose text can be read."""
    return Console(file=io.StringIO(), width=200)


def test_a_run_keeps_the_result_and_the_time_from_outside(out):
    run = runner.make_run(program("import time; time.sleep(0.2)" + WRITE), out)
    assert (run.status, run.reason, run.profile) == ("done", None, None)
    assert run.result.workload == "autoenc"
    assert 0.2 < run.wall_s < 60


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no CPU affinity here")
def test_a_run_is_restricted_to_its_cores_and_we_are_not(out):
    before = os.sched_getaffinity(0)
    assert runner.make_run(program(WRITE, cores=1), out).result.environment.cores_available == 1
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import sys; print('one'); sys.exit('no such data')", "exit code 1: no such data"),
        ("raise ValueError('a bug')", "exit code 1: ValueError: a bug"),
        ("raise SystemExit(3)", "exit code 3: it printed nothing"),
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9 (Killed)"),
        ("pass", "exit code 0, but it wrote no result"),
    ],
)
def test_a_failed_run_is_recorded_with_its_reason(out, code, reason):
    run = runner.make_run(program(code), out)
    assert (run.status, run.reason, run.result) == ("failed", reason, None)
    folder.write_run(run, out)
    assert folder.read_runs(out)[run.id].reason == reason


def test_after_a_failure_the_others_go_on(out, screen):
    planned = [program("raise SystemExit(3)", id="a"), program(WRITE, id="b")]
    assert runner._make(planned, {}, math.inf, out, screen) == 0
    assert {k: r.status for k, r in folder.read_runs(out).items()} == {"a": "failed", "b": "done"}


def test_an_interrupted_characterization_goes_on_with_what_is_left(out, screen, monkeypatch):
    planned = [program(WRITE, id=name) for name in "abc"]
    created = []
    make_run = runner.make_run

    def interrupted(each, folder):
        if each.id == "b" and "b" not in created:
            created.append("b")
            raise KeyboardInterrupt
        created.append(each.id)
        return make_run(each, folder)

    monkeypatch.setattr(runner, "make_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runner._make(planned, {}, math.inf, out, screen)
    before = runner._done_before(planned, out)
    assert list(before) == ["a"]
    left = [each for each in planned if each.id not in before]
    runner._make(left, before, math.inf, out, screen)
    assert created == ["a", "b", "b", "c"]
    assert list(folder.read_runs(out)) == ["a", "b", "c"]


def swept(size, code=WRITE, workload="autoenc", **changes):
    """Returns a planned run of a sweep over batch sizes."""
    run = {"id": f"{workload}-batch{size}", "purpose": ("batches",), "batch_size": size}
    return program(code, **run | {"workload": workload} | changes)


NO_MEMORY = "import sys; sys.exit('not enough memory: use a smaller --batch-size')"


def test_a_batch_too_large_ends_its_sweep_and_no_other(out, screen):
    vgg = WRITE.replace("pathlib.Path(file)", "document['workload'] = 'vgg'; pathlib.Path(file)")
    planned = [swept(1), swept(1, vgg, "vgg"), swept(2, NO_MEMORY), swept(2, vgg, "vgg")]
    planned += [swept(2, id="autoenc-batch2-repeat1"), swept(4), swept(4, vgg, "vgg")]
    runner._make(planned, {}, math.inf, out, screen)
    assert {k: r.status for k, r in folder.read_runs(out).items()} == {
        "autoenc-batch1": "done",
        "autoenc-batch2": "failed",
        **{f"vgg-batch{size}": "done" for size in (1, 2, 4)},
    }
    assert screen.file.getvalue().count("left out, its sweep has ended") == 2
    before = folder.read_runs(out).values()
    failed = next(run for run in before if run.status == "failed")
    assert runner._is_end_of_sweep(failed, before)
    smallest = failed.model_copy(update={"batch_size": 0})
    assert not runner._is_end_of_sweep(smallest, before)


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize(("first", "code"), [(WRITE, 0), (NO_MEMORY, 1)])
def test_the_end_of_a_sweep_is_said_and_is_no_failure(tmp_path, capsys, monkeypatch, first, code):
    planned = [swept(1, first), swept(2, NO_MEMORY), swept(4)]
    monkeypatch.setattr(runner.plan, "plan", lambda _: planned)
    monkeypatch.setattr(runner, "_make", MAKE)
    for _ in range(2):  # the second time, nothing is left
        assert characterize(tmp_path / "out", "--workloads=autoenc", "--batches=1,2,4") == code
        printed = capsys.readouterr().out
        (line,) = [each for each in printed.splitlines() if "not enough memory" in each]
        label, size = (("end of sweep", 2), ("failed", 1))[code]
        assert line.startswith(f"{label}: autoenc-batch{size}: exit code 1: not enough memory")
    assert "measuring the machine once more" not in printed


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        (["--batches"], [1, 2, 4, 8, 16, 32, 64, 128, 256]),
        (["--batches", "--quick"], [1, 4, 16, 64]),
        (["--batches=64,8"], [8, 64]),
        (["--batches=1,2", "--repeats=2"], [1, 1, 2, 2]),
    ],
)
def test_a_sweep_has_default_batch_sizes_and_single_runs(tmp_path, monkeypatch, options, sizes):
    planned = []
    monkeypatch.setattr(runner, "_make", lambda left, *_: planned.extend(left) or 0)
    options = ["--workloads=autoenc", "--modes=train", *options]
    assert characterize(tmp_path / "out", *options) == 0
    assert [run.batch_size for run in planned] == sizes
    assert {run.purpose for run in planned} == {("batches",)}


def test_a_sweep_excludes_a_single_batch_size(tmp_path, capsys):
    assert characterize(tmp_path / "out", "--batches", "--batch-size=8") == 2
    assert "--batch-size: not allowed with argument --batches" in capsys.readouterr().err


def test_a_spent_budget_begins_no_run(out, screen):
    planned = [program(WRITE, id="a"), program(WRITE, id="b")]
    assert runner._make(planned, {}, time.perf_counter(), out, screen) == 2
    assert folder.read_runs(out) == {}


def disturb(out, planned, cpu_seconds):
    """Makes a run whose steps took ten seconds on one thread, and this CPU time."""
    created = result(1.0, cpu_seconds=cpu_seconds, threads=1)
    done = {"status": "done", "reason": None, "wall_s": 11.0, "profile": None}
    folder.write_run(runner.Run(**dict(planned), **done, result=created), out)


def test_a_disturbed_run_is_made_again_once_and_the_first_measurement_kept(out, screen):
    planned = [program(WRITE, id=name) for name in "ab"]
    disturb(out, planned[0], 5.0)
    disturb(out, planned[1], 9.8)
    (out / "traces" / "a.xplane.pb").write_text("the first trace")
    for _ in range(2):
        runner._make_disturbed(planned, math.inf, out, screen)
    assert screen.file.getvalue().count("once more") == 1
    assert {name: run.first_cpu_share for name, run in folder.read_runs(out).items()} == {
        "a": pytest.approx(0.5, abs=0.01),
        "b": None,
    }
    first = folder.read_runs(out / "disturbed")["a"]
    assert first.disturbed
    assert (out / "disturbed" / "traces" / "a.xplane.pb").read_text() == "the first trace"


def test_a_disturbed_run_that_fails_the_second_time_stays(out, screen):
    disturb(out, program(WRITE, id="a"), 5.0)
    run = folder.read_runs(out)["a"]
    folder.write_run(run.model_copy(update={"argv": ("python", "-c", "raise SystemExit(3)")}), out)
    runner._make_disturbed([run], math.inf, out, screen)
    assert folder.read_runs(out)["a"].status == "done"


def test_a_spent_budget_makes_no_run_again(out, screen):
    disturb(out, program(WRITE, id="a"), 5.0)
    runner._make_disturbed([program(WRITE, id="a")], time.perf_counter(), out, screen)
    assert "no time left to make disturbed runs again: 1" in screen.file.getvalue()
    assert folder.read_runs(out)["a"].first_cpu_share is None


def test_the_time_left_is_told_from_the_runs_that_are_most_alike():
    done = [
        runner.Run(
            **dict(program("", id=str(i), workload=workload)),
            status="done",
            reason=None,
            wall_s=seconds,
            result=result() | {"workload": workload},
            profile=None,
        )
        for i, (workload, seconds) in enumerate([("vgg", 300), ("autoenc", 60)])
    ]
    left = [program("", workload="autoenc")] * 2 + [program("", workload="alexnet")]
    assert runner._time_left(left, done) == "3 left, about 5 min"
    assert runner._time_left(left[:1], done[1:]) == "1 left, about 60 s"
    assert runner._time_left(left, []) == "3 left"
    assert runner._time_left([], done) == "nothing left"


def test_a_run_that_serves_a_new_set_is_not_made_again(out):
    planned = program(WRITE)
    folder.write_run(runner.make_run(planned, out), out)
    wider = planned.model_copy(update={"purpose": ("modes", "repeats")})
    runner._done_before([wider], out)
    assert folder.read_runs(out)[planned.id].purpose == ("modes", "repeats")


def test_a_folder_of_other_settings_is_refused(out):
    folder.write_run(runner.make_run(program(WRITE), out), out)
    with pytest.raises(FathomError, match="measure into another --out"):
        runner._done_before([program(WRITE + "# other")], out)


def characterize(out, *options):
    with pytest.raises(SystemExit) as end:
        main(["characterize", f"--out={out}", *options])
    return end.value.code


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--workloads=alexnet,vgh", "did you mean vgg"),
        ("--modes=training", "did you mean train"),
        ("--threads=1,two", "--threads must be whole numbers"),
        ("--threads=0", "--threads must be whole numbers"),
        ("--steps=0", "--steps must be at least 1"),
        ("--repeats=-1", "--repeats must not be negative"),
        ("--profile-repeats=0", "--profile-repeats must be at least 1"),
        ("--budget=0", "--budget must be more than 0"),
        ("--batches=", "--batches is empty: give a value"),
        ("--batches=8,eight", "--batches must be different batch sizes"),
        ("--batches=0,8", "--batches must be different batch sizes"),
        ("--batches=8,16,8", "not 8,16,8"),
        ("--batches=8,99999999999", "not 8,99999999999"),
    ],
)
def test_a_wrong_option_is_one_line_before_anything_is_measured(tmp_path, capsys, option, reason):
    assert characterize(tmp_path / "out", option) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_characterization_runs_in_processes_of_its_own(tmp_path, capsys, monkeypatch):
    measure = request._machine
    probe = functools.cache(lambda: measure(1, "float32", ["autoenc"]))
    monkeypatch.setattr(request, "_machine", lambda *_: probe())  # once, not four times
    options = ["--workloads=autoenc", "--modes=infer", "--devices=cpu"]
    options += ["--steps=2", "--batch-size=5", "--profile-repeats=1"]
    assert characterize(tmp_path / "out", *options) == 0
    assert "2 runs, 0 of them done before" in capsys.readouterr().out
    result = folder.Folder.read(tmp_path / "out")
    assert {run.id: run.status for run in result.runs} == {
        "autoenc-infer-cpu0-profile-threads1": "done",
        "autoenc-infer-cpu0-timing": "done",
    }
    assert set(result.machine.gemm_flops_per_second) >= {"1"}
    (profile,) = result.select("profile")
    assert profile.profile.threads == 1
    assert (tmp_path / "out" / "traces" / f"{profile.id}.xplane.pb").exists()
    (timing,) = result.select("modes")
    assert timing.result.mode == "infer"
    assert timing.wall_s > timing.result.sections.run
    assert str(tmp_path) not in json.dumps(timing.argv)


@pytest.mark.parametrize("prepare", [["autoenc", "vgg"], []])
def test_the_probe_takes_the_command_line_that_it_is_given(monkeypatch, prepare):
    given = []

    def parse(command, log):
        monkeypatch.setattr(sys, "argv", command[1:])
        monkeypatch.setattr(probe, "_measure", given.append)
        with pytest.raises(SystemExit, match="0"):
            probe.main()
        return "not measured"

    monkeypatch.setattr(request, "run_python", parse)
    with pytest.raises(FathomError, match="not measured"):
        request._machine(2, "float32", prepare)
    assert given[0].threads == 2
    assert given[0].workloads == ",".join(prepare)


@pytest.fixture
def two_cores(monkeypatch):
    """Pretends a machine of two cores, which takes no time to measure."""
    environment = ENVIRONMENT | {"cores_available": 2}
    rates = {"gemm_flops_per_second": 1e11, "triad_bytes_per_second": 1e10}
    rates |= {"gemm_cpu_share": 0.99, "triad_cpu_share": 0.99}
    found = Probe(environment=environment, gpus=0, **rates)
    monkeypatch.setattr(request, "_machine", lambda *_: found)
    monkeypatch.setattr(runner, "_make", lambda *_: 0)


@pytest.mark.usefixtures("two_cores")
def test_more_threads_than_cores_are_allowed_and_said(tmp_path, capsys):
    assert characterize(tmp_path / "out", "--workloads=autoenc", "--threads=1,99") == 0
    assert "more threads than the 2 cores of this machine: 99" in capsys.readouterr().out
    assert set(folder.read_machine(tmp_path / "out").gemm_flops_per_second) == {"1", "2", "99"}


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize(
    ("option", "reason"),
    [("--devices=gpu", "device gpu is not available"), ("--devices=tpu", "unknown device 'tpu'")],
)
def test_a_device_that_is_not_there_is_one_line(tmp_path, capsys, option, reason):
    assert characterize(tmp_path / "out", "--workloads=autoenc", option) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out" / "machine.json").exists()


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"cpu_model": "6502"}, "another machine"),
        ({"cores_available": 4}, "was measured with 4 cores, not 2 cores"),
        ({"precision": "bfloat16"}, "was measured with bfloat16, not float32"),
    ],
)
def test_a_machine_that_is_not_the_folders_is_refused(tmp_path, capsys, other, reason):
    (tmp_path / "out").mkdir()
    environment = ENVIRONMENT | {"cores_available": 2} | other
    machine = Machine(environment=environment, gemm_flops_per_second={"1": 1e11})
    machine.write(tmp_path / "out" / "machine.json")
    assert characterize(tmp_path / "out", "--workloads=autoenc") == 2
    assert reason in capsys.readouterr().err
    assert folder.read_machine(tmp_path / "out") == machine


@pytest.mark.usefixtures("two_cores")
def test_the_better_of_two_measurements_of_the_matrix_product_counts(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    rates = {"1": 3e11, "2": 1e9}
    environment = ENVIRONMENT | {"cores_available": 2}
    machine = Machine(environment=environment, gemm_flops_per_second=rates)
    machine.write(tmp_path / "out" / "machine.json")
    assert characterize(tmp_path / "out", "--workloads=autoenc") == 0
    known = folder.read_machine(tmp_path / "out")
    assert known.gemm_flops_per_second == {"1": 3e11, "2": 1e11}
    assert known.triad_bytes_per_second["1"] == 1e10


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize(("after", "warned"), [(1.09e11, False), (1.2e11, True), (0.8e11, True)])
def test_both_matrix_products_are_printed_and_a_difference_is_warned_of(
    tmp_path, capsys, monkeypatch, after, warned
):
    def make(*_):
        found = request._machine().model_copy(update={"gemm_flops_per_second": after})
        monkeypatch.setattr(request, "_machine", lambda *_: found)
        return 0

    monkeypatch.setattr(runner, "_make", make)
    assert characterize(tmp_path / "out", "--workloads=autoenc", "--threads=1") == 0
    printed = capsys.readouterr().out
    assert f"on 1 thread: 100.0 GFLOP/s before the runs, {after / 1e9:.1f} after" in printed
    assert ("warning: they differ by" in printed) == warned
    known = folder.read_machine(tmp_path / "out")
    assert known.gemm_probes == {"1": (1e11, after), "2": (1e11, after)}
    assert known.gemm_flops_per_second["1"] == max(1e11, after)


@pytest.mark.usefixtures("two_cores")
def test_a_ceiling_beside_other_processes_is_marked_and_measured_again(
    tmp_path, capsys, monkeypatch
):
    out, measure = tmp_path / "out", request._machine
    slow = {"gemm_flops_per_second": 2e10, "gemm_cpu_share": 0.2}
    monkeypatch.setattr(request, "_machine", lambda *_: measure().model_copy(update=slow))
    assert characterize(out, "--workloads=autoenc", "--threads=1") == 0
    assert "(20% of it was left): the report marks its ceilings" in capsys.readouterr().out
    assert folder.read_machine(out).disturbed("2") == 0.2
    monkeypatch.setattr(request, "_machine", measure)
    assert characterize(out, "--workloads=autoenc", "--threads=1") == 0
    machine = folder.read_machine(out)
    assert machine.gemm_flops_per_second == {"1": 1e11, "2": 1e11}
    assert (machine.disturbed("1"), machine.disturbed("2")) == (None, None)


def test_two_processes_do_not_measure_into_one_folder(out, capsys):
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert characterize(out, "--workloads=autoenc") == 2
    assert f"another process is writing to {out}" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_run_ends_with_the_process_that_makes_it(tmp_path):
    child = tmp_path / "child"
    code = f"import os, pathlib, time; pathlib.Path({str(child)!r}).write_text(str(os.getpid()));"
    make = (
        f"from test_runner import *; runner.make_run(program({code + 'time.sleep(600)'!r}), None)"
    )
    parent = subprocess.Popen([sys.executable, "-c", make], cwd=Path(__file__).parent)
    wait_until(lambda: child.exists() and child.read_text())
    parent.kill()
    parent.wait()
    wait_until(lambda: not psutil.pid_exists(int(child.read_text())))


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.usefixtures("two_cores")
def test_an_interruption_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "_make", interrupt)
    assert characterize(tmp_path / "out", "--workloads=autoenc") == 130
    assert "interrupted; rerun the command to continue" in capsys.readouterr().err
