"""``fathom report``: figures, tables and one page from the result files of a folder, alone."""

import argparse
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fathom.characterize.measure.folder import Folder
from fathom.characterize.profile import ops
from fathom.characterize.report import page, selection
from fathom.characterize.report.analyses.table import Table
from fathom.characterize.report.figures.style import style
from fathom.characterize.report.sections import Section, analyse
from fathom.characterize.report.texts import TEXTS
from fathom.errors import FathomError
from fathom.system.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "report.html"
_FOLDERS = ("figures", "tables")
_OF_A_PROCESS = ("command", "device", "threads", "xla", "gpu")  # of the one that looked around


def run(chosen: argparse.Namespace, screen: Console) -> None:
    """Runs ``fathom report`` as its command line says.

    Raises:
        FathomError: the folder cannot be read, or the report cannot be written.
    """
    out = chosen.out or chosen.directory / "report"
    sections = write(Folder.read(chosen.directory), out)
    for section in sections:
        screen.print(f"{section.id}: {section.summary or 'nothing to show'}")
        for gap in section.gaps:
            screen.print(f"  missing: {gap}")
    screen.print(f"written to {out}: {PAGE}, figures, tables")


def write(folder: Folder, out: Path) -> list[Section]:
    """Writes the page, the figures as PNG, SVG and CSV, and the tables as CSV.

    What an earlier report wrote there is replaced, also where nothing can be drawn any more.

    Returns:
        the sections that were written.

    Raises:
        FathomError: a file cannot be written.
    """
    sections = analyse(folder)
    _clear(out)
    about = {
        "machine": _machine(folder),
        "runs": _runs(folder),
        "failed": _failed(folder),
        "op_types_without_a_class": _unmapped(folder),
    }
    for name, table in about.items():
        _write(out / "tables" / f"{name}.csv", table.to_csv().encode())
    parts = [_section(section, out) for section in sections]
    html = page.page("Fathom: characterization", _page(parts, sections, about))
    _write(out / PAGE, html.encode())
    return sections


def _clear(out: Path) -> None:
    """Makes the report's folders, and removes from them what an earlier report's page links to."""
    try:
        for name in _FOLDERS:
            (out / name).mkdir(parents=True, exist_ok=True)
        earlier = (out / PAGE).read_text() if (out / PAGE).exists() else ""
        for folder, file in re.findall(rf'href="({"|".join(_FOLDERS)})/(\w+\.\w+)"', earlier):
            (out / folder / file).unlink(missing_ok=True)
    except OSError as error:
        raise FathomError(f"cannot write to {out}: {error.strerror}") from error


def _page(parts: list[str], sections: list[Section], about: dict[str, Table]) -> list[str]:
    anchors = [("machine", "machine"), *((s.id, f"{s.id} {TEXTS[s.id].title}") for s in sections)]
    anchors += [("unmapped", "op types without a class"), ("missing", "not measured")]
    return [
        page.contents(anchors),
        page.heading("machine", "The machine, and what was run"),
        page.table(about["machine"]),
        page.table(about["runs"], "runs"),
        *parts,
        page.heading("unmapped", "Op types without a class"),
        page.table(about["op_types_without_a_class"])
        if about["op_types_without_a_class"].rows
        else page.paragraph("Every op type that was seen has a class."),
        page.heading("missing", "What was not measured, and why"),
        *_missing(sections, about["failed"]),
    ]


def _section(section: Section, out: Path) -> str:
    """Writes the files of a section and returns its part of the page."""
    text, stem = TEXTS[section.id], _stem(section)
    files, parts = [], [page.heading(section.id, f"{section.id}: {text.title}")]
    parts += [page.paragraph(text.meaning), page.paragraph(f"The papers: {text.paper}")]
    parts += [page.paragraph(section.summary, "finding")] if section.summary else []
    parts += [page.paragraph(f"Missing: {gap}", "gap") for gap in section.gaps]
    if section.figure is not None:
        svg = _rendered(section.figure, "svg")
        _write(out / "figures" / f"{stem}.svg", svg)
        _write(out / "figures" / f"{stem}.png", _rendered(section.figure, "png"))
        _write(out / "figures" / f"{stem}.csv", section.data.to_csv().encode())
        files += [f"figures/{stem}.{suffix}" for suffix in ("svg", "png", "csv")]
        parts.append(page.picture(svg, text.title))
    for name, table in section.tables.items():
        _write(out / "tables" / f"{stem}_{name}.csv", table.to_csv().encode())
        files.append(f"tables/{stem}_{name}.csv")
        parts.append(page.table(table, name.replace("_", " ")))
    return "\n".join([*parts, page.links(files)] if files else parts)


def _missing(sections: Iterable[Section], failed: Table) -> list[str]:
    gaps: dict[str, list[str]] = {}
    for section in sections:
        for gap in section.gaps:
            gaps.setdefault(gap, []).append(section.id)
    rows = [{"what": gap, "analyses": ", ".join(ids)} for gap, ids in gaps.items()]
    parts = [page.table(Table.of(rows))] if rows else [page.paragraph("Nothing is missing.")]
    return parts + ([page.table(failed, "failed runs")] if failed.rows else [])


def _machine(folder: Folder) -> Table:
    environment = folder.machine.environment.to_plain()
    machine = {name: value for name, value in environment.items() if name not in _OF_A_PROCESS}
    machine["memory"] = f"{machine.pop('memory_bytes') / 2**30:.1f} GiB"
    gpus = {run.environment.gpu for run in folder.runs if run.environment} - {None}
    machine["gpu"] = sorted(gpus) or "none used"
    rates = folder.machine.gemm_flops_per_second
    for threads in sorted(rates, key=int):
        name = f"large matrix product on {threads} thread{'s' if threads != '1' else ''}"
        machine[name] = f"{rates[threads] / 1e9:.1f} GFLOP/s"
    return Table.of({"": name, "value": _words(value)} for name, value in machine.items())


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "none" if value is None else str(value)


def _runs(folder: Folder) -> Table:
    """Returns one row a workload, mode and device."""
    groups: dict[tuple, list] = {}
    for run in sorted(folder.runs, key=lambda run: selection.rank(run.workload)):
        groups.setdefault((run.workload, run.mode, run.device), []).append(run)
    rows = []
    for (workload, mode, device), runs in groups.items():
        results = [run.result for run in runs if run.result]
        data = {f"{each.data.name} ({each.data.kind})" for each in results}
        batch_sizes = {each.hyperparameters.batch_size for each in results}
        batch_sizes |= {run.profile.batch_size for run in runs if run.profile}
        rows.append(
            {
                "workload": workload,
                "mode": mode,
                "device": device,
                "timing runs": sum(run.kind == "timing" for run in runs),
                "profiles": sum(run.kind == "profile" for run in runs),
                "failed": sum(run.status == "failed" for run in runs),
                "precision": " ".join(sorted({run.precision for run in runs})),
                "batch size": " ".join(map(str, sorted(batch_sizes))),
                "data": " ".join(sorted(data)),
                "XLA": " ".join(sorted({r.environment.xla for r in results})),
            }
        )
    return Table.of(rows)


def _failed(folder: Folder) -> Table:
    return Table.of({"run": run.id, "reason": run.reason} for run in folder.failed)


def _unmapped(folder: Folder) -> Table:
    """Returns the op types that ``ops`` does not know, with their largest share in any profile."""
    share: dict[str, tuple[float, str]] = {}
    for run in folder.runs:
        for op in run.profile.ops if run.profile and run.profile.op_seconds else ():
            if not ops.op_class(ops.paper_type(op.type)):
                here = (float(op.seconds.sum() / run.profile.op_seconds), run.id)
                share[op.type] = max(share.get(op.type, here), here)
    return Table.of(
        {"op type": name, "largest share": most, "in": where}
        for name, (most, where) in sorted(share.items(), key=lambda item: -item[1][0])
    )


def _stem(section: Section) -> str:
    return section.id.lower().replace("-", "_")


def _rendered(figure: "Figure", form: str) -> bytes:
    content = io.BytesIO()
    metadata = {"Date": None} if form == "svg" else {}
    with style():
        figure.savefig(content, format=form, metadata=metadata, dpi=150)
    return content.getvalue()


def _write(path: Path, content: bytes) -> None:
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)
