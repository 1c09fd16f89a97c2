import numpy as np
import pytest
from synthetic_folder import COST, LAYERS, MACHINE, WORKLOADS, op, profile, result, run, steps

from fathom.characterize.report import analyses
from fathom.characterize.report.analyses.table import Table, shown
from fathom.results.profile import GpuTime


def test_the_four_cases_are_normalised_to_training_on_the_cpu():
    runs = [
        run(result=result(0.4, batch_size=8)),
        run(mode="infer", result=result(0.1, batch_size=1)),
        run(device="/gpu:0", result=result(0.2)),
    ]
    modes = analyses.modes(runs)
    np.testing.assert_allclose(modes.normalised, [[1, 0.25, 0.5, np.nan]])
    assert modes.batch_sizes.tolist() == [[8, 1, 8, 0]]
    assert modes.on_gpu
    assert modes.missing() == []
    assert modes.table().rows[3][:4] == ("autoenc", "infer", "gpu", None)


def test_a_step_counts_by_its_work_where_batches_vary_in_length():
    document = result() | {"steps": steps([0.4] * 3, work=2.0)}
    assert analyses.modes([run(result=document)]).seconds[0, 0] == 0.2


def test_without_training_on_the_cpu_nothing_can_be_normalised():
    modes = analyses.modes([run(mode="infer")])
    assert np.isnan(modes.normalised).all()
    assert modes.missing() == [("autoenc", "train")]
    assert not modes.on_gpu


def test_a_run_without_counted_steps_is_no_measurement():
    empty = result() | {"steps": steps([0.1])}
    assert analyses.modes([run(result=empty)]).workloads == ()


def test_sections_are_shares_of_the_wall_time_on_the_cpu():
    runs = [run("memnet", wall_s=10.0), run("memnet", device="/gpu:0", wall_s=20.0)]
    sections = analyses.sections(runs)
    assert sections.rows == (("memnet", "cpu"), ("memnet", "gpu"))
    np.testing.assert_allclose(sections.shares[0], [0.1, 0.1, 0.5, 0.7, 1])
    assert sections.shares[1, -1] == 2
    assert sections.paper[:, 0].tolist() == [0.2583, 0.2582]
    assert "memnet 30%" in sections.summary()


def test_a_section_that_is_a_part_of_the_run_is_not_counted_twice():
    document = result()
    document["sections"] |= {"emulator": 2.0, "learning": 3.0}
    both = [analyses.sections([run("deepq", result=each)]) for each in (result(), document)]
    np.testing.assert_array_equal(both[0].shares, both[1].shares)


def test_sections_of_a_workload_that_ran_on_the_gpu_alone_are_left_out():
    assert analyses.sections([run(device="/gpu:0")]).rows == ()


def test_speech_has_no_sections_in_the_paper():
    sections = analyses.sections([run("speech")])
    assert np.isnan(sections.paper).all()
    assert len(sections.table().rows) == 1


def test_whole_runs_are_normalised_to_the_mean_on_the_cpu():
    runs = [run(wall_s=seconds) for seconds in (9.0, 10.0, 11.0)]
    runs += [run(device="/gpu:0", wall_s=seconds) for seconds in (4.0, 6.0)]
    on_cpu, on_gpu = analyses.spread(runs).repeats
    np.testing.assert_allclose(on_cpu.normalised, [0.9, 1, 1.1])
    assert on_cpu.variation == pytest.approx(0.1)
    np.testing.assert_allclose(on_gpu.normalised, [0.4, 0.6])


def test_a_run_that_was_not_repeated_has_no_spread():
    assert analyses.spread([run()]).repeats == ()


def test_efficiency_is_the_speed_up_over_the_cores():
    times = {1: 1.0, 2: 0.5, 4: 0.5}
    runs = [run(cores=cores, result=result(seconds)) for cores, seconds in times.items()]
    (scaling,) = analyses.efficiency(runs).workloads
    np.testing.assert_allclose(scaling.speedup, [1, 2, 2])
    np.testing.assert_allclose(scaling.efficiency, [1, 1, 0.5])


def test_efficiency_takes_a_run_on_one_core():
    assert analyses.efficiency([run(cores=2), run(cores=4)]).workloads == ()


def test_op_times_are_compared_over_threads_with_the_layers_they_serve():
    one = [op("MatMul", [4.0, 6.0], "fc1"), op("MatMul", [1.0, 1.0], "fc2"), op("Add", [1.0, 1.0])]
    two = [op("MatMul", [2.0, 4.0], "fc1"), op("Add", [1.0, 1.0])]
    parallel = analyses.parallelism([profile(two, threads=2), profile(one, threads=1)])
    (scaling,) = parallel.workloads
    assert scaling.threads == (1, 2)
    assert scaling.op_types == ("MatMul", "Add")
    assert scaling.roles == ("fc1, fc2", "fc1")
    np.testing.assert_array_equal(scaling.seconds, [[6, 3], [1, 1]])
    np.testing.assert_allclose(scaling.shares, [[6 / 7, 3 / 4], [1 / 7, 1 / 4]])
    np.testing.assert_allclose(scaling.speedups, [2, 1])
    assert "the share of Add goes from 14.3% to 25.0%" in parallel.summary()


def test_a_type_that_emerges_with_more_threads_is_shown():
    names = ["MatMul", "Add", "Mul", "Sub", "Sum", "Tile", "Pad"]
    one = [op(name, [8.0]) for name in names] + [op("Transpose", [1.0])]
    four = [op(name, [2.0]) for name in names] + [op("Transpose", [9.0])]
    (scaling,) = analyses.parallelism([profile(one), profile(four, threads=4)]).workloads
    assert scaling.op_types[-1] == "Transpose"
    np.testing.assert_array_equal(scaling.seconds[-1], [1, 9])


def test_one_number_of_threads_shows_no_scaling():
    assert analyses.parallelism([profile([op("Add", [1.0])])]).workloads == ()


def test_gpu_efficiency_is_kernels_over_api_calls_and_copies_over_kernels():
    gpu = GpuTime(kernel_seconds=2.0, api_seconds=4.0, memcpy_seconds=0.5)
    use = analyses.gpu_use(
        [profile([op("Add", [1.0])], "vgg", gpu=gpu), profile([op("Add", [1.0])])]
    )
    assert use.measured == ("vgg",)
    assert ("vgg", 0.5, 0.25, 0.6278, pytest.approx(0.014992)) in use.table().rows


def test_without_a_gpu_the_papers_efficiencies_stand_alone():
    use = analyses.gpu_use([profile([op("Add", [1.0])])])
    assert use.measured == ()
    assert set(use.workloads) == set(WORKLOADS) - {"speech"}
    assert np.isnan([use.kernels_over_api, use.memcpy_share]).all()
    assert use.summary() == "Nothing was measured on a GPU: the figures are the paper's."


def test_a_gpu_that_ran_no_kernel_has_no_efficiency():
    use = analyses.gpu_use(
        [
            profile(
                [op("Add", [1.0])],
                gpu=GpuTime(kernel_seconds=0.0, api_seconds=0.0, memcpy_seconds=0.0),
            )
        ]
    )
    assert np.isnan([use.kernels_over_api, use.memcpy_share]).all()
    assert "no kernels" in use.summary()


def test_the_achieved_rate_is_set_against_the_matrix_product_on_as_many_threads():
    runs = [run(), run(mode="infer", result=result(threads=2)), run("vgg", device="/gpu:0")]
    works = analyses.efforts(runs, MACHINE).works
    assert [work.efficiency for work in works[:2]] == [0.5, 1.0]
    assert np.isnan(works[2].efficiency)
    assert [work.flops for work in works[:2]] == [1000, 400]


def test_another_precision_than_that_of_the_matrix_product_has_no_peak():
    (work,) = analyses.efforts([run(result=result(precision="bfloat16"))], MACHINE).works
    assert np.isnan(work.peak)


def test_layers_have_their_work_traffic_and_time():
    ops = [op("MatMul", [1.0, 1.0], "fc1"), op("MatMul", [1.0, 1.0], "fc1", "backward")]
    first, second = analyses.layer_work(profile(ops))
    assert (first.parameter_bytes, first.activation_bytes) == (440, 4 * 10 * 8)
    assert (first.flops, second.flops) == (2 * 8 * 100 * 2, 2 * 8 * 100 * 3)
    assert first.flops_per_second == 1600
    assert np.isnan(second.flops_per_second)  # no op of it was seen


def test_a_layer_that_a_step_runs_forward_twice_has_the_work_of_both_passes():
    layers = [layer | {"forward_passes": 2} for layer in LAYERS]
    first, second = analyses.layer_work(
        profile([op("MatMul", [1.0])], cost=COST | {"layers": layers})
    )
    assert (first.flops, second.flops) == (2 * 8 * 100 * 3, 2 * 8 * 100 * 4)


def test_layers_have_the_work_of_the_batches_that_were_profiled():
    ops = [op("MatMul", [1.0, 1.0], "fc1")]
    longer = analyses.layer_work(profile(ops, work=np.array([1.0, 2.0])))[0]
    assert (longer.flops, longer.activation_bytes) == (1.5 * 2 * 8 * 100 * 2, 1.5 * 4 * 10 * 8)


def test_activations_are_half_as_large_in_bfloat16_and_weights_are_not():
    halved = analyses.layer_work(profile([op("MatMul", [1.0])], precision="bfloat16"))[0]
    assert (halved.parameter_bytes, halved.activation_bytes) == (440, 2 * 10 * 8)


def test_a_table_leaves_empty_what_does_not_exist():
    table = Table.of([{"name": "a, b", "x (s)": float("nan")}, {"name": "c", "x (s)": 0.25}])
    assert table.to_csv() == 'name,x (s)\n"a, b",\nc,0.25\n'
    assert Table.of([]).to_csv() == "\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (float("nan"), "-"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (0.12345, "0.123"),
        (12345.6, "12,346"),
        (1.2e9, "1.2e+09"),
        (2e-16, "0"),
        ("text", "text"),
    ],
)
def test_a_cell_is_short_enough_to_read(value, text):
    assert shown(value) == text
