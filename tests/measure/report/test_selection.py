"""What an analysis lacks has a reason, whatever was measured instead."""

import pytest
from synthetic_folder import folder, op, profile, result, run, steps

from fathom.measure.report.figures import (
    accesses,
    cost,
    f5,
    formats,
    m_batch,
    m_gpu,
    m_quality,
    m_scale,
    m_sections,
    m_serve,
    nearest,
    runs,
)

UNCOUNTED = result() | {"steps": steps([0.1])}
UNCOUNTED["throughput"] = UNCOUNTED["throughput"] | {"flops_per_second": None}
ON_GPU = profile([op("Add", [1.0], on="gpu")], "vgg", device="/gpu:0")
KERNELS = {"kernel_seconds": 2.0, "api_seconds": 4.0, "memcpy_seconds": 0.5, "process": None}


@pytest.mark.parametrize(
    ("figure", "measured", "gap"),
    [
        (m_sections, run("vgg", mode="infer"), "vgg: no training on the CPU was timed"),
        (f5, run("vgg", result=UNCOUNTED), "vgg: no step was counted"),
        (cost, run("vgg", result=UNCOUNTED), "vgg: no step was counted"),
        (runs, run("vgg", result=UNCOUNTED), "vgg: no step was counted"),
        (m_gpu, run("vgg", profile=ON_GPU), "vgg: its profiles have no times of the GPU"),
    ],
)
def test_a_workload_that_was_measured_otherwise_is_named_with_the_reason(figure, measured, gap):
    other = run(profile=profile([op("Add", [1.0], on="gpu")], gpu=KERNELS, device="/gpu:0"))
    assert gap in figure.FIGURE.analyse(folder([measured, other])).gaps


@pytest.mark.parametrize(
    ("figure", "command"),
    [
        (accesses, "fathom trace-memory"),
        (formats, "fathom formats"),
        (m_batch, "fathom characterize --batches"),
        (m_quality, "fathom quality"),
        (m_scale, "fathom characterize --workers"),
        (m_serve, "fathom serve-test --out"),
        (nearest, "fathom nearest FILE --json"),
    ],
)
def test_without_results_of_a_command_it_is_named(figure, command):
    findings = figure.FIGURE.analyse(folder([run()]))
    assert findings.plot is None
    assert command in findings.gaps[0]
