import pytest
from legibility import assert_legible
from synthetic_folder import ENVIRONMENT, folder, run

from fathom.measure.report.figures import m_serve
from fathom.results.serving import ServingResult, Trial


def trial(rate, p99, valid=True):
    latency = {"mean": p99 / 4, "p50": p99 / 5, "p99": p99}
    return Trial(
        rate=rate,
        valid=valid,
        reason="",
        queries=700,
        samples_per_second=rate,
        latency=latency,
        batches={"1": 2, "4": 2},
    )


def load_test(scenario="server", bound=0.02, trials=(), **changes):
    fields = {
        "workload": "autoenc",
        "scenario": scenario,
        "largest_batch": 8,
        "different_samples": 256,
        "duration": 10,
        "latency_bound": bound,
        "seed": 0,
        "batch_seconds": {"1": 0.001},
        "environment": ENVIRONMENT,
        "trials": list(trials),
        "result": trials[-1],
    }
    return ServingResult(**fields | changes)


SERVER = load_test(trials=[trial(800, 0.03, valid=False), trial(500, 0.015)])
OFFLINE = load_test("offline", None, [trial(1000, 0.5)])


@pytest.fixture
def tested(tmp_path):
    """Gives a folder with two load tests."""
    for name, each in (("a", SERVER), ("b", OFFLINE.model_copy(update={"trials": []}))):
        (tmp_path / "serving" / name).mkdir(parents=True)
        each.write(tmp_path / "serving" / name / "serving.json")
    return folder([run()], path=tmp_path)


def test_rate_and_percentile_are_told_beside_the_rate_without_arrivals(tested):
    findings = m_serve.FIGURE.analyse(tested)
    assert findings.summary == (
        "autoenc: 500 queries/s, p99 15 ms within 20 ms (offline 1,000 samples/s)."
    )
    table = findings.tables["tests"]
    assert table.scenario.tolist() == ["server", "offline"]
    assert table["mean batch"].tolist() == [2.5, 2.5]


def test_a_search_is_drawn_by_rate(tested):
    findings = m_serve.FIGURE.analyse(tested)
    assert findings.data["queries/s"].tolist() == [500, 800]
    assert_legible(findings.plot)


def test_searches_with_other_bounds_are_lines_of_their_own():
    other = load_test(bound=0.1, trials=[trial(900, 0.09)])
    (panel,) = m_serve.draw(m_serve.searches([SERVER, other])).axes
    rates = [line.get_xdata().tolist() for line in panel.lines if line.get_linestyle() == "-"]
    assert rates == [[500, 800], [900]]
    bounds = [line.get_ydata()[0] for line in panel.lines if line.get_linestyle() == "--"]
    assert bounds == pytest.approx([20, 100])


def test_more_searches_than_markers_are_drawn():
    tests = [load_test(bound=n / 100, trials=[trial(100 * n, 0.009)]) for n in range(1, 20)]
    (panel,) = m_serve.draw(m_serve.searches(tests)).axes
    assert len([line for line in panel.lines if line.get_linestyle() == "-"]) == len(tests)


def test_batchings_of_one_test_have_names_of_their_own():
    both = [load_test(trials=[trial(9, 0.01)], batching=each) for each in ("continuous", "static")]
    (panel,) = m_serve.draw(m_serve.searches(both)).axes
    names = [line.get_label() for line in panel.lines if line.get_linestyle() == "-"]
    assert [name.split(",")[0] for name in names] == [
        "continuous batches to 8",
        "static batches to 8",
    ]


BURSTS = {"arrivals": "gamma, coefficient of variation 4"}
REMOTE = {"url": "http://there", "batching": "unknown"}


def test_tests_of_other_servers_and_arrivals_are_apart():
    tests = [SERVER, load_test(trials=[trial(300, 0.016)], **BURSTS)]
    tests += [load_test(trials=[trial(900, 0.017)], **REMOTE), OFFLINE]
    assert m_serve.summary(m_serve.results(tests)) == (
        "autoenc, batching dynamic, arrivals LoadGen: 500 queries/s, p99 15 ms within 20 ms "
        "(offline 1,000 samples/s); "
        "autoenc, batching dynamic, arrivals gamma, coefficient of variation 4: 300 queries/s, "
        "p99 16 ms within 20 ms; "
        "autoenc, batching unknown, arrivals LoadGen, url http://there: 900 queries/s, p99 17 ms "
        "within 20 ms."
    )
    plot = m_serve.draw(m_serve.searches(tests))
    drawn = [line for line in plot.axes[0].lines if line.get_linestyle() == "-"]
    assert [line.get_xdata().tolist() for line in drawn] == [[500, 800], [300], [900]]
    assert len({line.get_label() for line in drawn}) == 3
    assert_legible(plot)


def test_an_endpoint_has_no_known_batches():
    unknown = trial(900, 0.01).model_copy(update={"batches": {}})
    table = m_serve.results([load_test(trials=[unknown], **REMOTE), SERVER])
    assert table["mean batch"].isna().tolist() == [True, False]
    assert table.verdict.tolist() == ["VALID", "VALID"]


def test_the_second_test_of_both_batchings_is_shown(tmp_path):
    for name in ("a", "a/static"):
        (tmp_path / "serving" / name).mkdir(parents=True)
    SERVER.write(tmp_path / "serving" / "a" / "serving.json")
    second = SERVER.model_copy(update={"batching": "static"})
    second.write(tmp_path / "serving" / "a" / "static" / "serving.json")
    table = m_serve.FIGURE.analyse(folder([run()], path=tmp_path)).tables["tests"]
    assert table.batching.tolist() == ["dynamic", "static"]


def test_tests_without_a_bound_on_the_latency_are_not_nothing(tmp_path):
    (tmp_path / "serving" / "a").mkdir(parents=True)
    OFFLINE.write(tmp_path / "serving" / "a" / "serving.json")
    findings = m_serve.FIGURE.analyse(folder([run()], path=tmp_path))
    assert findings.summary == "No test within a bound of the latency; the table has all tests."
