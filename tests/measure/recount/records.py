"""The records of a folder as JSON has them, and the statistics of the figures."""

import csv
import itertools
import json
import math
import statistics
from collections import defaultdict
from pathlib import Path

import recounting_folder
import scipy.stats

from fathom.measure.report import report

PUBLISHED = Path(report.__file__).parent / "published"


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
