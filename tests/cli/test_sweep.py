"""``--sweep`` describes one step for each combination of values."""

import pandas as pd
import pytest

from fathom.__main__ import main
from fathom.cli import sweep

SMALL = ("autoenc", "--set=latents=2")


def run(arguments):
    with pytest.raises(SystemExit, match="0"):
        main(arguments)


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
    "text", ["", "a", "a=", "=1", "a=0", "a=1:2", "a=1:2:x2:3", "a=1:9:x1", "a=x", "a=1.5"]
)
def test_other_values_are_refused(text):
    with pytest.raises(ValueError, match="must be as batch_size=1,8,64"):
        sweep.values(text)


def test_a_row_has_the_work_of_its_step(tmp_path, capsys):
    path = tmp_path / "steps.csv"
    run(
        ["describe", *SMALL, "--sweep=batch_size=2,4", "--sweep=hidden_units=8,16", f"--csv={path}"]
    )
    steps = pd.read_csv(path).set_index(["batch_size", "hidden_units"])
    assert list(steps.index) == [(2, 8), (2, 16), (4, 8), (4, 16)]
    assert (steps.GMACs[4] / steps.GMACs[2]).tolist() == pytest.approx([2, 2])
    assert (steps["MB held"] > 0).all()
    assert "3 of 4: batch_size 4, hidden_units 8" in capsys.readouterr().out


def test_rooflines_are_swept_and_drawn(tmp_path):
    path, picture = tmp_path / "steps.csv", tmp_path / "steps.svg"
    swept = ("--sweep=batch_size=2,2000", "--sweep=hidden_units=8,16")
    run(["roofline", *SMALL, "--machine=p100", *swept, f"--csv={path}", f"--svg={picture}"])
    steps = pd.read_csv(path)
    assert steps.ms.is_monotonic_increasing
    assert set(steps.fits) == {"yes"}
    assert "<svg" in picture.read_text()


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
    with pytest.raises(SystemExit, match="2"):
        main(["describe", *SMALL, *options])
    assert message in capsys.readouterr().err
