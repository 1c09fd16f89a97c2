"""``--sweep`` describes one step for each combination of values."""

import json

import pandas as pd
import pytest
from commands import fathom, refusal

from fathom.cli import sweep

SMALL = ("autoenc", "--set=latents=2")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("batch_size=1,8,64", [1, 8, 64]),
        ("context=128:2048:x4", [128, 512, 2048]),
        ("context=100:350:x2", [100, 200]),
        ("length=5", [5]),
    ],
)
def test_values_are_listed_or_multiplied(text, found):
    assert sweep.values(text) == (text.partition("=")[0], found)


@pytest.mark.parametrize(
    "text",
    ["", "a", "a=", "=1", "a=0", "a=1:2", "a=1:2:x2:3", "a=1:9:x1", "a=9:1:x2", "a=1,1", "a=x"],
)
def test_other_values_are_refused(text):
    with pytest.raises(ValueError, match="must be as batch_size=1,8,64"):
        sweep.values(text)


def test_a_row_has_the_work_of_its_step(tmp_path, capsys):
    path = tmp_path / "steps.csv"
    swept = ("--sweep=batch_size=2,4", "--sweep=hidden_units=8,16")
    assert fathom("describe", *SMALL, *swept, f"--csv={path}") == 0
    steps = pd.read_csv(path).set_index(["batch_size", "hidden_units"])
    assert list(steps.index) == [(2, 8), (2, 16), (4, 8), (4, 16)]
    assert (steps.GMACs[4] / steps.GMACs[2]).tolist() == pytest.approx([2, 2])
    assert (steps["MB held"] > 0).all()
    assert "3 of 4: batch_size 4, hidden_units 8" in capsys.readouterr().out


def test_rooflines_are_swept_and_drawn(tmp_path):
    path, picture = tmp_path / "steps.csv", tmp_path / "steps.svg"
    swept = ("--sweep=batch_size=2,2000", "--sweep=hidden_units=8,16")
    files = (f"--csv={path}", f"--svg={picture}")
    assert fathom("roofline", *SMALL, "--machine=p100", *swept, *files) == 0
    steps = pd.read_csv(path)
    assert steps.ms.is_monotonic_increasing
    assert set(steps.fits) == {"yes"}
    assert "<svg" in picture.read_text()


def test_whether_a_step_fits_is_not_known_without_the_machines_memory(tmp_path):
    path, machine = tmp_path / "steps.csv", tmp_path / "machine.json"
    rates = {"flops": {"float32": 1e12}, "bandwidth": 1e11}
    sources = dict.fromkeys(rates, "chosen")
    machine.write_text(json.dumps({"schema": 1, "title": "one", **rates, "sources": sources}))
    swept = ("--sweep=batch_size=2,4", f"--csv={path}")
    assert fathom("roofline", *SMALL, f"--machine={machine}", *swept) == 0
    assert set(pd.read_csv(path).fits) == {"unknown"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sweep=batch_size=1,2", "--json=x.json"], "--json is of one step"),
        (["--sweep=batch_size=1,2", "--batch-size=3"], "--batch-size is swept"),
        (["--sweep=latents=1,2"], "--set latents has no effect"),
        (["--sweep=batch_size=1", "--sweep=batch_size=2"], "names one hyperparameter twice"),
        (["--sweep=batch_size=1:100:x9", "--sweep=units=1,2"], "unknown option 'units'"),
        (["--sweep=batch_size=" + ",".join(map(str, range(1, 300)))], "more than 200"),
    ],
)
def test_a_wrong_sweep_is_refused_in_one_line(options, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(capsys, fathom("describe", *SMALL, *options))
