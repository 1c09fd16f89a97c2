import numpy as np
from legibility import assert_legible, labels_of
from synthetic_folder import folder, result, run, runs_of, steps

from fathom.measure.report.figures import f5


def test_the_four_cases_are_normalised_to_training_on_the_cpu():
    times = f5.step_times(
        runs_of(
            run(result=result(0.4, batch_size=8)),
            run(mode="infer", result=result(0.1, batch_size=1)),
            run(device="/gpu:0", result=result(0.2)),
        )
    )
    np.testing.assert_allclose(times["over CPU training"], [1, 0.25, 0.5, np.nan])
    assert times["batch size"].tolist()[:3] == [8, 1, 8]
    assert times.iloc[3].isna().sum() == 6
    assert f5.summary(times) == (
        "On the CPU a training step takes this many times an inference step: autoenc 4.0. "
        "On the CPU a training step takes this many times one on the GPU: autoenc 2.0."
    )


def test_equal_runs_give_the_ratio_an_interval():
    runs = [run(repeat=i, result=result(s)) for i, s in enumerate((0.4, 0.44, 0.4))]
    infer = [run(mode="infer", repeat=i, result=result(s)) for i, s in enumerate((0.1, 0.11, 0.1))]
    findings = f5.FIGURE.analyse(folder([*runs, *infer]))
    training, inference = findings.data.to_dict("records")[:2]
    assert (training["over CPU training"], inference["runs"]) == (1, "3")
    assert inference["from"] < 0.25 < inference["to"]
    assert "autoenc 4.0 (3.5 to 4.5)." in findings.summary
    assert "One run" not in findings.summary
    alone = f5.FIGURE.analyse(folder([*runs, infer[0]]))
    assert alone.data[["from", "to"]].isna().all(axis=None)
    assert alone.summary.endswith("autoenc 4.1. One run, no interval.")


def test_a_step_counts_by_its_work_where_batches_vary_in_length():
    document = result() | {"steps": steps([0.1, 0.2, 0.6], work=[1.0, 1.0, 3.0])}
    assert f5.step_times(runs_of(run(result=document)))["median step (s)"][0] == 0.2


def test_a_step_counts_as_it_is_where_all_batches_are_of_equal_work():
    whole_graph = [result() | {"steps": steps([0.4] * 3, work=each)} for each in (19.3, 2.7)]
    runs = [
        run("gcn", mode=m, result=each)
        for m, each in zip(("train", "infer"), whole_graph, strict=True)
    ]
    times = f5.step_times(runs_of(*runs))
    np.testing.assert_allclose(times["median step (s)"][:2], 0.4)
    np.testing.assert_allclose(times["over CPU training"][:2], 1)


def test_without_training_on_the_cpu_nothing_can_be_normalised():
    times = f5.step_times(runs_of(run(mode="infer")))
    assert times["over CPU training"].isna().all()
    findings = f5.FIGURE.analyse(folder([run("vgg", mode="infer")]))
    assert "vgg train on the CPU: not measured" in findings.gaps
    assert "GPU: no runs on one in this folder" in findings.gaps


def test_a_case_is_not_measured_though_another_run_of_its_workload_failed():
    failed = {"status": "failed", "reason": "killed"}
    profiled = run("vgg", id="a", kind="profile", purpose=("profile",), threads=1, **failed)
    on_gpu = run("vgg", id="b", device="/gpu:0", **failed)
    for other in (profiled, on_gpu):
        findings = f5.FIGURE.analyse(folder([run("vgg", mode="infer"), other]))
        assert "vgg train on the CPU: not measured" in findings.gaps


def test_a_run_without_counted_steps_is_no_measurement():
    empty = result() | {"steps": steps([0.1])}
    assert f5.step_times(runs_of(run(result=empty))).empty


def test_what_was_measured_is_drawn_and_no_more():
    runs = [run("vgg"), run("speech", mode="infer"), run("speech")]
    on_cpu = f5.draw(f5.step_times(runs_of(*runs)))
    assert "training, GPU" not in labels_of(on_cpu)
    on_both = f5.draw(f5.step_times(runs_of(*runs, run("vgg", device="/gpu:0"))))
    assert_legible(on_both)
    assert "training, GPU" in labels_of(on_both)


def test_there_is_room_for_a_gpu_that_is_slower_than_the_cpu():
    runs = runs_of(run("memnet"), run("memnet", device="/gpu:0", result=result(3.0)))
    (axes,) = f5.draw(f5.step_times(runs)).axes
    left, right = axes.get_xlim()
    assert [left < x < right for line in axes.lines for x in line.get_xdata()] == [True, True]


def test_cases_of_another_program_than_training_on_the_cpu_are_marked():
    runs = [run(result=result(0.4)), run(mode="infer", result=result(0.1, xla="step"))]
    findings = f5.FIGURE.analyse(folder([*runs, run("vgg")]))
    assert findings.data.program.tolist()[:2] == ["op by op", "XLA"]
    assert findings.summary.endswith(
        " Not the same program (crosses): autoenc: op by op (mode train CPU); XLA (mode infer CPU)."
    )
    (cross,) = (line for line in findings.plot.axes[0].lines if line.get_marker() == "x")
    np.testing.assert_allclose(cross.get_xydata(), [[0.25, 0]], rtol=0.01)
    assert "another program" in labels_of(findings.plot)
