"""Recounts the figures of a report from its folder, by code that shares nothing with Fathom's."""

import csv
import itertools
import json
import math
import statistics
from collections import defaultdict
from pathlib import Path

import pytest
import recounting_folder
import scipy.stats

from fathom.measure import Folder
from fathom.measure.report import picture, report

PUBLISHED = Path(report.__file__).parent / "published"


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """Where a folder with a report, but no pictures, is."""
    path = recounting_folder.write(tmp_path_factory.mktemp("recounted"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picture, "drawn", lambda plot, name, title: (b"<svg/>", "<svg></svg>"))
        patch.setattr(picture, "rendered", lambda plot, form: b"")
        report.write(Folder.read(path), path / "report")
    return path


class Records:
    """The files of a folder as JSON has them."""

    def __init__(self, path):
        runs = [json.loads(each.read_text()) for each in sorted((path / "runs").glob("*.json"))]
        self.machine = json.loads((path / "machine.json").read_text())
        self.formats = [json.loads(p.read_text()) for p in sorted((path / "formats").glob("*"))]
        self.timings = [each for each in runs if each["kind"] == "timing"]
        self.profiles = [each for each in runs if each["kind"] == "profile"]

    def times(self, *sets, **where):
        """Groups the timings of these sets, or all, by workload."""
        chosen = [
            each
            for each in self.timings
            if (not sets or set(sets) & set(each["purpose"]))
            and all(each[name] == value for name, value in where.items())
        ]
        return grouped(chosen, lambda each: each["workload"])

    def traced(self, threads=1, device="/cpu:0"):
        """Groups the profiles on so many threads by workload."""
        chosen = [
            each["profile"] | {"run": each["id"]}
            for each in self.profiles
            if (each["threads"], each["device"]) == (threads, device)
        ]
        return grouped(chosen, lambda each: each["workload"])


def grouped(items, key):
    groups = defaultdict(list)
    for each in items:
        groups[key(each)].append(each)
    return groups


def counted(run):
    """The times of the counted steps of a timing, and their work."""
    steps = run["result"]["steps"]
    pairs = zip(steps["seconds"], steps["work"], steps["first_of_shape"], strict=True)
    return [(s, w) for s, w, first in list(pairs)[steps["warmup"] :] if not first]


def step(run, by_work=False):
    """The median step, or that of a batch of the stated cost."""
    if by_work:
        return 1 / statistics.median(work / seconds for seconds, work in counted(run))
    return statistics.median(seconds for seconds, _ in counted(run))


def batch(run):
    return run["result"]["hyperparameters"]["batch_size"]


def student(values):
    """The mean of one number a process, and its 95 % interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, None, None
    error = statistics.stdev(values) / len(values) ** 0.5
    half = scipy.stats.t.ppf(0.975, len(values) - 1) * error
    return mean, mean - half, mean + half


def geometric(values):
    return [x if x is None else math.exp(x) for x in student(list(map(math.log, values)))]


def welch(above, below):
    """The ratio of geometric means, and Welch's interval."""
    sides = [list(map(math.log, each)) for each in (above, below)]
    difference = statistics.fmean(sides[0]) - statistics.fmean(sides[1])
    if min(map(len, sides)) < 2:
        return math.exp(difference), None, None
    parts = [statistics.variance(each) / len(each) for each in sides]
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(each) - 1) for part, each in zip(parts, sides, strict=True)
    )
    half = scipy.stats.t.ppf(0.975, freedom) * sum(parts) ** 0.5
    return tuple(math.exp(difference + x) for x in (0, -half, half))


def over_tests(profile, key):
    """The seconds per step of a profile by a key of its ops."""
    seconds = defaultdict(float)
    for each in profile["ops"]:
        seconds[key(each)] += sum(each["seconds"]) / profile["steps"]
    return seconds


def paper_type(each):
    return recounting_folder.KERNELS[each["type"]]


def shares(profile, key=paper_type):
    seconds = over_tests(profile, key)
    return {name: each / sum(seconds.values()) for name, each in seconds.items()}


def mean_shares(profiles, key=paper_type):
    """The mean share of each value over the profiles, in decreasing order."""
    each = [shares(profile, key) for profile in profiles]
    means = {name: statistics.fmean(one[name] for one in each) for name in each[0]}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def cosine(a, b):
    length = math.prod(math.hypot(*each.values()) for each in (a, b))
    return 1 - sum(a[name] * b.get(name, 0) for name in a) / length


def published(name):
    with (PUBLISHED / name).open() as file:
        return list(csv.DictReader(file))


def slope(values, places=None):
    """The median of the slopes of all pairs, over the whole length and the median."""
    places = places or range(len(values))
    points = list(zip(places, values, strict=True))
    slopes = [(y - b) / (x - a) for (a, b), (x, y) in itertools.combinations(points, 2)]
    return statistics.median(slopes) * (places[-1] - places[0]) / statistics.median(values)


def runs(records):
    for run in records.timings:
        steps, result = run["result"]["steps"], run["result"]
        times = [seconds for seconds, _ in counted(run)]
        sizes = [2] + [1] * 9  # eleven calls in ten blocks
        ends = list(itertools.accumulate(sizes))
        blocks = sorted(
            statistics.median(times[end - size : end])
            for end, size in zip(ends, sizes, strict=True)
        )
        yield {
            **{name: run[name] for name in ("workload", "mode", "cores", "repeat")},
            "batch size": batch(run),
            "step (ms)": 1e3 * step(run),
            "from": 1e3 * blocks[1],  # of ten, 1 or less is below the median in 1 % of all cases
            "to": 1e3 * blocks[-2],
            "examples/s": result["throughput"]["examples_per_second"],
            "input wait (ms)": 1e3 * statistics.fmean(steps["input_wait"][steps["warmup"] :]),
            "peak memory (MiB)": result["memory"]["peak_resident_bytes"] / 2**20,
            "GFLOP/s": result["throughput"]["flops_per_second"] / 1e9,
        }


def runs_cases(records):
    equal = grouped(
        records.timings, lambda run: (run["workload"], run["mode"], run["cores"], batch(run))
    )
    for case, each in equal.items():
        middle, low, high = geometric([1e3 * step(run) for run in each])
        rates = [run["result"]["throughput"]["examples_per_second"] for run in each]
        yield dict(zip(("workload", "mode", "cores", "batch size"), case, strict=True)) | {
            "runs": len(each),
            "step (ms)": middle,
            "from": low,
            "to": high,
            "examples/s": statistics.fmean(rates),
        }


def followed(records):
    """The seconds of each step by workload, of the five heaviest op types, by type and profile."""
    for workload, profiles in records.traced().items():
        for name in list(mean_shares(profiles))[:5]:
            for profile in profiles:
                mine = [each["seconds"] for each in profile["ops"] if paper_type(each) == name]
                yield workload, name, profile["run"], list(map(sum, zip(*mine, strict=True)))


def f1(records):
    for workload, name, run, seconds in followed(records):
        for number, each in enumerate(seconds):
            known = {"workload": workload, "op type": name, "run": run}
            yield known | {"step": number, "time (s)": each}


def f1_op_types(records):
    for case, each in grouped(followed(records), lambda row: row[:2]).items():
        times = [row[3] for row in each]
        variation = student([statistics.stdev(t) / statistics.fmean(t) for t in times])
        drift = student([slope(t) for t in times])
        yield dict(zip(("workload", "op type"), case, strict=True)) | {
            "mean (s)": statistics.fmean(map(statistics.fmean, times)),
            **dict(zip(("variation", "from", "to"), variation, strict=True)),
            **dict(zip(("drift", "drift from", "drift to"), drift, strict=True)),
            "from": max(0, variation[1]),
        }


def f1_whole_run_op_types(records):
    for workload, profiles in records.traced().items():
        heaviest = list(mean_shares(profiles))[:5]
        for kernel in ("MatMul", "Mul"):
            if kernel not in heaviest:
                continue
            times, windows = [], defaultdict(list)  # of every profile: each has windows
            for profile in profiles:
                life = profile["life"]
                (mine,) = (each for each in life["ops"] if each["type"] == kernel)
                works = zip(mine["seconds"], life["work"], strict=True)
                over = [seconds / work for seconds, work in works]
                times += over
                for place in zip(life["windows"], life["numbers"], over, strict=True):
                    windows[place[0]].append(place[1:])
            middles = [list(map(statistics.median, zip(*w, strict=True))) for w in windows.values()]
            numbers, seconds = zip(*middles, strict=True)
            yield {
                "workload": workload,
                "op type": kernel,
                "steps": len(times),
                "windows": len(windows),
                "mean (s)": statistics.fmean(times),
                "variation": statistics.stdev(times) / statistics.fmean(times),
                "drift": slope(seconds, numbers),
            }


def f2(records):
    for workload, profiles in records.traced().items():
        each, names = [shares(profile) for profile in profiles], []
        for rank, (name, share) in enumerate(mean_shares(profiles).items(), 1):
            names.append(name)
            middle, low, high = student([sum(one[n] for n in names) for one in each])
            yield {
                "workload": workload,
                "rank": rank,
                "op type": name,
                "share": share,
                "cumulative share": middle,
                "from": low,
                "to": min(1, high),
            }


def f2_workloads(records):
    for workload, profiles in records.traced().items():
        sums = list(itertools.accumulate(mean_shares(profiles).values()))
        yield {
            "workload": workload,
            "op types": len(sums),
            "types to 90 %": 1 + sum(each < 0.9 - 1e-12 for each in sums),
            "types to 99 %": 1 + sum(each < 0.99 - 1e-12 for each in sums),
            "its share": sums[0],
        }


def f3(records):
    paper = {row["workload"]: row for row in published("fig3_op_type_percent.csv")}
    for workload, profiles in records.traced().items():
        percent = {name: 100 * share for name, share in mean_shares(profiles).items()}
        row = {"workload": workload, "": "measured", **percent, "cosine distance": None}
        theirs = {k: float(v) for k, v in paper.get(workload, {}).items() if k != "workload"}
        if theirs:
            row["cosine distance"] = cosine(percent, theirs)
            rest = 100 - sum(theirs.values())
            yield {"workload": workload, "": "paper", **theirs, "others": rest}
        yield row


def f4(records):
    clusters = {
        (workload,): mean_shares(profiles) for workload, profiles in records.traced().items()
    }
    rows = dict(clusters)
    number = 0
    while len(clusters) > 1:
        pairs = itertools.combinations(clusters, 2)
        distance, a, b = min((cosine(clusters[a], clusters[b]), a, b) for a, b in pairs)
        members = a + b
        clusters = {key: each for key, each in clusters.items() if key not in (a, b)}
        clusters[members] = {
            name: statistics.fmean(rows[(one,)][name] for one in members) for name in rows[(a[0],)]
        }
        number += 1
        order = [name for name in recounting_folder.WORKLOADS if name in members]
        yield {
            "merge": number,
            "cosine distance": distance,
            "workloads together": " ".join(order),
        }


def f5(records):
    for workload, each in records.times("modes", "repeats").items():
        by_work = len({work for run in each for _, work in counted(run)}) > 1
        seconds = {
            mode: [step(run, by_work) for run in each if run["mode"] == mode]
            for mode in ("train", "infer")
        }
        for mode, device in itertools.product(seconds, ("cpu", "gpu")):
            row = {"workload": workload, "mode": mode, "device": device}
            if device == "gpu":
                yield row | {"median step (s)": None}
                continue
            over = welch(seconds[mode], seconds["train"]) if mode == "infer" else (1, None, None)
            yield row | {
                "runs": len(seconds[mode]),
                "median step (s)": statistics.geometric_mean(seconds[mode]),
                **dict(zip(("over CPU training", "from", "to"), over, strict=True)),
            }


def by_threads(records):
    """The profiles on one and on two threads of each workload, and the types that F6 shows."""
    one, two = records.traced(1), records.traced(2)
    for workload in one:
        yield workload, (one[workload], two[workload]), list(mean_shares(one[workload]))[:7]


def f6(records):
    for workload, sides, names in by_threads(records):
        for threads, profiles in enumerate(sides, 1):
            for name in names:
                seconds = [over_tests(profile, paper_type)[name] for profile in profiles]
                times = student(seconds)
                yield {
                    "workload": workload,
                    "op type": name,
                    "threads": threads,
                    **dict(zip(("time per step (s)", "from", "to"), times, strict=True)),
                    "from": max(0, times[1]),
                    "share of time in ops": mean_shares(profiles)[name],
                }


def f6_changes(records):
    for workload, sides, names in by_threads(records):
        for name in names:
            few, many = ([over_tests(p, paper_type)[name] for p in each] for each in sides)
            share, then = (mean_shares(each)[name] for each in sides)
            yield {
                "workload": workload,
                "op type": name,
                **dict(zip(("times as fast", "from", "to"), welch(few, many), strict=True)),
                "share": share,
                "then": then,
                "change": then - share,
            }


def overhead(profile):
    """The median of the pairs' ratios and of their geometric means two at a time, less 1."""
    pairs = zip(profile["traced_step_seconds"], profile["unprofiled_step_seconds"], strict=True)
    logs = [math.log(with_it / without) for with_it, without in pairs]
    means = [(a + b) / 2 for a, b in itertools.combinations_with_replacement(logs, 2)]
    return math.exp(statistics.median(means)) - 1


def v_a(records):
    for workload, profiles in records.traced().items():
        outside = [sum(p["outside_seconds"]) / sum(p["step_seconds"]) for p in profiles]
        added = student(list(map(overhead, profiles)))
        names = ("profiler's overhead", "overhead from", "overhead to")
        yield {
            "workload": workload,
            **dict(zip(("share outside ops", "from", "to"), student(outside), strict=True)),
            **dict(zip(names, added, strict=True)),
        }


def m_sections(records):
    paper = published("minsky_table2_sections.csv")
    for workload, each in records.times("repeats").items():
        sections = [run["result"]["sections"] for run in each]
        wall = statistics.fmean(run["wall_s"] for run in each)

        def mean(*names, sections=sections, wall=wall):
            return statistics.fmean(sum(one[n] for n in names) for one in sections) / wall

        yield {
            "workload": workload,
            "": "measured",
            "init": mean("init", "load"),
            "setup": mean("setup"),
            "run": mean("run"),
            "main": mean("init", "load", "setup", "run", "evaluate"),
            "wall": 1,
            "wall (s)": wall,
            "runs": len(each),
        }
        for row in paper:
            if (row["workload"], row["device"]) == (workload, "cpu"):
                theirs = {name: float(row[name]) for name in ("init", "setup", "run", "main")}
                yield {"workload": workload, "": "paper", **theirs}


def m_eff(records):
    for workload, each in records.times("cores", "modes", "repeats", mode="train").items():
        by_cores = grouped(each, lambda run: run["cores"])
        one = list(map(step, by_cores[1]))
        for cores, equal in by_cores.items():
            seconds = list(map(step, equal))
            faster = welch(one, seconds) if cores > 1 else (1, None, None)
            over = [each if each is None else each / cores for each in faster]
            yield {
                "workload": workload,
                "cores": cores,
                "runs": len(equal),
                "median step (s)": statistics.geometric_mean(seconds),
                "speed-up": faster[0],
                **dict(zip(("efficiency", "from", "to"), over, strict=True)),
            }


def m_var(records):
    for workload, each in records.times("repeats").items():
        walls = [run["wall_s"] for run in each]
        for number, wall in enumerate(walls, 1):
            over = wall / statistics.fmean(walls)
            known = {"workload": workload, "run": number, "wall (s)": wall}
            yield known | {"over the CPU's mean": over}


def m_var_spread(records):
    for workload, each in records.times("repeats").items():
        walls = [run["wall_s"] for run in each]
        variation = statistics.stdev(walls) / statistics.fmean(walls)
        quantiles = scipy.stats.chi2.ppf([0.975, 0.025], len(walls) - 1)
        low, high = (variation * ((len(walls) - 1) / each) ** 0.5 for each in quantiles)
        yield {
            "workload": workload,
            "mean (s)": statistics.fmean(walls),
            "median (s)": statistics.median(walls),
            "variation": variation,
            "from": low,
            "to": high,
        }


def rates(records):
    """Examples a second of the sweep over batch sizes, by workload and size."""
    for workload, each in records.times("batches").items():
        by_work = len({work for run in each for _, work in counted(run)}) > 1
        yield workload, {batch(run): batch(run) / step(run, by_work) for run in each}, each


def m_batch(records):
    for workload, rate, each in rates(records):
        for run in each:
            size = batch(run)
            yield {
                "workload": workload,
                "batch size": size,
                "examples/s": rate[size],
                "step (ms)": 1e3 * size / rate[size],
                "peak memory (GiB)": run["result"]["memory"]["peak_resident_bytes"] / 2**30,
                "of the best": rate[size] / max(rate.values()),
            }


def m_batch_knees(records):
    for workload, rate, _ in rates(records):
        knee = min(size for size in rate if rate[size] >= 0.9 * max(rate.values()))
        yield {
            "workload": workload,
            "knee (batch size)": knee,
            "found": str(knee < max(rate)),
            "examples/s": rate[knee],
            "best examples/s": max(rate.values()),
            "largest batch size": max(rate),
        }


def m_gpu(records):
    for workload, (profile,) in records.traced(device="/gpu:0").items():
        gpu, whole = profile["gpu"], profile["gpu"]["process"]
        calls = sum(call["seconds"] for call in whole["calls"])
        by_device = shares(profile, lambda each: each["on"])
        yield {
            "workload": workload,
            "kernels / API calls": whole["kernel_seconds"] / calls,
            "copies / kernels": whole["memcpy_seconds"] / whole["kernel_seconds"],
            "kernels / API calls, profiled steps": gpu["kernel_seconds"] / gpu["api_seconds"],
            "copies / kernels, profiled steps": gpu["memcpy_seconds"] / gpu["kernel_seconds"],
            "share of op time on the CPU": by_device["cpu"],
        }


def roofline(records):
    peak = records.machine["gemm_flops_per_second"]["1"]
    bandwidth = records.machine["triad_bytes_per_second"]["1"]
    for workload, (profile, *_) in records.traced().items():
        seconds = over_tests(profile, lambda op: (paper_type(op), op["layer"], op["phase"]))
        work = statistics.fmean(profile["work"])
        for each in profile["op_work"]:
            time = seconds[each["type"], each["layer"], each["phase"]]
            if time < 0.01 * sum(seconds.values()):
                continue
            flops, moved = work * each["flops"], work * each["bytes"]
            attainable = max(flops / peak, moved / bandwidth)
            yield {
                **{name: each[name] for name in ("type", "layer", "phase")},
                "workload": workload,
                "seconds": time,
                "share": time / sum(seconds.values()),
                "flops": flops,
                "bytes": moved,
                "intensity": flops / moved,
                "rate": flops / time,
                "bound": "compute" if flops / peak >= moved / bandwidth else "memory",
                "attainable": attainable,
                "times": time / attainable,
            }


def memory(records):
    for workload, each in records.times("modes").items():
        for run in each:
            peak = run["result"]["memory"]["peak_resident_bytes"] / 2**20
            known = {"workload": workload, "mode": run["mode"], "batch size": batch(run)}
            yield known | {"peak of the process (MiB)": peak}


def memory_layers(records):
    for workload, (profile, *_) in records.traced().items():
        examples = profile["batch_size"] * statistics.fmean(profile["work"])
        for layer in profile["cost"]["layers"]:
            weights = 4 * layer["parameters"] / 2**20
            output = 4 * layer["activations"] * examples / 2**20
            yield {
                "workload": workload,
                "layer": layer["name"],
                "weights (MiB)": weights,
                "output (MiB)": output,
                "forward (MiB)": weights + output,
                "backward (MiB)": 2 * (weights + output),
                "optimizer (MiB)": 2 * weights,
            }


def cost(records):
    peak = records.machine["gemm_flops_per_second"]["4"]
    for workload, each in records.times("modes", "repeats").items():
        for mode, equal in grouped(each, lambda run: run["mode"]).items():
            all_rates = [run["result"]["throughput"]["flops_per_second"] for run in equal]
            middle, low, high = geometric(all_rates)
            yield {
                "workload": workload,
                "mode": mode,
                "achieved (FLOP/s)": middle,
                "achieved/peak": middle / peak,
                "from": low and low / peak,
                "to": high and high / peak,
            }


def formats(records):
    for result in records.formats:
        for run in result["runs"]:
            row = {"workload": result["workload"], "format": run["precision"], "loss": run["loss"]}
            row["value"] = run["metrics"]["error"]
            for kind in ("gradients", "updates") if run["fixed_point"] else ():
                mine = [each for each in run["fixed_point"]["tensors"] if each["kind"] == kind]
                values = sum(each["values"] for each in mine)
                for ours, theirs in (("saturated", "saturated"), ("to 0", "zeroed")):
                    total = sum(each["values"] * each[theirs] for each in mine)
                    row[f"{kind} {ours}"] = total / values
            yield row


def formats_errors(records):
    for result in records.formats:
        for run in result["runs"]:
            for layer, error in run["errors"].items():
                yield {"format": run["precision"], "layer": layer, "error": error}


RECOUNTED = {  # by file, the columns that identify a row
    "figures/runs.csv": (runs, "workload", "mode", "cores", "repeat", "batch size"),
    "tables/runs_cases.csv": (runs_cases, "workload", "mode", "cores", "batch size"),
    "figures/f1.csv": (f1, "workload", "op type", "run", "step"),
    "tables/f1_op_types.csv": (f1_op_types, "workload", "op type"),
    "tables/f1_whole_run_op_types.csv": (f1_whole_run_op_types, "workload", "op type"),
    "figures/f2.csv": (f2, "workload", "rank"),
    "tables/f2_workloads.csv": (f2_workloads, "workload"),
    "figures/f3.csv": (f3, "workload", ""),
    "figures/f4.csv": (f4, "merge"),
    "figures/f5.csv": (f5, "workload", "mode", "device"),
    "figures/f6.csv": (f6, "workload", "op type", "threads"),
    "tables/f6_changes.csv": (f6_changes, "workload", "op type"),
    "figures/v_a.csv": (v_a, "workload"),
    "figures/m_sections.csv": (m_sections, "workload", ""),
    "figures/m_eff.csv": (m_eff, "workload", "cores"),
    "figures/m_var.csv": (m_var, "workload", "run"),
    "tables/m_var_spread.csv": (m_var_spread, "workload"),
    "figures/m_batch.csv": (m_batch, "workload", "batch size"),
    "tables/m_batch_knees.csv": (m_batch_knees, "workload"),
    "figures/roofline.csv": (roofline, "workload", "type", "layer", "phase"),
    "figures/memory.csv": (memory, "workload", "mode"),
    "tables/memory_layers.csv": (memory_layers, "workload", "layer"),
    "figures/cost.csv": (cost, "workload", "mode"),
    "figures/formats.csv": (formats, "workload", "format"),
    "tables/formats_errors.csv": (formats_errors, "format", "layer"),
    "figures/m_gpu.csv": (m_gpu, "workload"),
}


def compare(path, file):
    """Compares a table of a report with its recount; returns the number of equal values."""
    recount, *key = RECOUNTED[file]
    with (path / "report" / file).open() as rows:
        written = {tuple(row[name] for name in key): row for row in csv.DictReader(rows)}
    expected = {tuple(str(row[name]) for name in key): row for row in recount(Records(path))}
    if file == "figures/m_gpu.csv":  # which also has the paper's, of workloads not measured
        written = {each: row for each, row in written.items() if each in expected}
    assert written.keys() == expected.keys()
    values = 0
    for each, row in expected.items():
        for name, value in row.items():
            text = written[each][name]
            if isinstance(value, str):
                assert text == value, (each, name)
            elif value is None:
                assert text == "", (each, name)
            else:
                known = pytest.approx(value, rel=1e-5, abs=1e-12)
                assert float(text) == known, (each, name)
            values += 1
    return values


@pytest.mark.parametrize("file", RECOUNTED)
def test_a_recount_gives_the_same_figures(measured, file):
    assert compare(measured, file) > 5
