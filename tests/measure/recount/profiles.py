"""Figures of profiles."""

import itertools
import math
import statistics
from collections import defaultdict

import recounting_folder

from recount.records import (
    cosine,
    grouped,
    mean_shares,
    over_tests,
    paper_type,
    published,
    shares,
    slope,
    student,
    welch,
)


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
