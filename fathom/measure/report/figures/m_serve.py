"""Load tests that lie in the folder: latency by rate, and the highest rate within a bound."""

import itertools

import pandas as pd

from fathom.measure.report import selection, style
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder
from fathom.results.serving import ServingResult, Trial
from fathom.system.words import counted

_CASE = ("batch limit", "threads", "batching", "arrivals", "url")


def results(tests: list[ServingResult]) -> pd.DataFrame:
    """Returns one row per load test: what was asked, and the run that counts."""
    rows = [
        {
            **_case(test),
            "scenario": test.scenario,
            "bound (ms)": 1e3 * test.latency_bound if test.latency_bound else None,
            "queries/s": test.result.rate,
            "samples/s": test.result.samples_per_second,
            "p50 (ms)": 1e3 * test.result.latency["p50"],
            "p99 (ms)": 1e3 * test.result.latency["p99"],
            "mean batch": _mean_batch(test.result),
            "seconds": test.duration,
            "verdict": "VALID" if test.result.valid else "INVALID",
        }
        for test in tests
    ]
    return selection.in_order(pd.DataFrame(rows)).reset_index(drop=True)


def searches(tests: list[ServingResult]) -> pd.DataFrame:
    """Returns one row per trial of the searches for the highest rate."""
    rows = [
        {
            **_case(test),
            "bound (ms)": 1e3 * (test.latency_bound or 0),
            "queries/s": trial.rate,
            "p99 (ms)": 1e3 * trial.latency["p99"],
            "valid": trial.valid,
        }
        for test in tests
        if test.latency_bound  # of text, two bounds are on other latencies
        for trial in sorted(test.trials, key=lambda each: each.rate or 0)
    ]
    return selection.in_order(pd.DataFrame(rows)).reset_index(drop=True) if rows else pd.DataFrame()


def _case(test: ServingResult) -> dict[str, object]:
    """Returns the workload and ``_CASE``: tests that differ in them are not comparable."""
    values = (test.largest_batch, test.environment.threads, test.batching, test.arrivals)
    return dict(zip(("workload", *_CASE), (test.workload, *values, test.url or ""), strict=True))


def _mean_batch(trial: Trial) -> float | None:
    """Returns the mean size of a batch; None where no batches are known, as of an endpoint."""
    number = sum(trial.batches.values())
    return sum(int(size) * n for size, n in trial.batches.items()) / number if number else None


def summary(table: pd.DataFrame) -> str:
    """States the highest rate of each case within its bound, beside offline's."""
    found = []
    groups = list(table.groupby(["workload", *_CASE], sort=False))
    settings = [dict(zip(_CASE, case[1:], strict=True)) for case, _ in groups]
    given = [{name: value for name, value in each.items() if value} for each in settings]
    names = selection.names_apart([(str(case[0]),) for case, _ in groups], given)
    for name, (_, each) in zip(names, groups, strict=True):
        bounded = each["bound (ms)"].notna()
        server = each[(each.scenario == "server") & (each.verdict == "VALID") & bounded]
        if server.empty:
            continue
        best = server.loc[server["queries/s"].idxmax()]
        text = (
            f"{name}: {best['queries/s']:,.0f} queries/s, p99 {best['p99 (ms)']:.3g} ms within "
            f"{best['bound (ms)']:.3g} ms"
        )
        offline = each[each.scenario == "offline"]["samples/s"].max()
        found.append(text if pd.isna(offline) else f"{text} (offline {offline:,.0f} samples/s)")
    none = "No test within a bound of the latency; the table has all tests"
    return f"{'; '.join(found) or none}."


def draw(table: pd.DataFrame) -> style.Plot:
    """Draws the 99th percentile by rate of each search, with its bound."""
    names = list(table.workload.unique())
    with style.panels(names, columns=2, width=3.4, height=3.0) as (figure, axes):
        for name, panel in zip(names, axes, strict=True):
            mine = table[table.workload == name]
            cases = mine.groupby([*_CASE, "bound (ms)"], sort=False)
            for marker, (case, each) in zip(itertools.cycle(style.MARKERS), cases, strict=False):
                limit, threads, batching, arrivals, url, bound = case
                others = "" if arrivals == "LoadGen" else f",\n{arrivals}"
                panel.plot(
                    each["queries/s"],
                    each["p99 (ms)"],
                    color=style.BLUE,
                    marker=marker,
                    markersize=4,
                    linewidth=1,
                    label=f"{url or f'{batching} batches to {limit}'}, "
                    f"{counted(threads, 'thread')}, within {bound:g} ms{others}",
                )
                panel.axhline(bound, color=style.GREY, linestyle="--", label="bound")
            style.scale_by_logarithm(panel, "y")
            panel.grid(axis="y")
        figure.supxlabel("queries/s", fontsize=9)
        figure.supylabel("99th percentile (ms)", fontsize=9)
        style.legend_above(figure, columns=min(2, len(names)))
    return figure


def _analyse(folder: Folder) -> Findings:
    files = sorted(folder.path.glob("serving/**/serving.json"))  # ``--batching both`` nests
    tests = [ServingResult.read(path) for path in files]
    if not tests:
        return Findings(gaps=["no load test: fathom serve-test --out DIR/serving/NAME adds one"])
    table, trials = results(tests), searches(tests)
    if trials.empty:
        return Findings(summary(table), tables={"tests": table})
    return Findings(summary(table), draw(trials), trials, {"tests": table})


FIGURE = Figure(
    id="M-serve",
    order=53,
    title="Latency under load",
    meaning="Load tests whose results lie in serving/ of the folder: the 99th percentile of the "
    "latency by the rate of queries, of each run of a search for the highest rate within the "
    "bound; and every test. Runs of seconds, not MLPerf's minutes.",
    paper='Fathom, "Datasets": inference has "a stream of unseen data and a lean toward latency"; '
    "no streams are measured.",
    analyse=_analyse,
)
