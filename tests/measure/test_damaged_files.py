"""Whatever field of a folder's files is damaged: it is read as it is, or refused in one line."""

import copy
import functools
import json
from unittest import mock

import pytest
import synthetic_folder
from rich.console import Console
from synthetic_folder import MACHINE, op, profile, run

from fathom.errors import FathomError
from fathom.measure.report import compare, figures, report
from fathom.measure.runs.folder import Folder
from fathom.results.profile import GpuTime

WRONG = {"null": None, "text": "text", "list": [], "nan": float("nan")}
WRONG_NUMBERS = {"negative": -1, "zero": 0}
NIGHTLY = ("text", "list", "negative", "zero")
KINDS = ["gone", *WRONG, *WRONG_NUMBERS]
GONE = object()


def a_profile(workload="vgg", threads=1):
    ops = [op("MatMul", [3.0, 2.0, 2.5, 3.1, 2.9]), op("Mul", [1.0] * 5, "fc2", "backward")]
    return profile(
        ops, workload, threads, gpu=GpuTime(kernel_seconds=1.0, api_seconds=2.0, memcpy_seconds=0.5)
    )


DAMAGED = {
    "machine.json": MACHINE.to_plain(),
    "timing": run("vgg", ("modes", "cores", "repeats")).to_plain(),
    "profile": run("vgg", ("profile", "threads"), profile=a_profile()).to_plain(),
}
OTHERS = (
    run("deepq", profile=a_profile("deepq")),
    run("vgg", ("threads",), profile=a_profile(threads=2)),
    run("vgg", mode="infer"),
    run("vgg", ("cores",), cores=1),
    run("vgg", ("repeats",), repeat=1),
)


def places(value, path=()):
    """The paths of all sections and leaves in a document; of a list only the first item."""
    if path:
        yield path
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value[:1])
        for key, item in items:
            yield from places(item, (*path, key))


def changed(document, path, value):
    document = copy.deepcopy(document)
    section = document
    for key in path[:-1]:
        section = section[key]
    if value is GONE:
        del section[path[-1]]
    else:
        section[path[-1]] = value
    return document


def read_and_analyse(path, known):
    """Analyses a folder, unless its frames are known: the analyses read nothing else."""
    folder = Folder.read(path)
    folder = Folder(path, folder.machine, (*folder.runs, *OTHERS))
    read = (folder.ops(), folder.steps(), folder.layers(), folder.runs_frame())
    content = (folder.machine.model_dump_json(), *(frame.to_csv() for frame in read))
    if content in known:
        return
    known.add(content)
    report.write(folder, path / "report")
    with mock.patch.object(Folder, "read", return_value=folder):
        compare.compare_folders([path, path], mock.Mock(spec=Console))


@pytest.fixture
def out(tmp_path, monkeypatch):
    """A folder with a run of each kind; nothing is drawn or written of it."""
    for figure in figures.find_all():
        monkeypatch.setattr(f"{figures.__name__}.{figure.stem}.draw", mock.Mock())
    monkeypatch.setattr(report.picture, "drawn", lambda *_: (b"", ""))
    monkeypatch.setattr(report.picture, "rendered", lambda *_: b"")
    monkeypatch.setattr(report, "_write", lambda *_: None)
    synthetic_folder.write(tmp_path, ())
    for name in ("timing", "profile"):
        write(tmp_path, name, DAMAGED[name])
    return tmp_path


def write(folder, name, document):
    """Writes what comes of one of ``DAMAGED`` in its place."""
    file = "machine.json" if name == "machine.json" else f"runs/{DAMAGED[name]['id']}.json"
    (folder / file).write_text(json.dumps(document))


def test_the_folder_is_whole_before_it_is_damaged(out):
    read_and_analyse(out, set())


def damaged_copies(whole, wrong):
    """Each document that comes of one section or leaf that is gone or wrong, with its path."""
    for path in places(whole):
        value = functools.reduce(lambda section, key: section[key], path, whole)
        if wrong == "gone":
            yield path, changed(whole, path, GONE)
        elif wrong in WRONG:
            yield path, changed(whole, path, WRONG[wrong])
        elif isinstance(value, (int, float)):
            yield path, changed(whole, path, WRONG_NUMBERS[wrong])


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong", [pytest.param(each, marks=[pytest.mark.nightly] * (each in NIGHTLY)) for each in KINDS]
)
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_field_is_never_a_traceback(out, name, wrong):
    whole = json.loads(json.dumps(DAMAGED[name]))
    escaped = {}
    known: set[tuple[str, ...]] = set()
    read_and_analyse(out, known)
    for path, document in damaged_copies(whole, wrong):
        write(out, name, document)
        try:
            read_and_analyse(out, known)
        except FathomError as error:
            if str(out) not in str(error) or "\n" in str(error):
                escaped[path] = error
        except Exception as error:
            escaped[path] = error
    assert not escaped
