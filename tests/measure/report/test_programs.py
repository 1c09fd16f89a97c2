import numpy as np
import pandas as pd
import pytest
from synthetic_folder import op, profile, result, run, runs_of

from fathom.measure.report import programs
from fathom.measure.report.style import single


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "op by op"),
        ({"xla": "step"}, "XLA"),
        ({"xla": "layers"}, "XLA for layers"),
        ({"microbatches": 2}, "op by op, 2 microbatches"),
        ({"xla": "layers", "microbatches": 4}, "XLA for layers, 4 microbatches"),
    ],
)
def test_a_program_is_what_xla_compiles_and_how_batches_are_divided(environment, name):
    assert programs.of(runs_of(run(result=result(**environment)))).tolist() == [name]


def test_a_profile_has_a_program_and_a_failed_run_has_none():
    created = runs_of(
        run(profile=profile([op("MatMul", [1.0])])), run("vgg", status="failed", reason="no memory")
    )
    assert programs.of(created).fillna("").tolist() == ["op by op", ""]


def test_equal_runs_have_each_of_their_programs_once():
    assert programs.joined(pd.Series(["b", "a", "b"])) == "a / b"
    assert np.isnan(programs.joined(pd.Series([np.nan])))


SWEEP = pd.DataFrame(
    {
        "workload": ["gpt", "gpt", "gpt", "vgg", "vgg"],
        "size": [1, 2, 3, 1, 2],
        "program": ["XLA", "op by op, 2 microbatches", "XLA", "op by op", np.nan],
    }
)


def test_a_row_differs_from_the_first_of_its_case():
    assert programs.differ(SWEEP, ["workload"]).tolist() == [False, True, False, False, False]
    assert not programs.differ(SWEEP.drop(columns="program"), ["workload"]).any()


def test_a_table_has_programs_where_they_differ_or_batches_are_divided():
    assert "program" in programs.drop_if_uniform(SWEEP, ["workload"])
    assert "program" in programs.drop_if_uniform(SWEEP[1:2], ["workload"])
    assert "program" not in programs.drop_if_uniform(
        SWEEP[[True, False, True, True, True]], ["workload"]
    )


def test_a_note_names_each_program_and_where_it_ran():
    assert programs.note(SWEEP, ["workload"], "size") == (
        " Not the same program (crosses): gpt: XLA (size 1, 3); op by op, 2 microbatches (size 2)."
    )
    assert programs.note(SWEEP[3:], ["workload"], "size") == ""
    assert programs.note(SWEEP.drop(columns="program"), ["workload"], "size") == ""


def test_crosses_are_at_the_points_of_another_program_and_explained():
    others = programs.differ(SWEEP, ["workload"])
    with single(2) as (_, panel):
        programs.mark(panel, SWEEP["size"], SWEEP["size"], others)
    (cross,) = panel.lines
    assert cross.get_xdata().tolist() == [2]
    assert panel.get_legend_handles_labels()[1] == ["another program"]
    programs.mark(panel, SWEEP["size"], SWEEP["size"], others & False)
    assert len(panel.lines) == 1
