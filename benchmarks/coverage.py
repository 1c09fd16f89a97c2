"""How much of others' networks the workloads represent, and how few rank machines as they do.

    python benchmarks/any_network.py --out any-network
    python benchmarks/coverage.py any-network

Reads the descriptions that ``any_network.py`` wrote. Prints the share of the networks, of their
multiply-accumulates and of their bytes within some distances of the nearest workload, as
``fathom nearest`` tells it; the networks that are far; the classes of work that no workload does;
and the smallest set of workloads that ranks eight machines, by their rooflines in float32, as all
networks together do. ``--csv`` writes the distances of each network.
"""

import argparse
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from fathom.cli.nearest import archetypes
from fathom.cli.terminal import console
from fathom.hardware.accelerators import machine, roofline
from fathom.measure import nearest
from fathom.results.description import Description

DISTANCES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
FAR = 0.5
MACHINES = ("a100", "b200", "epyc-9654", "grace", "h100", "h200", "mi300x", "trainium2")
"""Those of today that have a rate in float32."""
AGREE = 0.9  # Kendall's tau
_DONE = 0.01  # share of its work from which an archetype does a class
_SHOWN = 0.002  # share of all networks' work
_DRAWS = 1000


def distances(
    corpus: Mapping[str, Description], suite: Mapping[str, Description]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns the nearest workload and the work of each network, and the shares of all."""
    found = [nearest.find(each, suite) for each in corpus.values()]
    rows = pd.DataFrame(
        {
            "network": name,
            "nearest": each.archetypes[0].workload,
            "distance": each.archetypes[0].distance,
            "second": each.archetypes[1].workload,
            "to second": each.archetypes[1].distance,
            "macs": corpus[name].macs,
            "bytes": corpus[name].traffic_bytes,
        }
        for name, each in zip(corpus, found, strict=True)
    )
    works = {each.workload: each.work for each in found[0].archetypes}
    return rows, nearest.table(works | {each.network: each.work for each in found})


def coverage(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the shares within each distance: of networks, of MACs and of bytes."""
    table = {}
    for limit in DISTANCES:
        near = rows[rows.distance <= limit]
        work = {name: near[name].sum() / rows[name].sum() for name in ("macs", "bytes")}
        table[limit] = {"networks": len(near) / len(rows)} | work
    return pd.DataFrame.from_dict(table, orient="index").rename_axis("distance").reset_index()


def not_done(shares: pd.DataFrame, suite: Sequence[str]) -> pd.DataFrame:
    """Returns the classes of work that no workload does, with their mean share of a network."""
    mine, others = shares.loc[list(suite)], shares.drop(index=list(suite))
    missing = others.loc[:, mine.max() < _DONE]
    table = pd.DataFrame({"share": missing.mean(), "networks": (missing >= _DONE).sum()})
    table = table[table.share >= _SHOWN].sort_values("share", ascending=False)
    return table.rename_axis("class of work").reset_index()


def seconds(descriptions: Mapping[str, Description]) -> pd.DataFrame:
    """Returns the least time of each step on each machine, [steps, machines]."""
    machines = [machine.load(name) for name in MACHINES]
    rows = {
        name: [roofline.table(each, where, "float32").seconds.sum() for where in machines]
        for name, each in descriptions.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(MACHINES))


def agreement(times: pd.DataFrame, others: pd.DataFrame) -> float:
    """Returns Kendall's tau of two rankings of the machines by geometric mean time."""
    return float(
        kendalltau(*(np.log(each).mean().to_numpy() for each in (times, others))).statistic
    )


def subsets(mine: pd.DataFrame, corpus: pd.DataFrame) -> pd.DataFrame:
    """Returns tau of every set of workloads, the smallest first, the best of a size first."""
    rows = [
        {"size": size, "tau": agreement(mine.loc[list(names)], corpus), "workloads": names}
        for size in range(1, len(mine) + 1)
        for names in itertools.combinations(mine.index, size)
    ]
    return pd.DataFrame(rows).sort_values(["size", "tau"], ascending=[True, False])


def show(rows: pd.DataFrame, formats: Mapping[str, str]) -> None:
    """Prints a table in Markdown."""
    print("| " + " | ".join(formats) + " |\n" + "|---" * len(formats) + "|")
    for row in rows.to_dict("records"):
        print("| " + " | ".join(form.format(row[name]) for name, form in formats.items()) + " |")
    print()


def ranking(suite: Mapping[str, Description], corpus: Mapping[str, Description]) -> int:
    """Prints how sets of workloads rank the machines; returns 1 if no set agrees."""
    mine, others = seconds(suite), seconds(corpus)
    means = {"networks": np.exp(np.log(others).mean()), "workloads": np.exp(np.log(mine).mean())}
    speeds = pd.DataFrame({name: each.max() / each for name, each in means.items()})
    speeds = speeds.sort_values("networks", ascending=False).rename_axis("machine").reset_index()
    show(speeds, {"machine": "{}", "networks": "{:.2f}", "workloads": "{:.2f}"})
    alone = np.array([agreement(others.loc[[name]], others) for name in others.index])
    print(
        f"a network alone, tau: {alone.min():.2f} to {alone.max():.2f}, "
        f"{(alone >= AGREE).mean():.0%} at least {AGREE}\n"
    )
    found = subsets(mine, others)
    sizes = found.groupby("size").tau
    table = pd.DataFrame({"least": sizes.min(), "median": sizes.median(), "most": sizes.max()})
    table["agree"] = sizes.apply(lambda each: (each >= AGREE).mean())
    numbers = dict.fromkeys(("least", "median", "most"), "{:.2f}")
    show(table.reset_index(), {"size": "{:.0f}", **numbers, "agree": "{:.0%}"})
    for limit in (AGREE, 1.0):
        agreeing = found[found.tau >= limit - 1e-9]
        names = agreeing[agreeing["size"] == agreeing["size"].min()].workloads
        drawn = [_drawn(mine.loc[list(each)], others) for each in names]
        smallest = "; ".join(
            f"{' + '.join(each)} ({share:.0%})" for each, share in zip(names, drawn, strict=True)
        )
        print(f"smallest sets of a tau of {limit}: {smallest}")
    print(
        f"in brackets: of {_DRAWS} draws of as many networks with replacement, those for which "
        f"the tau is at least {AGREE}"
    )
    return int(not (found.tau >= AGREE).any())


def _drawn(chosen: pd.DataFrame, others: pd.DataFrame) -> float:
    """Returns how often workloads rank as networks do that are drawn with replacement."""
    generator = np.random.default_rng(0)
    drawn = (generator.integers(0, len(others), len(others)) for _ in range(_DRAWS))
    return float(np.mean([agreement(chosen, others.iloc[each]) >= AGREE for each in drawn]))


def main() -> int:
    """Prints all tables; ends with exit code 1 if no set of workloads ranks as all networks do."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="that any_network.py wrote")
    parser.add_argument("--csv", type=Path, help="write the distances of each network")
    args = parser.parse_args()
    files = sorted((args.folder / "descriptions").glob("*.json"))
    corpus = {each.workload: each for each in map(Description.read, files)}
    suite = archetypes("infer", console(stderr=True))
    rows, shares = distances(corpus, suite)
    work = f"{rows.macs.sum() / 1e9:,.1f} GMACs, {rows.bytes.sum() / 1e9:,.1f} GB"
    print(f"{len(corpus)} networks, {work}")
    apart = nearest.spacing(shares.loc[list(suite)].to_dict("index")).median()
    print(f"the median workload has another one within {apart:.2f}\n")
    show(
        coverage(rows),
        {"distance": "{:.2f}", **dict.fromkeys(("networks", "macs", "bytes"), "{:.0%}")},
    )
    counts = rows[rows.distance <= FAR].nearest.value_counts()
    print(f"nearest within {FAR}: {', '.join(f'{name} {n}' for name, n in counts.items())}\n")
    far = rows[rows.distance > FAR].sort_values("distance", ascending=False)
    show(far, {"network": "{}", "nearest": "{}", "distance": "{:.2f}"})
    show(
        not_done(shares, list(suite)), {"class of work": "{}", "share": "{:.1%}", "networks": "{}"}
    )
    if args.csv:
        rows.to_csv(args.csv, index=False)
    return ranking(suite, corpus)


if __name__ == "__main__":
    sys.exit(main())
