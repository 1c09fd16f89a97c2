"""Operations are measured alone; steps are those of undisturbed runs, described again."""

import pytest

from fathom import FathomError
from fathom.hardware.accelerators.prediction import Rates
from fathom.measure.runs import calibration
from tests.measure.synthetic_folder import folder, result, run

_TWO_WORKERS = {
    **{"strategy": "multi-worker", "workers": 2, "replicas": 2, "gradient_bytes": 10**6},
    **{"sent_bytes": 1e6, "link": {"bytes_per_second": 1e6, "latency_seconds": 1e-4}},
    **{"collective_seconds": [0.1], "waiting_seconds": [0.0, 0.1], "collective_share": 0.5},
}


@pytest.fixture(scope="module")
def measured():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            **{"_ROWS": (4,), "_COLUMNS": (8,), "_BATCHES": ((2, 8),), "_IMAGES": (7,)},
            **{"_FILTERS": (3,), "_CHANNELS": ((4, 8),), "_SIZES": [2**12, 2**16]},
            **{"_SECONDS": 0.0, "_CHAIN": 5},
        }.items():
            patch.setattr(calibration, name, value)
        return calibration.measure(1, "float32")


def test_every_kind_and_phase_is_measured(measured):
    found = [(each.kind, each.phase, each.groups) for each in measured.products]
    assert found == [
        ("matrix product", "forward", 1),
        ("matrix product", "forward", 2),
        *(("convolution", phase, 1) for phase in ("forward", "input gradient", "weight gradient")),
        *(("convolution", phase, 1) for phase in ("forward", "input gradient", "weight gradient")),
    ]
    assert [each.M for each in measured.products[2:]] == [49] * 3 + [8 * 49] * 3
    assert [each.size_bytes for each in measured.transfers] == [2**13, 2**17]


def test_steps_are_the_median_of_undisturbed_runs(measured):
    own = {"hyperparameters": {"batch_size": 5, "hidden_units": 16, "latents": 2}}
    one = {"threads": 1, "precision": "float32"}
    runs = [run(repeat=i, result=result(0.1 + i, **one) | own) for i in range(3)]
    runs += [run(repeat=3, result=result(9.0, cpu_seconds=1.0, **one) | own)]  # disturbed
    runs += [run(repeat=4, result=result(9.0, threads=2) | own)]
    runs += [run(repeat=5, status="failed", reason="it did")]
    runs += [run(repeat=6, result=result(9.0, **one) | own | {"distribution": _TWO_WORKERS})]
    runs += [run(repeat=-1, purpose=("warmup",), result=result(9.0, **one) | own)]
    taken, words = calibration.taken(folder(runs), 1, "float32")
    assert words == (
        "3 of the folder's 7 timings are taken; the others: 1 disturbed by other "
        "processes; 1 on 2 thread(s); 1 failed; 1 of several workers"
    )
    [step] = calibration.steps(taken, Rates(measured))
    assert (step.workload, step.mode, step.batch_size) == ("autoenc", "train", 5)
    assert step.seconds == pytest.approx(1.1, rel=0.02)
    assert step.ideal.product_seconds > 0
    with pytest.raises(FathomError, match=r"on 3 thread\(s\): 4 on 1 thread.* --threads must be"):
        calibration.taken(folder(runs), 3, "float32")
