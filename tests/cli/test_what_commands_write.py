"""Commands lose nothing of the user's, and try what they write before time is spent on it."""

import argparse
import fcntl

import pytest
from commands import fail, refusal, run

from fathom import __main__, workloads
from fathom.cli import suite
from fathom.cli.parser import Parser
from fathom.measure.report import report
from fathom.memnet import tasks
from fathom.system.folders import claim_folder

# All commands that write a folder.
WRITERS = {
    "characterize": "characterize --out {}",
    "compare": "compare --interleave true true --out {}",
    "data convert": "data convert imagenet --to tfrecord --out {}",
    "data fetch": "data fetch mnist --data-dir {}",
    "data synthesize": "data synthesize mnist --data-dir {}",
    "export": "export gcn --infer --to json --force --out {}",
    "launch": "launch -n 2 --out {} -- autoenc",
    "new": "new ripple --out {}",
    "profile": "profile autoenc --out {}",
    "report": "report characterization --out {}",
    "serve-test": "serve-test autoenc --scenario offline --out {}",
    "trace-memory": "trace-memory gcn --infer --force --out {}",
}
PROGRAMS = (suite.main, tasks.main)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Is a working folder with a file, and a folder with another."""
    here = tmp_path / "here"
    (here / "mine").mkdir(parents=True)
    (here / "notes").write_text("kept")
    (here / "mine" / "notes").write_text("kept")
    (here / "link").symlink_to("none/file")
    monkeypatch.chdir(here)
    return here


FILE_AT_OUT = {"atlas", "calibrate", "submit"}  # commands whose --out is a file


def contents(folder):
    return {path: path.is_file() and path.read_text() for path in folder.rglob("*")}


def options(parser, name=""):
    """Yields the name of each command, and the names of its options."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each, sub in action.choices.items():
                yield from options(sub, f"{name} {each}".strip())
    yield name, set(parser._option_string_actions)


def test_all_commands_that_write_a_folder_are_known():
    writers = {name for name, given in options(__main__._parser()) if "--out" in given}
    writers -= FILE_AT_OUT
    assert writers | {"data fetch", "data synthesize"} == set(WRITERS)


@pytest.mark.parametrize("out", [".", "..", "/", "~", "mine/..", "../../"])
@pytest.mark.parametrize("command", WRITERS)
def test_no_command_writes_the_working_folder_home_or_above(
    command, out, place, capsys, monkeypatch
):
    monkeypatch.setattr(workloads, "load", fail)  # so that a fault here harms nothing
    monkeypatch.setenv("HOME", str(place))
    before = contents(place.parent)
    error = refusal(capsys, run(__main__.main, WRITERS[command].format(out).split()))
    assert f"must be a folder of its own, not {out}" in error
    assert contents(place.parent) == before


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_other_program_writes_the_working_folder(program, place, capsys):
    assert "must be a folder of its own, not ." in refusal(capsys, run(program, ["--out", "."]))


@pytest.mark.parametrize("command", sorted(set(WRITERS) - {"data fetch"}))  # it only adds files
def test_no_command_writes_a_folder_with_what_is_not_its_own(command, place, capsys, monkeypatch):
    monkeypatch.setattr(report.Folder, "read", lambda directory: None)
    before = contents(place)
    assert "mine" in refusal(capsys, run(__main__.main, WRITERS[command].format("mine").split()))
    assert contents(place) == before


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_other_program_writes_a_folder_with_what_is_not_its_own(program, place, capsys):
    before = contents(place)
    error = refusal(capsys, run(program, ["--out", "mine"]))
    assert "mine holds files that are not of fathom" in error
    assert contents(place) == before


FILES = {
    "atlas one.json": ["--out"],
    "calibrate": ["--out"],
    "describe gcn": ["--json", "--csv"],
    "explore vgg --machine p100": ["--csv", "--svg"],
    "formats gcn": ["--json"],
    "machine": ["--json"],
    "nearest gcn": ["--json", "--svg"],
    "quality gcn --target accuracy=0.8 --batches 1,2": ["--json"],
    "roofline gcn --machine p100": ["--csv", "--svg"],
    "run gcn": ["--json"],
    "scale gcn --machine p100": ["--csv"],
    "sparsity gcn": ["--csv"],
    "submit mine": ["--out"],
}


def test_all_commands_that_write_a_file_are_known():
    written = {"--json", "--csv", "--svg"}
    found = {name: given & written for name, given in options(__main__._parser())}
    found |= {"run": {"--json"}} | {name: {"--out"} for name in FILE_AT_OUT}
    assert {name: given for name, given in found.items() if given} == {
        command.split()[0]: set(given) for command, given in FILES.items()
    }


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("none/file", "No such file or directory"),
        ("notes/file", "Not a directory"),
        ("mine", "is a folder"),
        ("link", "No such file or directory"),  # that it leads to
        ("x" * 256, "File name too long"),
        ("x" * 250, "File name too long"),  # the temporary name beside it
        ("", "is empty: give a value"),
    ],
)
@pytest.mark.parametrize(
    ("command", "option"), [(name, option) for name, given in FILES.items() for option in given]
)
def test_a_file_is_tried_before_the_work(
    command, option, file, message, place, capsys, monkeypatch
):
    monkeypatch.setattr(workloads, "load", fail)
    before = contents(place)
    assert message in refusal(capsys, run(__main__.main, [*command.split(), option, file]))
    assert contents(place) == before


@pytest.mark.parametrize("command", FILES)
def test_standard_output_is_for_json_alone(command, place, capsys, monkeypatch):
    monkeypatch.setattr(workloads, "load", fail)
    before = contents(place)
    for option in set(FILES[command]) - {"--json"}:
        error = refusal(capsys, run(__main__.main, [*command.split(), option, "-"]))
        assert f"{option} must be a file, not standard output" in error
    assert contents(place) == before


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e200", "x", ""])
def test_a_target_is_a_number_that_a_result_can_hold(value, capsys, monkeypatch):
    monkeypatch.setattr(workloads, "load", fail)
    given = ["quality", "gcn", "--batches=1,2", f"--target=accuracy={value}"]
    assert "--target must be " in refusal(capsys, run(__main__.main, given))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("run autoenc --data-dir", "--data-dir"),
        ("run autoenc --checkpoint-dir=", "--checkpoint-dir"),
        ("roofline gcn --machine p100 --precision", "--precision"),
        ("launch -n 2 --hosts=", "--hosts"),
        ("launch -n 2 --hosts a -- autoenc --dataset", "--dataset"),
        ("data verify mnist --data-dir", "--data-dir"),
        ("run autoenc --set", "--set"),
        ("run", "an argument"),
    ],
)
def test_an_empty_value_is_refused_by_name(given, named, capsys):
    words = given.split()
    error = refusal(capsys, run(__main__.main, words if words[-1].endswith("=") else [*words, ""]))
    assert f"error: {named} is empty: give a value" in error


def test_a_value_may_end_with_an_equals_sign():
    parser = Parser()
    parser.add_argument("--set")
    assert parser.parse_args(["--set", "name="]).set == "name="
    assert parser.parse_args(["--set=name="]).set == "name="


def test_two_launches_write_to_no_folder_at_once(tmp_path, capsys):
    folder = claim_folder(tmp_path / "launch", "launch")
    with (folder / ".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        given = f"launch -n 1 --out {folder} -- autoenc"
        assert "another process is writing" in refusal(capsys, run(__main__.main, given.split()))
