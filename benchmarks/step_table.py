"""The tables of step_time.py: for a person at the terminal, and in Markdown for documents."""

from collections.abc import Iterator
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

SWITCHES = ("TF_ENABLE_ONEDNN_OPTS", "ONEDNN_MAX_CPU_ISA")
Record = dict[str, Any]


def best_peer(record: Record) -> str | None:
    """Returns the name of the fastest peer, by the clock; None without any."""
    peers = record["peers"]
    return min(peers, key=lambda name: peers[name]["over_fathom"], default=None)


def others(record: Record) -> str:
    """Returns the other peers with their ratios, the fastest first."""
    best, peers = best_peer(record), record["peers"]
    ratios = {name: peer["over_fathom"] for name, peer in peers.items() if name != best}
    return ", ".join(f"{name} {ratios[name]:.2f}" for name in sorted(ratios, key=ratios.get))


def table(records: list[Record]) -> Table:
    """Returns the table that a person reads."""
    view = Table(box=SIMPLE, padding=(0, 1, 0, 0), caption="README.md explains the columns")
    for name in ("workload", "mode"):
        view.add_column(name, no_wrap=True)
    numbers = ["batch", "threads", "precision", "step ms", "IQR", "processor\nms", "outside\nops"]
    numbers += ["GFLOP/s", "of GEMM\npeak", "input\nexamples/s"]
    for name in numbers:
        view.add_column(name, justify="right", no_wrap=True)
    if any(record["peers"] for record in records):
        view.add_column("best peer", no_wrap=True)
        for name in ("peer/\nFathom", "by\nprocessor"):
            view.add_column(name, justify="right", no_wrap=True)
        view.add_column("others")
    for record in records:
        view.add_row(*_figures(record), *_comparison(record))
    return view


def _figures(r: Record) -> list[str]:
    setting, outside = r["setting"], r["time_outside_ops"]
    return [
        *(setting["workload"], setting["mode"], str(r["batch_size"])),
        *(str(setting["threads"]), setting["precision"]),
        f"{1e3 * r['median_seconds']:,.2f}",
        f"{r['iqr_seconds'] / r['median_seconds']:.1%}",
        f"{1e3 * r['median_processor_seconds']:,.2f}",
        "XLA" if outside is None else f"{outside:.1%}",
        f"{r['flops_per_second'] / 1e9:,.1f}",
        f"{r['fraction']:.2f}",
        f"{r['input_examples_per_second']:,.0f}",
    ]


def _comparison(record: Record) -> list[str]:
    name = best_peer(record)
    if name is None:
        return []
    peer = record["peers"][name]
    ratios = peer["over_fathom"], peer["over_fathom_of_processor"]
    return [name, *(f"{ratio:.2f}" for ratio in ratios), others(record)]


def markdown(records: list[Record]) -> str:
    """Returns a table in Markdown for each processor, or imitation of one, of the records."""
    machines: dict[str, list[Record]] = {}
    for record in records:
        machines.setdefault(_machine(record), []).append(record)
    return "\n".join(
        f"{machine}; {_libraries(rows)}.\n\n{_rows(rows)}" for machine, rows in machines.items()
    )


def _machine(record: Record) -> str:
    """Returns the processor, its instruction sets and the switches that limit them."""
    environment, isa = record["environment"], record["setting"]["isa"]
    switches = environment["switches"]
    words = [
        f"{name}={switches[name]}" if name in switches else f"{name} not set" for name in SWITCHES
    ]
    limited = [f"all libraries limited by `--isa {isa}`"] if isa else []
    sets = " ".join(environment["cpu_flags"])
    generation = environment.get("cpu_generation")
    name = environment["cpu_model"] + (f" ({generation})" if generation else "")
    return "; ".join([f"{name} with {sets}", ", ".join(words), *limited])


def _libraries(records: list[Record]) -> str:
    """Returns names and versions of the libraries that were compared."""
    peers = (peer for record in records for peer in record["peers"].values())
    names = {f"TensorFlow {record['environment']['tensorflow']}": None for record in records}
    return ", ".join({**names, **{peer["library"]: None for peer in peers}})


def _rows(records: list[Record]) -> str:
    head = ["workload (batch)", "mode", "threads", "Fathom ms", "of GEMM's rate"]
    head += ["best peer", "its time / Fathom's", "others' / Fathom's"]
    lines = [head, ["---"] * len(head), *map(_row, records)]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return table + "".join(f"\n{note}\n" for note in dict.fromkeys(_left_out(records)))


def _row(r: Record) -> list[str]:
    setting, name = r["setting"], best_peer(r)
    words = [f"{setting['workload']} ({r['batch_size']})"]
    if setting["hyperparameters"]:
        words.append(f"`--set {' '.join(setting['hyperparameters'])}`")
    if setting["precision"] != "float32":
        words.append(setting["precision"])
    milliseconds = 1e3 * r["median_seconds"]
    digits = 0 if milliseconds >= 100 else 2 if milliseconds >= 1 else 4
    return [
        ", ".join(words),
        {"train": "training", "infer": "inference"}[setting["mode"]],
        str(setting["threads"]),
        f"{milliseconds:,.{digits}f}",
        f"{r['fraction']:.2f}",
        name or "",
        f"{r['peers'][name]['over_fathom']:.2f}" if name else "",
        others(r),
    ]


def _left_out(records: list[Record]) -> Iterator[str]:
    """Yields why peers are left out."""
    for record in records:
        for name, reason in record["left_out"].items():
            yield f"{record['setting']['workload']} without {name}: {reason}."
