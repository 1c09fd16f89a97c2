"""Bare programs compute what TensorFlow's own kernels do, and tell when they do not."""

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from commands import run

from fathom import FathomError, exports, workloads
from fathom.__main__ import main
from fathom.exports import ExportOptions, program
from fathom.hardware.traces import instructions, reuse, valgrind
from fathom.testing.descriptors import descriptor

UNSUPPORTED = {("alexnet", "train")}  # docs/programs.md says why, of both
SENSITIVE = {("residual", "train")}  # to rounding, from the second step
NEEDS_VALGRIND = pytest.mark.skipif(
    not shutil.which("valgrind"), reason="valgrind is not installed"
)
# The inference of others has the operations of these.
LIKE_OTHERS = "alexnet", "autoenc", "diffusion", "gpt", "grpo", "llama", "residual"
ALL = [(name, mode) for name in workloads.names() for mode in ("infer", "train")]
NIGHTLY = [each for each in ALL if each[1] == "train" or each[0] in LIKE_OTHERS]


def make(name, mode, folder, target="x86_64"):
    try:
        program.TARGETS[target].compiler()
    except FathomError as error:
        pytest.skip(str(error))
    to = exports.find("program")
    model = descriptor(name).model(mode == "infer", xla=to.xla)
    model.load_data()
    model.build()
    folder.mkdir()
    to.save(model, folder, ExportOptions(target=target))


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Gives a function that copies a program to a new folder; each program is exported once."""
    kept = {}

    def copied(name, mode, folder):
        if (name, mode) not in kept:
            whole = tmp_path_factory.mktemp("programs") / name
            make(name, mode, whole)
            kept[name, mode] = whole
        shutil.copytree(kept[name, mode], folder)

    return copied


def start(name, folder, *options, before=()):
    command = [*before, str(folder / name), *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def built(folder, **choices):
    environment = {"ROI": "VALGRIND", "PATH": "/usr/bin:/bin"} | choices
    subprocess.run(["sh", folder / "build.sh"], check=True, env=environment)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"ROI": "time"}, "ROI is GEM5"),
        ({"LAYER": "2"}, "for the marks of ROI"),
        ({"ROI": "TIME", "LAYER": "0"}, "a line of layers.txt"),
        ({"ROI": "TIME", "LAYER": "-1"}, "a line of layers.txt"),
    ],
)
def test_marks_that_do_not_exist_are_refused(choices, words):
    done = subprocess.run(
        ["sh", program._SOURCES / "build.sh"],
        env={"PATH": "/usr/bin:/bin", **choices},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert words in done.stderr


def test_a_missing_library_is_named():
    errors = "ld: cannot find -lnope\ncollect2: error: ld returned 1 exit status"
    with pytest.raises(FathomError, match="cannot find -lnope"):
        program._run(["sh", "-c", f"printf '{errors}' >&2; exit 1"])


@pytest.mark.skipif(sys.platform != "linux", reason="programs are for Linux")
@pytest.mark.parametrize(("name", "mode"), [("autoenc", "infer"), ("memnet", "train")])
@pytest.mark.slow
def test_a_program_checks_what_it_computes(name, mode, copy, tmp_path):
    folder = tmp_path / name
    copy(name, mode, folder)
    done = start(name, folder, "--steps", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    errors = [float(each) for each in re.findall(r"relative error (\S+)", done.stdout)]
    assert len(errors) >= 3
    assert max(errors) < 1e-4
    assert "step 4: " in done.stdout
    assert "usage: [--steps N]" in start(name, folder, "--step", "4").stderr
    linked = subprocess.run(["readelf", "-d", folder / name], capture_output=True, text=True)
    assert "NEEDED" not in linked.stdout
    if mode == "train":
        losses = np.load(folder / "expected" / "loss.npy")
        assert len(set(losses)) == 3  # the variables change
    for file in (folder / "weights").iterdir():
        weight = np.load(file)
        if weight.dtype == np.float32 and weight.ndim > 1:
            np.save(file, weight * 1.01)
    wrong = start(name, folder)
    assert wrong.returncode == 1
    assert "WRONG" in wrong.stdout


def test_what_the_environment_says_of_marks_is_not_built_in(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(program, "_run", lambda _, environment: given.append(environment))
    monkeypatch.setattr(program, "_runtime", lambda *_: b"")
    for name in ("CXX", "ROI", "LAYER"):
        monkeypatch.setenv(name, "999")
    program._build("memnet", program.TARGETS["x86_64"], "g++", tmp_path)
    assert not {"CXX", "ROI", "LAYER"} & given[0].keys()


@pytest.mark.parametrize(
    "start",
    [
        lambda folder: program._run(["sleep", "60"]),
        lambda folder: instructions._counts(folder, "memnet"),
    ],
)
def test_a_command_that_does_not_end_is_said_in_one_line(tmp_path, monkeypatch, start):
    (tmp_path / "valgrind").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "valgrind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for module in (program, instructions):
        monkeypatch.setattr(module, "_WAIT", 0.1)
    with pytest.raises(FathomError, match="did not end within"):
        start(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mode"),
    [pytest.param(*each, marks=[pytest.mark.nightly] * (each in NIGHTLY)) for each in ALL],
)
def test_programs_of_all_workloads(name, mode, tmp_path):
    folder = tmp_path / name
    if (name, mode) in UNSUPPORTED:
        with pytest.raises(FathomError, match="cannot compile"):
            make(name, mode, folder)
        return
    make(name, mode, folder)
    done = start(name, folder, *["--steps", "1"] * ((name, mode) in SENSITIVE))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"), [("autoenc", "aarch64"), ("deepq", "aarch64"), ("memnet", "riscv64")]
)
def test_programs_of_another_machine(name, target, tmp_path):
    emulator = shutil.which(f"qemu-{target}")
    if not emulator:
        pytest.skip(f"qemu-{target} is not installed")
    make(name, "train", tmp_path / name, target)
    done = start(name, tmp_path / name, before=[emulator])
    assert done.returncode == 0, done.stdout + done.stderr


@NEEDS_VALGRIND
@pytest.mark.slow
def test_two_runs_execute_the_same_instructions(copy, tmp_path):
    """Counted by Callgrind, between the marks of each step."""
    folder = tmp_path / "memnet"
    copy("memnet", "train", folder)
    built(folder)
    command = [
        "valgrind",
        "--tool=callgrind",
        "--collect-atstart=no",
        "--callgrind-out-file=/dev/null",
    ]
    counts = []
    for _ in range(2):
        done = start("memnet", folder, "--steps", "2", before=command)
        counts.append(int(re.search(r"Collected : (\d+)", done.stderr)[1]))
    assert counts[0] == counts[1] > 10_000
    mix = instructions.mix(folder, "memnet")
    assert mix.instructions.sum() == pytest.approx(counts[0] / 2, rel=0.01)
    assert {"vector arithmetic", "moves"} < set(mix.kind)


@NEEDS_VALGRIND
@pytest.mark.slow
def test_layers_are_parts_of_the_step(copy, tmp_path):
    """Marks of layers change what is inside of marks, not what the step loads and stores."""
    folder = tmp_path / "memnet"
    copy("memnet", "train", folder)
    built(folder)
    names = valgrind.layers_of(folder, "memnet")
    assert names[0] == "memnet"
    assert {"A1", "T_C1", "W", "optimizer"} < set(names)
    step = sum(len(block.kind) for block in valgrind.blocks(folder, "memnet"))
    built(folder, LAYER="all")
    layers = np.concatenate([block.layer for block in valgrind.blocks(folder, "memnet")])
    counts = np.bincount(layers, minlength=len(names))
    assert counts[0] == 0
    assert (counts[1:] > 0).all()
    assert counts.sum() == pytest.approx(step, rel=0.03)
    chosen = int(counts.argmax())
    built(folder, LAYER=str(chosen))
    alone = np.concatenate([block.layer for block in valgrind.blocks(folder, "memnet")])
    assert set(alone.tolist()) == {chosen}
    assert len(alone) == counts[chosen]
    built(folder, ROI="TIME", LAYER="all")
    printed = start("memnet", folder, "--steps", "2").stdout
    assert all(
        printed.count(f"\n{name}: ") + printed.startswith(f"{name}: ") == 2 for name in names[1:]
    )


def misses(lines, inside, size, ways):
    """Counts the misses between the marks, of a cache of 64-byte lines that drops the oldest."""
    sets = size // 64 // ways
    order = np.argsort(lines % sets, kind="stable")  # each set is a small cache of its own
    found = reuse.distances(lines[order])
    return int((inside[order] & ((found < 0) | (found >= ways))).sum())


@NEEDS_VALGRIND
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("memnet", "train"),
        ("autoenc", "infer"),
        pytest.param("dlrm", "infer", marks=pytest.mark.nightly),
    ],
)
def test_a_trace_of_a_program_misses_as_often_as_callgrind_says(name, mode, copy, tmp_path):
    """Callgrind simulates caches as Cachegrind does; both begin with the program, not the step."""
    folder = tmp_path / name
    copy(name, mode, folder)
    with pytest.raises(FathomError, match="ROI=VALGRIND"):
        next(valgrind.everything(folder, name))
    built(folder)
    traced = [(block.address // 64, inside) for block, inside in valgrind.everything(folder, name)]
    lines, inside = (np.concatenate(each) for each in zip(*traced, strict=True))
    for size in (4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20):
        command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--cache-sim=yes"]
        command += [f"--D1={size},8,64", "--LL=8388608,16,64", "--callgrind-out-file=/dev/null"]
        done = start(name, folder, "--steps", "1", before=command)
        refs, missed = (
            int(re.search(rf"{event}:\s+([\d,]+)", done.stderr)[1].replace(",", ""))
            for event in (r"D\s+refs", r"D1\s+misses")
        )
        assert inside.sum() == pytest.approx(refs, rel=0.001)
        print(size, missed, misses(lines, inside, size, 8))
        assert misses(lines, inside, size, 8) == pytest.approx(missed, rel=0.05, abs=20)


def test_other_machines_are_refused(tmp_path, capsys):
    command = ["export", "memnet", "--to=program", "--target=mips64", f"--out={tmp_path / 'out'}"]
    assert run(main, command) == 2
    assert "cannot be for mips64: choose of x86_64" in capsys.readouterr().err
