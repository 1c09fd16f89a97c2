import pytest
from synthetic_folder import folder, op, profile, result, run, runs_of

from fathom.measure.report.figures import memory


def analysed(*runs):
    return memory.FIGURE.analyse(folder(runs))


def test_a_layer_holds_weights_and_outputs_and_their_gradients():
    layer = {"name": "fc", "kind": "Dense", "macs": 1, "reads_input": True}
    layer |= {"parameters": 2**18, "activations": 2**17}  # 1 MiB; 0.5 MiB for each of 8 examples
    measured = profile([op("Add", [1.0])])
    costs = measured.cost.to_plain() | {"layers": [layer]}
    findings = analysed(run(), run(profile=profile([op("Add", [1.0])], cost=costs)))
    (row,) = findings.tables["layers"].to_dict("records")
    assert (row["weights (MiB)"], row["output (MiB)"]) == (1, 4)
    phases = [row[f"{phase} (MiB)"] for phase in ("forward", "backward", "optimizer")]
    assert phases == [5, 10, 2]


def test_the_peak_is_the_largest_of_equal_runs():
    more = result() | {"memory": {"peak_resident_bytes": 3 * 2**30, "peak_gpu_bytes": None}}
    findings = analysed(run(), run(repeat=1, result=more))
    assert findings.data["peak of the process (MiB)"].tolist() == [3072]
    assert "3.00 GiB (autoenc, train, cpu, batch 8)" in findings.summary


def test_a_run_without_a_recorded_peak_is_named():
    unknown = result() | {"memory": {}}
    findings = analysed(run(result=unknown), run(profile=profile([op("Add", [1.0])])))
    assert findings.plot is None
    assert len(findings.tables["layers"]) == 2
    assert "autoenc: its peak was not recorded" in findings.gaps


@pytest.mark.parametrize("profiles", [[], [run(profile=profile([op("Add", [1.0])]))]])
def test_peaks_are_drawn_with_and_without_profiles(profiles):
    assert len(analysed(run(), *profiles).plot.axes) == 1 + len(profiles)


def test_the_peak_says_the_program_where_batches_are_divided():
    assert "program" not in memory.peaks(runs_of(run()))
    (peak,) = memory.peaks(runs_of(run(result=result(microbatches=2)))).to_dict("records")
    assert peak["program"] == "op by op, 2 microbatches"
