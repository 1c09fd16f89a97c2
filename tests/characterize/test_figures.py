from unittest import mock

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from synthetic_folder import MACHINE, WORKLOADS, op, paper_profile, profile, result, run, suite

from fathom.characterize.report import analyses, figures
from fathom.results.profile import GpuTime


def texts_of(figure):
    """Returns the texts that are drawn, with the boxes that they cover."""
    drawn = []
    draw = Text.draw

    def noted(text, renderer):
        if text.get_visible() and text.get_text().strip():
            drawn.append((text.get_text(), text.get_window_extent(renderer)))
        draw(text, renderer)

    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # places everything
    with mock.patch.object(Text, "draw", noted):
        canvas.draw()
    return drawn


def assert_legible(figure):
    """Fails where a text leaves the figure or covers another one."""
    shown = texts_of(figure)
    for text, box in shown:
        assert box.x0 >= -1, text
        assert box.y0 >= -1, text
        assert box.x1 <= figure.bbox.width + 1, text
        assert box.y1 <= figure.bbox.height + 1, text
    for i, (text, box) in enumerate(shown):
        for other, covered in shown[i + 1 :]:
            wide = min(box.x1, covered.x1) - max(box.x0, covered.x0)
            high = min(box.y1, covered.y1) - max(box.y0, covered.y0)
            assert wide <= 1 or high <= 1, f"{text!r} covers {other!r}"


def labels_of(figure):
    return {text for text, _ in texts_of(figure)}


def profiles():
    return [paper_profile(name, seed=seed) for seed, name in enumerate(WORKLOADS)]


def long_names():
    """A profile with many types and layers whose names are long."""
    return profile(
        [
            op(
                f"AnOpTypeWithALongName{i}",
                [1.0 / (i + 1)] * 6,
                f"a_layer_with_a_very_long_name_{i}",
            )
            for i in range(15)
        ],
        "seq2seq",
    )


def test_figure_1_has_one_panel_a_workload():
    figure = figures.stationarity(analyses.stationarity([*profiles()[1:3], long_names()]))
    assert_legible(figure)
    assert {"memnet", "speech", "seq2seq"} <= labels_of(figure)


def test_figure_2_names_the_types_to_90_percent():
    figure = figures.dominance(analyses.dominance(profiles()))
    assert_legible(figure)
    assert "deepq (4 to 90 %)" in labels_of(figure)


def test_figure_3_shows_ours_above_the_papers_and_leaves_zeros_empty():
    figure = figures.breakdown(analyses.breakdown(profiles()))
    assert_legible(figure)
    labels = labels_of(figure)
    assert {"A", "G", "Conv2DBackFilter", "deepq   0.000", "deepq", "89", "90"} <= labels
    assert "0" not in labels


def test_figure_3_has_room_for_types_and_workloads_of_its_own():
    strange = profile([op(f"StrangeOp{i}", [1.0]) for i in range(10)], "transformer")
    figure = figures.breakdown(analyses.breakdown([strange, profiles()[0]]))
    assert_legible(figure)
    assert {"transformer", "none", "StrangeOp9"} <= labels_of(figure)


def test_figure_3_can_be_drawn_of_a_workload_that_the_paper_has_not():
    figure = figures.breakdown(analyses.breakdown([profile([op("Add", [1.0])], "transformer")]))
    assert "transformer" in labels_of(figure)


def test_figure_4_has_the_papers_dendrogram_beside_ours():
    result = analyses.similarity(profiles()[:3])
    figure = figures.similarity(result, analyses.published_similarity())
    assert_legible(figure)
    ours, theirs = figure.axes
    assert (len(ours.lines), len(theirs.lines)) == (2, 7)
    last = max(max(line.get_xdata()) for line in ours.lines)
    assert last == pytest.approx(result.merges[-1].distance)


def test_figure_5_shows_what_was_measured_and_no_more():
    runs = [each for each in suite(["vgg", "speech"]) if "modes" in each.purpose]
    on_cpu = figures.modes(analyses.modes(runs))
    assert_legible(on_cpu)
    assert "training, GPU" not in labels_of(on_cpu)
    on_both = figures.modes(analyses.modes([*runs, run("vgg", device="/gpu:0")]))
    assert_legible(on_both)
    assert "training, GPU" in labels_of(on_both)


def test_figure_5_has_room_for_a_gpu_that_is_slower_than_the_cpu():
    runs = [run("memnet"), run("memnet", device="/gpu:0", result=result(3.0))]
    (axes,) = figures.modes(analyses.modes(runs)).axes
    left, right = axes.get_xlim()
    assert [left < x < right for line in axes.lines for x in line.get_xdata()] == [True, True]


def test_figure_6_keeps_the_look_of_a_number_of_threads_where_a_profile_is_missing():
    threads = {"deepq": (1, 2, 4), "vgg": (1, 4)}
    profiles = [paper_profile(name, n) for name, each in threads.items() for n in each]
    deepq, vgg = figures.parallelism(analyses.parallelism(profiles)).axes
    looks = {bars.get_label(): bars[0].get_hatch() for bars in deepq.containers}
    assert {bars.get_label(): bars[0].get_hatch() for bars in vgg.containers} == {
        "1 thread": looks["1 thread"],
        "4 threads": looks["4 threads"],
    }


def test_figure_6_names_the_role_of_each_type():
    result = analyses.parallelism(paper_profile("deepq", threads) for threads in (1, 2, 4))
    figure = figures.parallelism(result)
    assert_legible(figure)
    assert {"ApplyRMSProp\noptimizer", "1 thread", "4 threads"} <= labels_of(figure)


def test_figure_6_shortens_long_names():
    other = profile(long_names().ops, "seq2seq", threads=2)
    assert_legible(figures.parallelism(analyses.parallelism([long_names(), other])))


def test_the_time_outside_ops_has_the_papers_beside():
    figure = figures.outside(analyses.outside(profiles()))
    assert_legible(figure)
    assert {"20.0", "1-2 % (the paper)"} <= labels_of(figure)


def test_sections_have_the_papers_under_ours():
    runs = [run(name) for name in WORKLOADS] + [run("vgg", device="/gpu:0")]
    figure = figures.sections(analyses.sections(runs))
    assert_legible(figure)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels.count("the paper") == 8  # not of speech, but of vgg twice
    assert labels[labels.index("vgg, GPU") + 1] == "the paper"


def test_spread_efficiency_gpu_layers_and_cost_are_legible():
    runs = suite(WORKLOADS[:3])
    gpu_time = GpuTime(kernel_seconds=1.0, api_seconds=2.0, memcpy_seconds=0.1)
    gpu = [profile([op("Add", [1.0])], name, gpu=gpu_time) for name in WORKLOADS]
    repeats = [each for each in runs if "repeats" in each.purpose]
    cores = [each for each in runs if "cores" in each.purpose]
    modes = [each for each in runs if "modes" in each.purpose]
    assert_legible(figures.spread(analyses.spread(repeats)))
    assert_legible(figures.efficiency(analyses.efficiency(cores)))
    assert_legible(figures.gpu_use(analyses.gpu_use(gpu)))
    assert_legible(figures.gpu_use(analyses.gpu_use([])))
    assert_legible(figures.layers(analyses.layers([*profiles(), long_names()])))
    assert_legible(figures.efforts(analyses.efforts(modes, MACHINE)))


def test_colours_and_markers_of_two_workloads_are_never_the_same():
    looks = [figures.style.look_of(name) for name in WORKLOADS]
    assert len({look["color"] for look in looks}) == len({look["marker"] for look in looks}) == 8


def test_each_figure_is_named_after_its_analysis():
    assert set(figures.__all__) <= set(analyses.__all__)
    assert all(callable(getattr(figures, name)) for name in figures.__all__)
    assert all(callable(getattr(analyses, name)) for name in analyses.__all__)
