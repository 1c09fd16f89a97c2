import numpy as np
import pytest
from legibility import assert_legible, labels_of
from synthetic_folder import folder, result, run, runs_of, steps

from fathom.measure.report.figures import m_batch


def swept(rates, workload="autoenc", **changes):
    """Returns a run for each batch size of a sweep, by its rate in examples per second."""
    return [
        run(
            workload,
            ("batches",),
            id=f"{workload}{changes}{size}",
            batch_size=size,
            result=result(size / rate, batch_size=size),
            **changes,
        )
        for size, rate in rates.items()
    ]


def failed(size, workload="autoenc"):
    reason = "not enough memory"
    return run(workload, ("batches",), batch_size=size, status="failed", reason=reason)


def test_rate_step_and_memory_are_those_of_each_batch_size():
    table = m_batch.sweeps(runs_of(*swept({8: 400.0, 1: 100.0})))
    assert table["batch size"].tolist() == [1, 8]
    np.testing.assert_allclose(table["examples/s"], [100, 400])
    np.testing.assert_allclose(table["step (ms)"], [10, 20])
    np.testing.assert_allclose(table["peak memory (GiB)"], 1)
    np.testing.assert_allclose(table["of the best"], [0.25, 1])


def test_the_memory_of_a_run_on_a_gpu_is_the_gpus():
    document = result() | {"memory": {"peak_resident_bytes": 1, "peak_gpu_bytes": 2**31}}
    runs = runs_of(run(purpose=("batches",), device="/gpu:0", result=document))
    assert m_batch.sweeps(runs)["peak memory (GiB)"].tolist() == [2]


def test_of_equal_runs_the_median_counts():
    runs = [each for i in range(3) for each in swept({1: 10.0 * 3**i}, repeat=i)]
    table = m_batch.sweeps(runs_of(*runs))
    assert table.runs.tolist() == [3]
    np.testing.assert_allclose(table["examples/s"], [30])


def test_a_step_counts_by_its_work_where_batches_vary_in_length():
    document = result() | {"steps": steps([0.1, 0.2, 0.6], work=[1.0, 1.0, 3.0])}
    table = m_batch.sweeps(runs_of(run(purpose=("batches",), result=document)))
    np.testing.assert_allclose(table["step (ms)"], [200])


def test_a_step_of_a_whole_graph_counts_as_it_is():
    document = result(batch_size=10) | {"steps": steps([0.4] * 3, work=19.3)}
    table = m_batch.sweeps(runs_of(run("gcn", ("batches",), result=document)))
    np.testing.assert_allclose(table["step (ms)"], [400])
    np.testing.assert_allclose(table["examples/s"], [25])


def test_the_knee_is_the_smallest_batch_within_a_tenth_of_the_best():
    runs = swept({1: 10.0, 2: 89.0, 4: 91.0, 8: 100.0, 16: 95.0})
    (knee,) = m_batch.knees(m_batch.sweeps(runs_of(*runs))).to_dict("records")
    assert (knee["knee (batch size)"], knee["found"]) == (4, True)
    assert knee["examples/s"] == pytest.approx(91)
    assert knee["best examples/s"] == pytest.approx(100)
    assert knee["largest batch size"] == 16


def test_a_rate_that_rises_to_the_end_has_no_knee():
    runs = swept({1: 10.0, 2: 20.0, 4: 40.0})
    table = m_batch.sweeps(runs_of(*runs))
    (knee,) = m_batch.knees(table).to_dict("records")
    assert (knee["knee (batch size)"], knee["found"]) == (4, False)
    findings = m_batch.FIGURE.analyse(folder(runs))
    assert "Not reached before the largest one measured: autoenc train (CPU) 4." in findings.summary


def test_a_gpu_pays_off_from_the_smallest_batch_at_which_it_is_ahead():
    cpu = swept({1: 10.0, 4: 12.0, 16: 12.0})
    gpu = swept({1: 5.0, 4: 24.0, 16: 96.0, 64: 300.0}, device="/gpu:0")
    findings = m_batch.FIGURE.analyse(folder([*cpu, *gpu]))
    assert findings.tables["gpu_over_cpu"]["batch size"].tolist() == [1, 4, 16]
    np.testing.assert_allclose(findings.tables["gpu_over_cpu"]["GPU over CPU"], [0.5, 2, 8])
    text = "autoenc train: the GPU is ahead of the CPU from batch size 4 on (1 to 16 measured)."
    assert text in findings.summary
    slow = swept({1: 5.0, 4: 5.0}, device="/gpu:0")
    assert (
        "the GPU is ahead of the CPU nowhere"
        in m_batch.FIGURE.analyse(folder([*cpu, *slow])).summary
    )


def test_a_gpu_that_falls_behind_again_is_not_ahead_on():
    cpu = swept({1: 10.0, 4: 10.0, 16: 10.0})
    gpu = swept({1: 20.0, 4: 5.0, 16: 20.0}, device="/gpu:0")
    findings = m_batch.FIGURE.analyse(folder([*cpu, *gpu]))
    assert "ahead of the CPU from batch size 16 on" in findings.summary


def test_without_a_gpu_there_is_no_comparison_with_one():
    findings = m_batch.FIGURE.analyse(folder(swept({1: 1.0, 2: 2.0})))
    assert set(findings.tables) == {"knees"}
    assert "GPU" not in findings.summary
    assert "program" not in findings.data


def test_the_end_of_a_sweep_and_what_was_not_swept_are_said():
    runs = [*swept({1: 1.0, 2: 2.0}), failed(4), *swept({1: 1.0}, "vgg")]
    gaps = m_batch.FIGURE.analyse(folder(runs)).gaps
    assert gaps[0] == (
        "autoenc train on the CPU: the sweep ended before batch size 4 (not enough memory)"
    )
    assert gaps[1] == "vgg: measured at a single batch size"
    assert gaps[2].endswith("not measured")


@pytest.mark.slow
def test_what_was_swept_is_drawn_and_its_knees_are_marked():
    rates = {size: 100.0 * size / (size + 4) for size in (1, 2, 4, 8, 16, 32, 64, 128, 256)}
    runs = [*swept(rates), *swept(rates, "vgg", mode="infer")]
    runs += swept({1: 1.0, 8: 8.0}, "vgg", device="/gpu:0")
    figure = m_batch.draw(m_batch.sweeps(runs_of(*runs)))
    assert_legible(figure)
    assert {"training, CPU", "inference, CPU", "training, GPU"} <= labels_of(figure)
    rings = [[tuple(line.get_xdata()) for line in axes.lines[1:]] for axes in figure.axes[:3]]
    assert rings == [[(32.0,)]] * 3


def gpt():
    """A sweep of an earlier version: the program depended on the batch."""
    created = swept({1: 10.0, 2: 40.0, 3: 30.0, 4: 80.0}, "gpt")
    programs = ({"xla": "step"}, {"microbatches": 2})
    for each, program in zip(created, [*programs, *programs], strict=True):
        each.result.environment = each.result.environment.model_copy(update=program)
    return created


@pytest.mark.slow
def test_batch_sizes_at_which_another_program_ran_are_marked():
    findings = m_batch.FIGURE.analyse(folder([*gpt(), *swept({1: 1.0, 2: 2.0}, "vgg")]))
    assert findings.data.program.tolist() == [
        *["op by op"] * 2,
        *["XLA", "op by op, 2 microbatches"] * 2,
    ]
    assert findings.summary.endswith(
        " Not the same program (crosses): gpt train cpu: XLA (batch size 1, 3); op by op, 2 "
        "microbatches (batch size 2, 4)."
    )
    assert_legible(findings.plot)
    crosses = [
        [line.get_xdata().tolist() for line in axes.lines if line.get_marker() == "x"]
        for axes in findings.plot.axes
    ]
    assert sorted(crosses) == [[]] * 3 + [[[2.0, 4.0]]] * 3
    assert "another program" in labels_of(findings.plot)
