import pytest
from legibility import assert_legible
from synthetic_folder import WORKLOADS, folder, op, profile, run

from fathom.measure.report.figures import m_gpu
from fathom.results.profile import ApiCall, GpuTime, ProcessGpuTime

RATIOS = ["kernels / API calls", "copies / kernels"]


def gpu(kernels, api, memcpy):
    """A GPU whose set-up took as long again in kernels and copies, and 9 times as long in calls."""
    calls = (("cudaFree", 1, 9 * api), ("cuLaunchKernel", 50, api))
    return GpuTime(
        kernel_seconds=kernels,
        api_seconds=api,
        memcpy_seconds=memcpy,
        process=ProcessGpuTime(
            kernel_seconds=2 * kernels,
            memcpy_seconds=2 * memcpy,
            calls=tuple(ApiCall(name=name, count=n, seconds=s) for name, n, s in calls),
        ),
    )


OPS = [op("Conv2D", [3.0, 3.0], on="gpu"), op("Shape", [0.5, 0.5]), op("TopKV2", [0.5, 0.5])]


def found(*gpus):
    """What the analysis finds of workloads with these GPU times; None: on the CPU."""
    pairs = zip(WORKLOADS, gpus, strict=False)
    profiles = [
        profile(OPS, name, gpu=times, device="/gpu:0" if times else "/cpu:0")
        for name, times in pairs
    ]
    return m_gpu.FIGURE.analyse(folder([run(each.workload, profile=each) for each in profiles]))


def use(*gpus):
    """The table of workloads with these GPU times."""
    return found(*gpus).data


def test_gpu_efficiency_is_kernels_over_api_calls_and_copies_over_kernels():
    table = use(gpu(2.0, 4.0, 0.5), None)
    seq2seq, memnet = table.to_dict("records")[:2]
    assert [seq2seq[name] for name in RATIOS] == [0.1, 0.25]
    assert [seq2seq[f"{name}, profiled steps"] for name in RATIOS] == [0.5, 0.25]
    assert memnet["kernels / API calls, paper"] > 0
    assert m_gpu.summary(table, measured=True).endswith("of API calls: seq2seq 0.10.")


def equal(*gpus):
    """What the analysis finds of equal profiles of autoenc with these GPU times."""
    profiles = [profile(OPS, device="/gpu:0", gpu=each) for each in gpus]
    return m_gpu.FIGURE.analyse(
        folder([run(repeat=i, profile=each) for i, each in enumerate(profiles)])
    )


def test_several_processes_give_kernels_over_api_calls_an_interval():
    findings = equal(*(gpu(kernels, 4.0, 0.5) for kernels in (2.0, 2.2)))
    row = findings.data.set_index("workload").loc["autoenc"]
    assert row["from"] < row["kernels / API calls"] == pytest.approx(0.105)
    assert row["to"] > 0.105


def test_a_call_that_some_processes_alone_make_counts_over_all_of_them():
    first = gpu(2.0, 4.0, 0.5)
    process = first.process.model_copy(update={"calls": first.process.calls[1:]})
    table = equal(first, first.model_copy(update={"process": process})).tables["api_calls"]
    assert table.call.tolist() == ["cudaFree", "cuLaunchKernel"]
    assert table["count"].tolist() == [0.5, 50]
    assert table.seconds.tolist() == [18, 4]
    assert table.share.tolist() == pytest.approx([18 / 22, 4 / 22])


def test_a_workload_that_is_not_installed_here_has_its_row():
    measured = profile(OPS, "elsewhere", gpu=gpu(2.0, 4.0, 0.5), device="/gpu:0")
    findings = m_gpu.FIGURE.analyse(folder([run("elsewhere", profile=measured)]))
    assert findings.data.workload.iloc[-1] == "elsewhere"
    assert "over the time of API calls: elsewhere 0.10." in findings.summary


def test_the_api_calls_are_those_of_the_whole_process():
    table = found(gpu(2.0, 4.0, 0.5)).tables["api_calls"]
    assert table.call.tolist() == ["cudaFree", "cuLaunchKernel"]
    assert table["count"].tolist() == [1, 50]
    assert table.seconds.tolist() == [36.0, 4.0]
    assert table.share.tolist() == [0.9, 0.1]


def test_without_launches_the_time_of_api_calls_is_missing():
    """As from TensorFlow 2.21's profiler, which records allocations alone."""
    calls = (ApiCall(name="cuMemAlloc_v2", count=9, seconds=1.0),)
    process = ProcessGpuTime(kernel_seconds=4.0, memcpy_seconds=1.0, calls=calls)
    times = GpuTime(kernel_seconds=2.0, api_seconds=None, memcpy_seconds=0.5, process=process)
    analysis = found(times)
    seq2seq = analysis.data.set_index("workload").loc["seq2seq"]
    assert seq2seq[[RATIOS[0], f"{RATIOS[0]}, profiled steps"]].isna().all()
    assert seq2seq[RATIOS[1]] == 0.25
    assert analysis.tables["api_calls"].empty
    assert m_gpu.summary(analysis.data, measured=True) == (
        "The profiler recorded no launches. Time in copies over time in kernels: seq2seq 0.25."
    )


def test_ops_that_ran_on_the_cpu_are_told_with_their_share():
    analysis = found(gpu(2.0, 4.0, 0.5), None)
    share = analysis.data.set_index("workload")["share of op time on the CPU"]
    assert share["seq2seq"] == 0.25
    assert share.drop("seq2seq").isna().all()
    table = analysis.tables["ops_on_cpu"]
    assert table.type.tolist() == ["Shape", "TopK"]
    assert table.share.tolist() == [0.125, 0.125]
    assert table.seconds.tolist() == [0.5, 0.5]


def test_without_a_gpu_the_papers_efficiencies_stand_alone():
    table = use()
    assert set(table.workload) == set(WORKLOADS) - {"speech"}
    assert table[RATIOS].isna().all(axis=None)
    vgg = table.set_index("workload").loc["vgg"]
    assert vgg["copies / kernels, paper"] == pytest.approx(0.014992)
    found = m_gpu.summary(table, measured=False)
    assert found == "Nothing was measured on a GPU: the figures are the paper's."
    assert_legible(m_gpu.draw(table, measured=False))


def test_a_gpu_that_ran_no_kernel_has_no_efficiency():
    table = use(gpu(0.0, 0.0, 0.0))
    assert table[RATIOS].isna().all(axis=None)
    assert "no kernels" in m_gpu.summary(table, measured=True)


def test_measured_and_published_ratios_stand_beside_each_other():
    assert_legible(m_gpu.draw(use(*[gpu(1.0, 2.0, 0.1)] * 8), measured=True))
