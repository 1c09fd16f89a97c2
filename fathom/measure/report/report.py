"""``fathom report``: figures, tables and one page from the result files of a folder."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from fathom.errors import FathomError
from fathom.measure.report import figures, overview, page, picture, programs, selection
from fathom.measure.report.figure import Figure, Findings
from fathom.measure.runs.folder import Folder
from fathom.results.characterization import UNDISTURBED
from fathom.system.files import atomic_write, exists, read_file
from fathom.system.folders import claim_folder
from fathom.system.words import counted

PAGE, EXPORT = "report.html", "report.json"
_FOLDERS = ("figures", "tables")
_MEASURED = "What was measured"
_ABOUT = (
    ("machine", "machine and runs"),
    ("unmapped", "op types without a class"),
    ("missing", "not measured"),
)
_OF_A_PROCESS = (  # of the probing process
    *("command", "device", "gpu", "xla", "microbatches"),
    *("threads", "intra_op_threads", "inter_op_threads"),
)

Found = Mapping[Figure, Findings]


def run(directory: Path, out: Path, screen: Console) -> None:
    """Writes the report of a results directory and prints its findings.

    Raises:
        FathomError: the folder cannot be read, or the report cannot be written.
    """
    folder = Folder.read(directory)
    found = write(folder, claim_folder(out, "report"))
    for figure, findings in found.items():
        screen.print(f"{figure.id}: {findings.summary or 'nothing to show'}")
        for gap in findings.gaps:
            screen.print(f"  missing: {gap}")
    screen.print(f"written to {out}: {PAGE}, figures, tables")


def write(folder: Folder, out: Path) -> Found:
    """Writes the page, the figures as PNG, SVG and CSV, and the tables as CSV.

    Files of an earlier report are replaced, or removed if there is nothing to draw any more.

    Returns:
        the findings of each figure.

    Raises:
        FathomError: a file cannot be written.
    """
    found = {figure: figure.analyse(folder) for figure in figures.find_all()}
    types, runs = overview.heaviest(folder), folder.runs_frame()
    _clear(out)
    about = {
        "overview": overview.overview(folder, types),
        "machine": _machine(folder),
        "runs": _runs(folder),
        "failed": runs.loc[runs.status == "failed", ["run", "reason"]],
        "op_types_without_a_class": _without_class(folder),
    }
    for name, table in about.items():
        _write_csv(out / "tables" / f"{name}.csv", table)
    export = _export(found, about)
    _write(out / EXPORT, export)
    parts = [_part(figure, findings, out) for figure, findings in found.items()]
    first = [
        *map(page.paragraph, overview.machine(folder.machine)),
        overview.html(about["overview"], types),
        page.download(export, EXPORT, "Everything on this page as JSON"),
    ]
    html = page.page("Fathom: characterization", [*first, *_page(parts, found, about)])
    _write(out / PAGE, html.encode())
    return found


def _export(found: Found, about: Mapping[str, pd.DataFrame]) -> bytes:
    """Returns all words and numbers of the report as JSON."""
    document = {
        **{name: _rows(table) for name, table in about.items()},
        "figures": {
            figure.id: {
                **{name: getattr(figure, name) for name in ("title", "meaning", "paper")},
                "summary": findings.summary,
                "gaps": list(findings.gaps),
                "data": _rows(findings.data) if findings.data is not None else [],
                "tables": {name: _rows(table) for name, table in findings.tables.items()},
            }
            for figure, findings in found.items()
        },
    }
    return json.dumps(document, allow_nan=False).encode()


def _rows(table: pd.DataFrame) -> list[dict[str, object]]:
    """Returns the rows of a table as JSON has them: ``null`` for missing and infinite values."""
    missing = table.isna() | table.isin([np.inf, -np.inf])
    return table.astype(object).mask(missing, None).to_dict("records")


def _clear(out: Path) -> None:
    """Creates the report's folders, and removes files linked from an earlier report's page."""
    try:
        for name in _FOLDERS:
            (out / name).mkdir(parents=True, exist_ok=True)
        earlier = read_file(out / PAGE).decode(errors="replace") if exists(out / PAGE) else ""
        links = re.findall(rf'href="({"|".join(_FOLDERS)})/([\w -]+\.\w+)"', earlier)
        for folder, file in links:
            (out / folder / file).unlink(missing_ok=True)
    except OSError as error:
        raise FathomError(f"cannot write to {out}: {error.strerror}") from error


def _page(parts: list[str], found: Found, about: Mapping[str, pd.DataFrame]) -> list[str]:
    """Returns all below the first screen: figures by their questions, then what was measured."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for each in found:
        link = (each.id, f"{each.id} {each.title}")
        sections.setdefault(each.question, []).append(link)
    return [
        page.contents(sections | {_MEASURED: _ABOUT}),
        *_by_question(parts, found),
        page.heading("measured", _MEASURED, 2),
        page.heading("machine", "The machine, and what was run"),
        page.table(about["machine"], "machine"),
        page.table(about["runs"], "what was run"),
        page.paragraph(
            "Program: what XLA compiles of a timed step, and into how many microbatches its batch "
            "is divided. Profiles are op by op."
        ),
        page.paragraph(
            "Disturbed: runs whose steps, all threads together, had the processor for less than "
            "95 % of their time, because other processes took it. Measured again: disturbed runs "
            "that were repeated, and the repeat counts; the first is kept in disturbed/."
        ),
        page.heading("unmapped", "Op types without a class"),
        page.table(about["op_types_without_a_class"], "op types")
        if len(about["op_types_without_a_class"])
        else page.paragraph("Every op type that was seen has a class."),
        page.heading("missing", "What was not measured, and why"),
        *_missing(found, about["failed"]),
    ]


def _by_question(parts: list[str], found: Found) -> Iterator[str]:
    """Yields the parts of the figures, each question above its first."""
    question = ""
    for figure, part in zip(found, parts, strict=True):
        if figure.question != question:
            question = figure.question
            yield page.heading(f"question{figure.order // 10}", question, 2)
        yield part


def _part(figure: Figure, findings: Findings, out: Path) -> str:
    """Writes the files of a figure and returns its part of the page."""
    files, parts = [], [page.heading(figure.id, f"{figure.id}: {figure.title}")]
    parts += [page.paragraph(figure.meaning), page.paragraph(f"The papers: {figure.paper}")]
    parts += [page.paragraph(findings.summary, "finding")] if findings.summary else []
    parts += [page.paragraph(f"Missing: {gap}", "gap") for gap in findings.gaps]
    tables = {
        f"tables/{figure.stem}_{name}.csv": (name.replace("_", " "), table)
        for name, table in findings.tables.items()
    }
    if findings.plot is not None and findings.data is not None:
        described = f"{figure.title}. {findings.summary}"
        svg, html = picture.drawn(findings.plot, figure.stem, described)
        _write(out / "figures" / f"{figure.stem}.svg", svg)
        _write(out / "figures" / f"{figure.stem}.png", picture.rendered(findings.plot, "png"))
        files += [f"figures/{figure.stem}.{form}" for form in ("svg", "png")]
        parts.append(html)
        tables[f"figures/{figure.stem}.csv"] = "data of the figure", findings.data
    for file, (caption, table) in tables.items():
        _write_csv(out / file, table)
        parts.append(page.table(table, caption))
    files += tables
    return "\n".join([*parts, page.links(files)] if files else parts)


def _missing(found: Found, failed: pd.DataFrame) -> list[str]:
    gaps = [(gap, figure.id) for figure, findings in found.items() for gap in findings.gaps]
    table = pd.DataFrame(gaps, columns=["what", "analyses"])
    table = table.groupby("what", sort=False, as_index=False).analyses.agg(", ".join)
    parts = [page.table(table, "missing") if len(table) else page.paragraph("Nothing is missing.")]
    return parts + ([page.table(failed, "failed runs")] if len(failed) else [])


def _machine(folder: Folder) -> pd.DataFrame:
    about = folder.machine
    environment = about.environment.to_plain()
    machine = {name: value for name, value in environment.items() if name not in _OF_A_PROCESS}
    machine["memory"] = f"{machine.pop('memory_bytes') / 2**30:.1f} GiB"
    machine["gpu"] = sorted(folder.runs_frame().gpu.dropna().unique()) or "none used"
    products = about.gemm_flops_per_second, about.gemm_cpu_share, about.gemm_probes
    triads = about.triad_bytes_per_second, about.triad_cpu_share, dict[str, tuple[float, ...]]()
    for title, unit, (rates, shares, all_probes) in (
        ("large matrix product", "GFLOP/s", products),
        ("memory bandwidth (triad)", "GB/s", triads),
    ):
        for threads in sorted(rates, key=int):
            words = f"{rates[threads] / 1e9:.1f} {unit}"
            if len(probes := all_probes.get(threads, ())) > 1:
                words += f", measured: {', '.join(f'{each / 1e9:.1f}' for each in probes)}"
            if (share := shares.get(threads, 1.0)) < UNDISTURBED:
                words += f"; no ceiling: other processes left {share:.0%} of the processor"
            machine[f"{title} on {counted(int(threads), 'thread')}"] = words
    return pd.DataFrame({"": name, "value": _words(value)} for name, value in machine.items())


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "none" if value is None else str(value)


def _runs(folder: Folder) -> pd.DataFrame:
    """Returns one row per workload, mode and device."""
    runs = selection.in_order(folder.runs_frame())
    counted = {
        "timing runs": runs.kind == "timing",
        "profiles": runs.kind == "profile",
        "failed": runs.status == "failed",
        "disturbed": runs.disturbed.eq(True),
        "measured again": runs.first_cpu_share.notna(),
    }
    runs["batch size"] = runs.batch_size.where(runs.status == "done")
    runs[programs.PROGRAM] = programs.of(runs).where(runs.kind == "timing")
    groups = runs.assign(**counted).groupby(["workload", "mode", "device"], sort=False)
    values = groups[["precision", "batch size", "data"]].agg(_values)
    values = values.join(groups[programs.PROGRAM].agg(programs.joined))
    return groups[list(counted)].sum().join(values).reset_index()


def _values(column: pd.Series) -> str:
    """Returns the distinct values of a column as text."""
    return " ".join(map(str, sorted(column.dropna().unique())))


def _without_class(folder: Folder) -> pd.DataFrame:
    """Returns the op types without a class, with their largest share in any profile."""
    ops = folder.ops()
    seconds = ops[ops["class"] == ""].groupby(["type", "run"]).seconds.sum()
    shares = seconds.div(ops.groupby("run").seconds.sum(), level="run").dropna()
    shares = shares.sort_values(ascending=False).rename_axis(["op type", "in"])
    table = shares.reset_index(name="largest share").drop_duplicates("op type")
    return table[["op type", "largest share", "in"]]


def _write_csv(path: Path, table: pd.DataFrame) -> None:
    content = table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    _write(path, content.encode())


def _write(path: Path, content: bytes) -> None:
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)
