import itertools
import re
import shlex

import pandas as pd
import pytest
from commands import fathom, refusal
from synthetic_folder import result

from fathom.measure.runs import interleave
from fathom.results.records import RunResult


@pytest.fixture
def compare(tmp_path, capsys):
    """Runs ``compare --interleave``; returns exit code, output and error."""

    def command(*variants, budget=1):
        arguments = [*variants, f"--out={tmp_path / 'out'}", f"--budget={budget}"]
        return fathom("compare", "--interleave", *arguments), *capsys.readouterr()

    return command


@pytest.fixture
def variant(tmp_path):
    """Returns a command that copies each of these results in turn to its ``--json`` file."""
    numbers = itertools.count()

    def command(*results, then="exit 1"):
        folder = tmp_path / f"variant{next(numbers)}"
        folder.mkdir()
        for i, each in enumerate(results):
            document = {"workload": "autoenc"} | each
            RunResult(**document).write(folder / f"{i}.json")
        files = f"{shlex.quote(str(folder))}/*.json"
        take = f'next=$(ls {files} | head -n 1); [ "$next" ] || {{ {then}; }}'
        return f'write() {{ {take}; mv "$next" "$2"; }}; write'

    return command


def steady(seconds, **changes):
    return [result(seconds * noise, **changes) for noise in (1, 1.001) * 5]


def test_a_difference_is_found_in_six_pairs_and_all_is_kept(compare, variant, tmp_path):
    code, shown, _ = compare(variant(*steady(0.1)), variant(*steady(0.095)))
    assert code == 0
    assert "B is faster: its steps take 5.0 % less time (95 %: " in shown
    assert "6 pairs" in shown
    assert "what differs: nothing that the results record" in shown
    runs = pd.read_csv(tmp_path / "out" / "runs.csv")
    assert "".join(runs.variant) == "ABBA" * 3
    assert runs.pair.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    for file, seconds in zip(runs.file, runs.median_s, strict=True):
        assert RunResult.read(tmp_path / "out" / file).steps.median == pytest.approx(seconds)


def test_progress_tells_the_ratio_so_far_and_what_is_left(compare, variant):
    noisy = [result(0.1 * noise) for noise in (1, 1.04) * 10]
    _, shown, _ = compare(variant(*steady(0.1)[:6]), variant(*noisy))
    lines = [line for line in shown.splitlines() if line.startswith("pair ")]
    assert lines[0].startswith("pair 1, A: 100.000 ms in 0.")
    assert re.search("; B/A 1.000; pairs left: at least 5, 0 min", lines[1])
    assert re.search(r"; B/A 1.0\d\d \(95 %: .* to .*\); pairs left: \d+, 0 min", lines[11])


def test_what_differs_and_evidence_of_disturbance_are_shown(compare, variant):
    alone = [result(0.2, cpu_seconds=2.0, threads=1)] * 6
    beside = [result(0.2, cpu_seconds=1.0, threads=1, precision="bfloat16")] * 6
    _, shown, _ = compare(variant(*alone), variant(*beside))
    differs = shown.partition("what differs")[2].partition("median step times")[0]
    assert differs.split() == ["A", "B", "precision", "float32", "bfloat16"]
    assert "no difference beyond 0.0 %" in shown
    cells = next(line for line in shown.splitlines() if line.startswith("    200 ")).split()
    assert cells[2:] == ["1", "1", "1", "6", *("1", "0"), *("0.501", "6")]


def test_a_spent_budget_ends_without_verdict_and_tells_what_one_takes(
    compare, variant, monkeypatch
):
    clock = itertools.count(step=1.0)  # each look at the clock takes a second
    monkeypatch.setattr(interleave.time, "monotonic", lambda: next(clock))
    noisy = [result(0.1 * noise) for noise in (0.9, 1.2) * 10]
    code, shown, _ = compare(variant(*steady(0.1)), variant(*noisy), budget=0.7)
    assert code == 0
    assert "the time budget is used up" in shown
    assert "no verdict: B's steps take from 10." in shown
    assert re.search("an interval 2 % wide takes about .* pairs: --budget ", shown)


def test_a_run_is_stopped_when_the_budget_is_spent(compare, variant):
    slow = variant(result(), then="exec sleep 600")
    code, shown, _ = compare(variant(*steady(0.1)), slow, budget=0.02)
    assert code == 0
    assert "pair 2, B: stopped, the time budget is used up" in shown
    assert "no verdict from 1 pair" in shown


def test_a_budget_too_small_for_one_pair_is_one_line(compare, variant, tmp_path):
    slow = variant(then="exec sleep 600")
    code, shown, error = compare(variant(result()), slow, budget=0.005)
    assert code == 2
    assert re.search("0.005 min is too small for one pair: A took .* s, B had not ended", error)
    assert error.count("\n") == 1
    assert f"results and logs: {tmp_path}/out" in shown
    assert (tmp_path / "out" / "001-A.json").exists()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo no such data; false", "B failed: exit code 1: no such data"),
        ("true", "B wrote no result: a variant ends with a run of Fathom"),
        ("write() { echo {} > $2; }; write", "is damaged"),
    ],
)
def test_a_variant_that_fails_at_once_is_one_line(compare, variant, tmp_path, command, reason):
    code, _, error = compare(variant(result()), command)
    assert code == 2
    assert reason in error
    assert error.count("\n") == 1
    assert (tmp_path / "out" / "001-A.json").exists()


def test_the_result_of_a_run_that_failed_before_is_not_taken_for_another(compare):
    assert "is damaged" in compare("write() { echo {} > $2; }; write", "true")[2]
    assert "A wrote no result" in compare("true", "true")[2]


def test_when_a_variant_fails_in_the_middle_the_pairs_before_are_shown(compare, variant):
    broken = variant(*steady(0.095)[:7], then="echo no such data; exit 1")
    noisy = [result(0.1 * noise) for noise in (1, 1.04) * 10]
    code, shown, error = compare(variant(*noisy), broken)
    assert code == 2
    assert error == "fathom: error: B failed: exit code 1: no such data\n"
    assert "B is faster" in shown
    assert "7 pairs" in shown


def test_an_interrupted_comparison_shows_the_pairs_before(compare, variant, monkeypatch):
    run_shell, created = interleave.run_shell, []

    def interrupted(*arguments):
        created.append(arguments)
        if len(created) == 6:
            raise KeyboardInterrupt
        return run_shell(*arguments)

    monkeypatch.setattr(interleave, "run_shell", interrupted)
    code, shown, error = compare(variant(*steady(0.1)), variant(*steady(0.095)))
    assert code == 130
    assert "interrupted" in error
    assert "2 pairs" in shown


@pytest.mark.parametrize("other", [{"workload": "vgg"}, {"mode": "infer"}])
def test_variants_of_two_workloads_or_modes_are_refused(compare, variant, other):
    code, _, error = compare(variant(result()), variant(result() | other))
    assert code == 2
    assert "compare variants of one workload and mode" in error


def test_a_run_without_steps_is_refused(compare, variant):
    none = result()
    none["steps"] = {"first": 0, "warmup": 0}
    _, _, error = compare(variant(none), variant(result()))
    assert "A measured no steps: give it more --steps" in error


def test_the_results_of_another_comparison_are_not_mixed_with_these(compare, variant):
    variants = variant(*steady(0.1), *steady(0.1)), variant(*steady(0.1), *steady(0.1))
    assert compare(*variants)[0] == 0
    code, _, error = compare(*variants)
    assert code == 2
    assert "has the runs of another comparison: give another --out" in error


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--interleave", "A", "B", "--width=0"], "--width must be more than 0"),
        (["--interleave", "A", "B", "--budget=0"], "--budget must be more than 0"),
        (["--interleave", "A", "B", "--budget=1e9"], "--budget must be at most 1000000"),
        (["--interleave", "A", "B", "C"], "--interleave takes two variants"),
        (["--interleave", "A", "B", "--out=/proc/nowhere"], "cannot make /proc/nowhere"),
        (["A", "B", "--width=5"], "--width is an option of --interleave"),
        (["A", "B", "--budget=5"], "--budget is an option of --interleave"),
    ],
)
def test_a_wrong_option_is_one_line(capsys, arguments, reason):
    assert reason in refusal(capsys, fathom("compare", *arguments))
