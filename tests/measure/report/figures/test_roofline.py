"""Ops stand under the roofs that were measured on as many threads."""

import pytest
from legibility import labels_of
from synthetic_folder import MACHINE, folder, op, ops_of, profile, run

from fathom.measure.profile import tables
from fathom.measure.report import picture
from fathom.measure.report.figures import roofline
from fathom.results.profile import OpWork

PEAK, BANDWIDTH = 1e11, 1e10
NO_ROOFS = MACHINE.model_copy(update={"triad_bytes_per_second": {}})


def work(op_type, flops, size, layer="fc1", phase="forward"):
    return OpWork(type=op_type, layer=layer, phase=phase, flops=flops, bytes=size)


def measured(**changes):
    """A profile of a product at four fifths of the peak, and of an op bound by the memory."""
    ops = [op("_MklMatMul", [0.02, 0.03]), op("Mul", [0.01, 0.01]), op("Neg", [1e-5, 1e-5])]
    known = (work("MatMul", 2 * 10**9, 10**6), work("Mul", 10**6, 10**8))
    return profile(changes.pop("ops", ops), **{"op_work": known} | changes)


def table_of(*profiles):
    runs = [run(profile=each, id="") for each in profiles]
    return tables.under_roofs(ops_of(*profiles), folder(runs).work(), PEAK, BANDWIDTH)


def test_each_op_has_its_rate_bound_and_attainable_time():
    product, other = table_of(measured()).to_dict("records")
    assert (product["type"], product["bound"]) == ("MatMul", "compute")
    assert product["rate"] == pytest.approx(2e9 / 0.025)
    assert product["times"] == pytest.approx(1.25)
    assert (other["type"], other["bound"]) == ("Mul", "memory")
    assert other["attainable"] == pytest.approx(0.01)
    assert other["intensity"] == 0.01


def test_batches_of_more_work_have_more_flops():
    longer = measured(work=[1.0, 3.0])
    assert table_of(longer).flops.iloc[0] == 2 * 2e9


def test_the_summary_says_how_much_time_is_near_the_roof():
    text = roofline.summary(table_of(measured()))
    assert "within 1.5 times the attainable: autoenc 100%" in text
    slow = measured(ops=(op("MatMul", [0.07, 0.07]), op("Mul", [0.01, 0.01])))
    assert "autoenc 12%" in roofline.summary(table_of(slow))


def test_the_figure_needs_roofs_and_names_what_is_not_described():
    runs = [run(profile=measured())]
    assert "no memory bandwidth" in " ".join(roofline.FIGURE.analyse(folder(runs, NO_ROOFS)).gaps)
    undescribed = measured(op_work=(work("Mul", 10**6, 10**8),))
    runs = [run(profile=undescribed)]
    findings = roofline.FIGURE.analyse(folder(runs))
    assert findings.plot is not None
    assert "autoenc: MatMul of fc1 (forward) is not described" in findings.gaps


def test_each_point_says_which_op_it_is_and_colours_are_explained():
    figure = roofline.draw(table_of(measured()), PEAK, BANDWIDTH)
    drawn = picture.drawn(figure, "x", "Roofline")[1]
    assert "MatMul of fc1, 71.4%" in drawn
    assert {"forward", "backward", "optimizer", "other"} <= labels_of(figure)


def gap_of(machine):
    """What the figure of a product at four fifths of ``PEAK`` says of a machine's roofs."""
    gaps = roofline.FIGURE.analyse(folder([run(profile=measured())], machine)).gaps
    return " ".join(gap for gap in gaps if gap.startswith("roofs that are limits: "))


def test_a_point_above_the_roof_is_a_fault_with_a_reason():
    assert gap_of(MACHINE) == ""
    low = MACHINE.model_copy(update={"gemm_flops_per_second": {"1": 4e10}})
    assert gap_of(low) == (
        "roofs that are limits: of 1 ops above the peak autoenc's MatMul of fc1 (forward) reaches "
        "2.0 times of it; its work is counted too high, or the processor was slower when probed"
    )
    disturbed = low.model_copy(update={"gemm_cpu_share": {"1": 0.4}})
    assert "2.0 times of it; other processes left 40% of the processor" in gap_of(disturbed)


def test_roofs_that_were_measured_beside_other_processes_are_marked():
    disturbed = MACHINE.model_copy(update={"triad_cpu_share": {"1": 0.4, "2": 0.99}})
    assert gap_of(disturbed) == (
        "roofs that are limits: other processes left 40% of the processor to their probes"
    )


def test_profiles_on_more_threads_than_the_roofs_are_a_gap():
    runs = [run(profile=measured()), run("vgg", profile=measured(workload="vgg", threads=4))]
    findings = roofline.FIGURE.analyse(folder(runs))
    assert findings.data.workload.unique().tolist() == ["autoenc"]
    assert any(gap.startswith("vgg: no op times on as few threads") for gap in findings.gaps)


def test_profiles_in_another_precision_than_the_roofs_are_a_gap():
    other = run("vgg", profile=measured(workload="vgg", precision="bfloat16"))
    findings = roofline.FIGURE.analyse(folder([run(profile=measured()), other]))
    assert findings.data.workload.unique().tolist() == ["autoenc"]
    gap = "vgg: no op times on as few threads as the others, in the precision of the roofs"
    assert gap in findings.gaps
    assert roofline.FIGURE.analyse(folder([other])).plot is None
