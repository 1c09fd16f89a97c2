"""Every command of README.md and docs/ is one that its parser accepts, and the quick ones run.

All commands of fenced and indented code blocks and of code spans are parsed by the real parsers,
and their hyperparameters are given to the real workload. Run are, in this order and in one folder:

- every command of the autoencoder, with ``--steps=2`` in place of its ``--steps`` or ``--epochs``,
  on synthetic data where it names a folder; with ``--resume`` twice, as who comes back;
- every ``--set help``, and ``data list``;
- README's Python example, with a small network for 2 steps.

The other commands take long, need data or a network, or are run by the tests of their own.
"""

import argparse
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from fathom import options, workloads
from fathom.__main__ import main
from fathom.cli import suite
from fathom.cli.parser import init_options
from fathom.cli.run import run_workload
from fathom.memnet import tasks
from fathom.results import schemas
from fathom.testing import __main__ as testing

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")])
OURS = re.compile(
    r"(python -m fathom|fathom|\./runtest\.sh|(taskset -c \S+ )?python benchmarks/)\b"
)
PLACEHOLDER = re.compile(r"[<\[]|\.\.\.| [A-Z]( |$)")  # in the text, --workload W is no command
OTHERS = re.compile(  # the last ones begin by importing PyTorch
    r"(python3 -m venv|\. |pip install|python -m pytest|git |cd "
    r"|python benchmarks/same_as_\w+\.py)"
)


def commands_of(page):
    """Returns the commands of a page, each a line as one would type it."""
    text = page.read_text().replace("\\\n", " ")  # continued lines
    fenced = re.findall(r"^```(?:sh|bash|shell)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^    (?=python|pip|fathom |\./)(.*)", text, re.MULTILINE)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
    lines = "\n".join(fenced).splitlines() + indented
    lines += [
        span
        for span in spans
        if OURS.match(span) and not span.startswith("fathom") and not PLACEHOLDER.search(span)
    ]
    commands = [part.strip() for line in lines for part in line.split("&&")]
    return [command for command in commands if shlex.split(command, comments=True)]


COMMANDS = list(dict.fromkeys(command for page in PAGES for command in commands_of(page)))
AUTOENC = [command for command in COMMANDS if " fathom.autoenc" in command]


class Parsed(Exception):  # noqa: N818
    """Carries what a parser made of a command."""


def execute(command):
    """Runs one of our commands in this process."""
    words = [str(Path(w).expanduser()) if w[0] == "~" else w for w in words_of(command)]
    if words[0] == "taskset":
        words = words[3:]
    if words[0] == "./runtest.sh":
        suite.main(words[1:])
    elif words[0] == "fathom" or words[:3] == ["python", "-m", "fathom"]:
        main(words[1 if words[0] == "fathom" else 3 :])
    elif words[1] == "-m":
        module, arguments = words[2].removeprefix("fathom."), words[3:]
        programs = {"memnet.tasks": tasks.main, "testing": testing.main}
        programs["results.schemas"] = schemas.main
        program = programs.get(module, lambda arguments: run_workload(module, arguments))
        program(arguments)
    else:
        sys.argv = words[1:]
        runpy.run_path(str(ROOT / words[1]), run_name="__main__")


def words_of(command):
    return shlex.split(command, comments=True)


def test_the_documents_have_commands():
    assert len(COMMANDS) > 40
    assert {"autoenc.md", "vgg.md", "README.md"} <= {page.name for page in PAGES}
    assert any("--resume" in command for command in AUTOENC)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_documented_command_is_accepted_by_its_parser(command, monkeypatch, request):
    if OTHERS.match(command):
        return
    if "perceptron" in command and not command.startswith("fathom new "):
        install = request.getfixturevalue("install")
        install("fathom-perceptron", {"perceptron": "fathom_perceptron.model:Perceptron"})
    assert OURS.match(command), f"unknown to this test: {command}"
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(parser, *arguments, **named):
        raise Parsed(parse(parser, *arguments, **named))

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    monkeypatch.setattr("fathom.cli.parser.require_writable", lambda path: None)  # in DIR
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.syspath_prepend(ROOT / "benchmarks")  # as Python does for a program there
    with pytest.raises(Parsed) as parsed:
        execute(command)
    (chosen,) = parsed.value.args
    module = re.match(r"python -m fathom\.(\w+)", command)
    name = module[1] if module else getattr(chosen, "workload", None)
    if isinstance(name, str) and getattr(chosen, "set", []) not in ([], ["help"]):
        model_class = workloads.load(name)
        kinds = model_class.Hyperparameters, model_class.RunOptions, options.Execution
        values_of = options.sort(init_options(chosen, model_class), *kinds)
        model_class.Hyperparameters.of(values_of[0])
        for kind, values in zip(kinds[1:], values_of[1:], strict=True):
            options.build(kind, values)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home folder, in which the folders with data that the autoencoder's commands name are."""
    home = tmp_path_factory.mktemp("home")
    for folder in (home / "mnist", home / "shared" / "data" / "mnist"):
        with pytest.raises(SystemExit, match="0"):
            main(["data", "synthesize", "mnist", "--data-dir", str(folder)])
    (home / "work").mkdir()
    return home


@pytest.mark.parametrize("command", AUTOENC)
def test_a_documented_command_of_the_autoencoder_runs(command, home, monkeypatch, capsys):
    monkeypatch.chdir(home / "work")
    monkeypatch.setenv("HOME", str(home))
    shortened = re.sub(r"--(epochs|steps) \d+", "", command.partition("#")[0])
    shortened = re.sub(r"--threads \d+", "", shortened)  # TensorFlow takes them once a process
    for _ in range(2 if "--resume" in command else 1):
        with pytest.raises(SystemExit) as end:
            execute(f"{shortened} --steps=2")
        assert end.value.code == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if "--set help" in c or words_of(c)[-2:] == ["data", "list"]]
)
def test_a_documented_command_that_lists_something_runs(command, capsys):
    with pytest.raises(SystemExit) as end:
        execute(command)
    assert end.value.code == 0
    assert capsys.readouterr().out


def test_the_example_of_the_readme_runs(capsys):
    (example,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    small = dict(workloads.descriptor("alexnet").small)
    for written, run in (
        ('{"batch_size": 32, "seed": 1}', repr(small)),
        ("n_steps=10", "n_steps=2"),
    ):
        assert written in example
        example = example.replace(written, run)
    exec(example)
    assert "Conv2D" in capsys.readouterr().out
