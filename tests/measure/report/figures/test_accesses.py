import pytest
from legibility import assert_legible
from synthetic_folder import folder, run

from fathom import FathomError
from fathom.measure.report.figures import accesses

DISTANCES = (
    "layer,bytes,accesses\nstep,,10\nstep,64.0,50\nstep,65536.0,40\nfirst,,4\nfirst,64.0,4\n"
)
# Of a processor with cores of two kinds, as K. Liang showed it on linux-perf-users in June 2023.
PERF = """,16067494476,100.00,,,,TopdownL1 (cpu_core)
,,,,,,%  tma_backend_bound
,,,,,,%  tma_retiring
,10160989992,63.00,,,,TopdownL1 (cpu_atom)
,,,,,13.8,%  tma_bad_speculation
,10188319019,63.00,,,41.3,%  tma_frontend_bound
,10258326591,63.00,,,38.6,%  tma_backend_bound
,,,,,38.6,%  tma_backend_bound_aux
,10282689488,64.00,,,5.4,%  tma_retiring
"""
SUMMARY = "layer,loads,stores,bytes\nstep,60,40,2097152\nfirst,6,2,16384\n"
MIX = "kind,instructions,share\nmoves,30,0.3\nvector arithmetic,70,0.7\n"


@pytest.fixture
def traced(tmp_path):
    """Gives a folder with a step's trace, and a program's."""
    for name in ("one", "two"):
        (tmp_path / "traces" / name).mkdir(parents=True)
        (tmp_path / "traces" / name / "distances.csv").write_text(DISTANCES)
    (tmp_path / "traces" / "two" / "instructions.csv").write_text(MIX)
    return folder([run()], path=tmp_path)


def test_what_misses_is_what_is_touched_for_the_first_time_or_too_late(traced):
    findings = accesses.FIGURE.analyse(traced)
    step = findings.data[(findings.data.trace == "one") & (findings.data.layer == "step")]
    assert step["cache (KiB)"].tolist() == [0.0625, 64]
    assert step["misses per access"].tolist() == pytest.approx([0.5, 0.1])
    assert "one 50.0% and 10.0%" in findings.summary


def test_the_instructions_of_programs_are_drawn_beside(traced):
    findings = accesses.FIGURE.analyse(traced)
    assert_legible(findings.plot)
    assert [axes.get_title() for axes in findings.plot.axes][1] == "instructions"
    assert findings.tables["instructions"].trace.tolist() == ["two", "two"]
    widths = [patch.get_width() for patch in findings.plot.axes[1].patches]
    assert widths == pytest.approx([0.7, 0.3])


def test_the_slots_that_perf_counted_are_drawn_too(traced):
    (traced.path / "traces" / "one" / "topdown.csv").write_text(PERF)
    findings = accesses.FIGURE.analyse(traced)
    assert_legible(findings.plot)
    titles = [axes.get_title() for axes in findings.plot.axes if axes.get_visible()]
    assert titles[1:] == ["instructions", "issue slots"]
    slots = findings.tables["slots"].set_index("kind").share
    assert slots.tolist() == pytest.approx([0.054, 0.138, 0.413, 0.386])
    (traced.path / "traces" / "one" / "topdown.csv").write_text(PERF.replace("retiring", "x"))
    with pytest.raises(FathomError, match="has no retiring"):
        accesses.FIGURE.analyse(traced)


def test_a_single_trace_is_drawn_by_layer(traced):
    for file in (traced.path / "traces" / "two").iterdir():
        file.unlink()
    plot = accesses.FIGURE.analyse(traced).plot
    assert [line.get_label() for line in plot.axes[0].lines] == ["step", "first"]


def test_working_sets_are_held_against_caches(traced):
    (traced.path / "traces" / "one" / "summary.csv").write_text(SUMMARY)
    table = accesses.FIGURE.analyse(traced).tables["working sets"].set_index("layer")
    assert table["working set (KiB)"].tolist() == [2048, 16]
    assert table["of 32 KiB"].tolist() == [64, 0.5]
    assert table["of 1 MiB"].tolist() == [2, 16 / 1024]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("distances", "a,b\n1,2\n"),
        ("distances", ""),
        ("distances", "layer,bytes,accesses\nstep,64 B,10\n"),
        ("distances", "layer,bytes,accesses\nstep,64.0,many\n"),
        ("distances", "layer,bytes,accesses\n"),
        ("summary", "layer,loads,bytes\nstep,60,4096\n"),
        ("summary", "layer,loads,stores,bytes\nstep,60,40,4 KiB\n"),
        ("instructions", "kind,share\nmoves,most\n"),
    ],
)
def test_a_damaged_table_is_named(traced, name, text):
    (traced.path / "traces" / "one" / f"{name}.csv").write_text(text)
    with pytest.raises(FathomError, match=rf"{name}\.csv is no table"):
        accesses.FIGURE.analyse(traced)
