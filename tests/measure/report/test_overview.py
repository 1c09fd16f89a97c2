import re

import numpy as np
import pytest
import synthetic_folder
from synthetic_folder import op, paper_profile, profile, result, run

from fathom.measure.report import overview


def analysed(runs):
    """Returns the table by workload, and its HTML."""
    folder = synthetic_folder.folder(runs)
    types = overview.heaviest(folder)
    table = overview.overview(folder, types)
    return table.set_index("workload"), overview.html(table, types)


def test_a_row_has_the_step_the_heaviest_types_and_what_compares_them():
    timed = [run(repeat=i, result=result(s)) for i, s in enumerate((0.2, 0.2, 0.4))]
    ops = [op("MatMul", [3.0] * 6), op("AddV2", [1.0] * 6), op("Neg", [0.001] * 6)]
    table, html = analysed([*timed, run(mode="infer"), run(profile=profile(ops))])
    (row,) = table.to_dict("records")
    assert row["what"] == "training, batch 8, 4 threads"
    assert row["step (ms)"] == pytest.approx(1e3 * (0.2 * 0.2 * 0.4) ** (1 / 3))
    assert row["step (ms) from"] < 200 < 400 < row["step (ms) to"]
    assert row["heaviest op types (%)"] == "MatMul 75, Add 25"
    assert row["outside ops (%)"] == pytest.approx(20)
    assert row["rate over peak"] == pytest.approx(2e11 / 4e11)
    assert row["disturbed"] == "0 of 4"
    assert "width: 75.0%" in html
    assert "MatMul 75%, Add 25%" in html


def test_a_row_has_the_distance_to_the_papers_shares():
    table, _ = analysed([run("vgg", profile=paper_profile("vgg"))])
    assert table["distance to paper"]["vgg"] == pytest.approx(0, abs=1e-9)
    assert table.what["vgg"] == "not timed"


def test_what_was_not_measured_is_missing_and_no_zero():
    table, html = analysed([run("vgg", mode="infer")])
    assert table.what["vgg"] == "inference, batch 8, 4 threads"
    assert np.isnan(table["outside ops (%)"]["vgg"])
    assert "not profiled" in html
    assert "nan" not in html


def test_disturbed_runs_stand_out():
    used = [result(0.2, cpu_seconds=s, threads=1) for s in (1.0, 2.0)]
    table, html = analysed([run(repeat=i, result=each) for i, each in enumerate(used)])
    assert table.disturbed["autoenc"] == "1 of 2"
    assert "<strong>1 of 2</strong>" in html


def test_a_cells_text_begins_with_its_number_by_which_the_page_sorts():
    timed = [run(repeat=i, result=result(s)) for i, s in enumerate((1.4, 1.5, 1.6))]
    table, html = analysed(timed)
    (cell,) = re.findall(r'data-name="step \(ms\)"[^>]*>(.*?)</td>', html)
    number, *_ = re.sub("<[^>]*>", "", cell).split()
    assert float(number.replace(",", "")) == pytest.approx(table["step (ms)"]["autoenc"], rel=1e-3)


def test_each_row_is_headed_by_its_workload_and_each_column_by_its_name():
    _, html = analysed([run("vgg"), run("deepq")])
    assert re.findall(r'<th scope="row"[^>]*>(\w+)', html) == ["vgg", "deepq"]
    assert len(re.findall('<th scope="col"', html)) == 7
    assert html.count("<caption>") == 1


def test_the_machine_takes_two_lines():
    has, speed = overview.machine(synthetic_folder.MACHINE)
    assert has == "Test CPU, 4 cores, 8.0 GiB of memory; TensorFlow 2.21.0, Python 3.11.9."
    assert speed == (
        "On 1, 2, 4 threads: large matrix product: 100, 200, 400 GFLOP/s; memory: 10, 20, 20 GB/s."
    )
    busy = synthetic_folder.MACHINE.model_copy(update={"gemm_cpu_share": {"2": 0.6}})
    assert overview.machine(busy)[1] == speed + (
        " Those on 2 are no limits: other processes left 60% of the processor to their probes."
    )
