import numpy as np
import pytest
from legibility import assert_legible, labels_of
from synthetic_folder import folder, result, run, runs_of

from fathom.measure.report.figures import m_scale, runs


def trained(workers, seconds, batch_size=8, threads=1, workload="autoenc", link=1e6, **changes):
    """A training of some workers with 1 MB of gradients."""
    link = {"bytes_per_second": link, "latency_seconds": 1e-4} if workers > 1 else None
    created = {
        "strategy": "multi-worker",
        "workers": workers,
        "replicas": workers,
        "gradient_bytes": 10**6,
        "sent_bytes": 1e6 if workers > 1 else None,
        "link": link,
        "collective_seconds": [0.02] * workers if workers > 1 else [],
        "waiting_seconds": [0.0, 0.005][:workers] if workers > 1 else [],
        "collective_share": 0.25 if workers > 1 else None,
    }
    document = result(seconds, batch_size=batch_size, threads=threads) | {"distribution": created}
    return run(
        workload,
        ("scaling",),
        id=f"{workload}{workers}-{threads}-{batch_size}",
        workers=workers,
        threads=threads,
        batch_size=batch_size,
        result=document,
        **changes,
    )


ALONE = trained(1, 8.0)


def scaled(*others):
    return m_scale.scaling(runs_of(ALONE, *others)).to_dict("records")


def test_strong_and_weak_scaling_and_threads_are_told_apart_by_their_batches():
    rows = scaled(trained(2, 5.0), trained(2, 10.0, 16), trained(1, 4.0, threads=2))
    found = {row["scaling"]: row for row in rows}
    assert set(found) == {"strong", "weak", "threads"}
    assert found["strong"]["efficiency"] == pytest.approx(0.8)
    assert found["weak"]["efficiency"] == pytest.approx(0.8)
    assert found["threads"]["efficiency"] == pytest.approx(1)
    assert found["strong"]["share in sums"] == 0.25
    assert found["strong"]["waiting (ms)"] == pytest.approx(5)


def test_the_prediction_is_that_of_a_ring_over_the_measured_link():
    strong, weak = scaled(trained(2, 5.0), trained(2, 10.0, 16))
    assert strong["predicted"] == pytest.approx(4 / 5)  # 2 (2 - 1) / 2 MB at 1 MB/s
    assert weak["predicted"] == pytest.approx(8 / 9)


def test_other_batches_and_other_workloads_are_not_compared():
    assert scaled(trained(2, 5.0, 24), trained(2, 5.0, workload="vgg")) == []


def test_what_was_measured_is_drawn_beside_the_prediction():
    runs = [ALONE, trained(2, 5.0), trained(2, 10.0, 16), trained(1, 4.0, threads=2)]
    findings = m_scale.FIGURE.analyse(folder(runs))
    assert_legible(findings.plot)
    assert {
        "shared batch",
        "shared batch, predicted",
        "threads",
    } <= (labels_of(findings.plot))
    assert "autoenc, strong, 2 workers: 80% (predicted 80%), 25% of the step in sums" in (
        findings.summary
    )
    np.testing.assert_allclose(findings.data["link (MB/s)"].dropna(), 1)


def test_workers_without_a_training_on_one_are_named():
    gaps = m_scale.FIGURE.analyse(folder([trained(2, 5.0)])).gaps
    assert any(gap.startswith("autoenc: no training on one worker") for gap in gaps)


def test_runs_of_several_workers_are_no_equal_runs():
    table = runs.FIGURE.analyse(folder([ALONE, trained(2, 5.0)])).data
    assert runs.cases(table)[["workers", "runs"]].to_numpy().tolist() == [[1, 1], [2, 1]]
