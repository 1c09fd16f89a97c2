"""``fathom describe`` prints sums and writes every operation."""

import pandas as pd
from commands import fathom, refusal

from fathom.results.description import Description

SMALL = ("describe", "autoenc", "--batch-size", "3", "--set", "hidden_units=7", "--set=latents=2")


def test_the_files_hold_the_operations_that_the_table_sums(tmp_path, capsys):
    file, table = tmp_path / "d.json", tmp_path / "d.csv"
    assert fathom(*SMALL, "--infer", "--json", file, "--csv", table) == 0
    printed = capsys.readouterr().out
    description = Description.read(file)
    frame = pd.read_csv(table)
    assert description.macs == frame.macs.sum() == 3 * (784 * 7 + 7 * 4 + 2 * 7 + 7 * 784)
    assert f"{len(frame)} operations" in printed
    assert f"written: {file}" in printed
    products = frame[frame.kind == "matrix product"]
    assert (
        products.batch * products.M * products.N * products.K
    ).tolist() == products.macs.tolist()


def test_json_on_standard_output_is_alone_there(capsys):
    assert fathom(*SMALL, "--json", "-") == 0
    captured = capsys.readouterr()
    assert Description.parse(captured.out, "stdout").mode == "train"
    assert "operations" in captured.err


def test_mistakes_are_named_in_one_line(tmp_path, capsys):
    for option, value, message in (
        ("--length", 3, ""),
        ("--length", 0, "must be at least 1"),
        ("--json", tmp_path / "no" / "d.json", "cannot be written"),
    ):
        assert message in refusal(capsys, fathom(*SMALL, option, value))
