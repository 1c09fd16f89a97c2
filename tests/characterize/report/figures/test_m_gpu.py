import pytest
from legibility import assert_legible
from synthetic_folder import WORKLOADS, op, profile, run, runs_of

from fathom.characterize.report.figures import m_gpu
from fathom.results.profile import GpuTime

RATIOS = ["kernels / API calls", "copies / kernels"]


def gpu(kernels, api, memcpy):
    return GpuTime(kernel_seconds=kernels, api_seconds=api, memcpy_seconds=memcpy)


def use(*gpus):
    """What ``gpu_use`` says of workloads with these GPU times."""
    pairs = zip(WORKLOADS, gpus, strict=False)
    profiles = [profile([op("Add", [1.0])], name, gpu=times) for name, times in pairs]
    return m_gpu.gpu_use(runs_of(*(run(each.workload, profile=each) for each in profiles)))


def test_gpu_efficiency_is_kernels_over_api_calls_and_copies_over_kernels():
    table = use(gpu(2.0, 4.0, 0.5), None)
    seq2seq, memnet = table.to_dict("records")[:2]
    assert [seq2seq[name] for name in RATIOS] == [0.5, 0.25]
    assert memnet["kernels / API calls, paper"] > 0
    assert m_gpu.summary(table, measured=True).endswith("of API calls: seq2seq 0.50.")


def test_several_processes_give_kernels_over_api_calls_an_interval():
    runs = [
        run(profile=profile([op("Add", [1.0])], gpu=gpu(kernels, 4.0, 0.5)))
        for kernels in (2.0, 2.2)
    ]
    row = m_gpu.gpu_use(runs_of(*runs)).set_index("workload").loc["autoenc"]
    assert row["from"] < row["kernels / API calls"] == pytest.approx(0.525)
    assert row["to"] > 0.525


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
