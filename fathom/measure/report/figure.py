"""The interface of a report figure: an analysis of a folder, with text and drawing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from fathom.measure.report.style import Plot
from fathom.measure.runs.folder import Folder

QUESTIONS = (
    "Where does the time go?",
    "How steady is it?",
    "What limits it?",
    "What changes it?",
    "How alike are the workloads?",
    "What do whole runs take and reach?",
)


@dataclass(frozen=True)
class Findings:
    """The results of an analysis of a folder.

    Attributes:
        summary: one sentence; ``""`` if nothing could be analysed.
        plot: None if there is nothing to draw.
        data: of the plot.
        tables: other tables by file name.
        gaps: what is missing and why, one sentence each.
    """

    summary: str = ""
    plot: "Plot | None" = None
    data: pd.DataFrame | None = None
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    gaps: Sequence[str] = ()


@dataclass(frozen=True)
class Figure:
    """One analysis in the report: ``FIGURE`` of a module of the package ``figures``.

    Attributes:
        id: short name, as in ``F1``.
        order: its position in the report: the tens are those of its question in ``QUESTIONS``.
        title: of the figure.
        meaning: its definition.
        paper: the corresponding figure and findings of the papers.
        analyse: computes and draws it for a folder.
    """

    id: str
    order: int
    title: str
    meaning: str
    analyse: Callable[[Folder], Findings]
    paper: str = "no such figure; this analysis is our own."

    @property
    def question(self) -> str:
        """The question that it answers."""
        return QUESTIONS[min(self.order // 10, len(QUESTIONS) - 1)]

    @property
    def stem(self) -> str:
        """The name of its module and of its files."""
        return self.id.lower().replace("-", "_")
