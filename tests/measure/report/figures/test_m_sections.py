import numpy as np
import pandas as pd
from synthetic_folder import WORKLOADS, result, run, runs_of

from fathom.measure.report.figures import m_sections

SECTIONS = ["init", "setup", "run", "main", "wall"]


def test_sections_are_shares_of_the_wall_time_on_the_cpu():
    runs = runs_of(run("memnet", wall_s=10.0), run("memnet", device="/gpu:0", wall_s=20.0))
    table = m_sections.section_times(runs)
    assert table.device.tolist() == ["cpu", "cpu", "gpu", "gpu"]
    assert table[""].tolist() == ["measured", "paper", "measured", "paper"]
    np.testing.assert_allclose(table[SECTIONS].iloc[0].astype(float), [0.1, 0.1, 0.5, 0.7, 1])
    assert table.wall[2] == 2
    assert table.init[[1, 3]].tolist() == [0.2583, 0.2582]
    assert "memnet 30%" in m_sections.summary(table)


def test_sections_are_means_of_the_repeats_over_their_mean_wall_time():
    runs = runs_of(
        run("memnet", wall_s=100.0),  # apart from the repeats, where there is a warm-up
        run("memnet", ("repeats",), repeat=1, wall_s=9.0),
        run("memnet", ("repeats",), repeat=2, wall_s=11.0),
        run("memnet", device="/gpu:0", wall_s=5.0),
    )
    ours = m_sections.section_times(runs).dropna(subset="runs")
    assert ours.device.tolist() == ["cpu", "gpu"]
    assert ours.runs.tolist() == [2, 1]
    assert ours.wall.tolist() == [1, 0.5]
    assert ours["wall (s)"].tolist() == [10, 5]
    np.testing.assert_allclose(ours.run.astype(float), 0.5)


def test_a_section_that_is_a_part_of_the_run_is_not_counted_twice():
    document = result()
    document["sections"] |= {"emulator": 2.0, "learning": 3.0}
    both = [m_sections.section_times(runs_of(run("deepq", result=r))) for r in (result(), document)]
    pd.testing.assert_frame_equal(*both)


def test_a_workload_that_ran_on_the_gpu_alone_is_left_out():
    assert m_sections.section_times(runs_of(run(device="/gpu:0"))).empty


def test_speech_is_not_in_the_paper():
    assert m_sections.section_times(runs_of(run("speech")))[""].tolist() == ["measured"]


def test_the_papers_stand_under_ours():
    runs = [run(name) for name in WORKLOADS] + [run("vgg", device="/gpu:0")]
    plot = m_sections.draw(m_sections.section_times(runs_of(*runs)))
    labels = [label.get_text() for label in plot.axes[0].get_yticklabels()]
    assert labels.count("the paper") == 8  # not of speech, but of vgg twice
    assert labels[labels.index("vgg, GPU") + 1] == "the paper"
