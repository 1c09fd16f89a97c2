"""Figures of step times and memory."""

import itertools
import statistics

import scipy.stats

from recount.records import batch, counted, geometric, grouped, published, step, welch


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
