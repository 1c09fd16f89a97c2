"""``fathom new``: a package of a workload that every command takes and that conforms."""

import os
import sys

import pytest
from commands import refusal, run
from registration import entries_of
from test_suite import run_here

from fathom.__main__ import main
from fathom.cli import suite
from fathom.testing.__main__ import main as check


@pytest.fixture
def written(tmp_path, install):
    """Gives the folder of a new package that is as good as installed."""
    folder = tmp_path / "package"
    assert run(main, ["new", "ripple_tank", f"--out={folder}"]) == 0
    install("fathom-ripple_tank", entries_of(folder / "pyproject.toml"), folder)
    return folder


@pytest.mark.slow
def test_a_new_package_passes_its_tests_and_the_conformance_suite(written, capfd):
    quick = [
        "-x",
        "-q",
        "-knot killed and not command_line_trains and not onednn",
    ]  # those start processes
    options = [f"-c{os.devnull}", f"--rootdir={written}", "-pno:cacheprovider"]
    code = pytest.main([str(written / "tests" / "test_ripple_tank.py"), *options, *quick])
    printed = capfd.readouterr().out
    assert code == 0, printed
    assert " passed, 4 skipped, 3 deselected" in printed
    assert not [path for path in written.rglob("*.*") if "newcomer" in path.name]


@pytest.mark.slow
def test_the_conformance_suite_runs_on_a_workload_by_name(written, capfd):
    descriptor = written / "fathom_ripple_tank" / "descriptor.py"
    descriptor.write_text(descriptor.read_text().replace("macs=1_184", "macs=1_185"))
    assert run(check, ["ripple_tank", "-k", "counts or (mistake and resume)"]) == 1
    printed = capfd.readouterr().out
    assert "assert 1184 == 1185" in printed
    assert "1 failed, 1 passed" in printed
    descriptor.unlink()
    del sys.modules["fathom_ripple_tank.descriptor"]
    assert run(check, ["ripple_tank"]) == 2
    assert "fathom_ripple_tank.descriptor defines no DESCRIPTOR" in capfd.readouterr().err


def test_the_documented_workload_passes_and_knows_the_marks(tmp_path, install, monkeypatch, capfd):
    folder = tmp_path / "perceptron"
    assert run(main, ["new", "perceptron", f"--out={folder}"]) == 0
    project = folder / "pyproject.toml"
    install("fathom-perceptron", entries_of(project), folder)
    own = [str(folder / "tests"), f"-c{project}", f"--rootdir={folder}", "-pno:cacheprovider"]
    own.append("--import-mode=importlib")
    one = ["-k", "of_another_shape"]
    for passes in (lambda: run(check, ["perceptron", *one]), lambda: pytest.main([*own, *one])):
        monkeypatch.delitem(sys.modules, "fathom.testing.conformance", raising=False)
        monkeypatch.setattr(pytest.mark, "_markers", set())  # of the configurations before
        assert passes() == 0
    assert "PytestUnknownMarkWarning" not in capfd.readouterr().out


def test_every_command_takes_the_new_workload(written, tmp_path, monkeypatch, capsys):
    assert run(main, ["run", "ripple_tank", "--set", "help"]) == 0
    assert "hidden_units" in capsys.readouterr().out
    data, out = tmp_path / "data", tmp_path / "out"
    assert run(main, ["data", "synthesize", "ripple_tank_points", f"--data-dir={data}"]) == 0
    assert run(main, ["data", "verify", "ripple_tank_points", f"--data-dir={data}"]) == 0
    assert "2000 points and 500 to test" in capsys.readouterr().out
    assert run(main, ["profile", "ripple_tank", "--steps=2", "--device=cpu"]) == 0
    assert "ripple_tank: classifier" in capsys.readouterr().out
    monkeypatch.setattr(suite, "run_python", run_here)
    assert run(suite.main, ["--workloads=ripple_tank", "--steps=2", f"--out={out}"]) == 0
    assert (out / "ripple_tank-train.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["alexnet"], "there is already a workload alexnet"),
        *(
            ([name], f"neither a word of Python nor a set of workloads, unlike {name!r}")
            for name in ("AlexNet", "class", "none", "all", "2d", "ripple_")
        ),
        (["ripple", "--out=tests"], "tests already exists: give a new folder with --out"),
    ],
)
def test_a_mistake_is_answered_by_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    (tmp_path / "tests").mkdir()
    monkeypatch.chdir(tmp_path)
    assert message in refusal(capsys, run(main, ["new", *arguments]))


@pytest.mark.parametrize("name", ["workloads", "points", "adam", "hyperparameters"])
def test_a_name_that_the_package_needs_itself_is_refused(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert f"choose no {name}" in refusal(capsys, run(main, ["new", name]))
    assert not list(tmp_path.iterdir())
