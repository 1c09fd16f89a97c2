"""What a figure of the report is: an analysis of a folder, with its words and its drawing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from fathom.characterize.measure.folder import Folder

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True)
class Findings:
    """What an analysis found in a folder.

    Attributes:
        summary: in a sentence; ``""`` where nothing could be analysed.
        plot: None where there is nothing to draw.
        data: what the plot is drawn from.
        tables: other tables, by a name for their file.
        gaps: what is missing and why, a sentence each.
    """

    summary: str = ""
    plot: "matplotlib.figure.Figure | None" = None
    data: pd.DataFrame | None = None
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    gaps: Sequence[str] = ()


@dataclass(frozen=True)
class Figure:
    """One analysis as the report shows it: ``FIGURE`` of a module of the package ``figures``.

    Attributes:
        id: short name, as in ``F1``.
        order: its place in the report.
        title: what is shown.
        meaning: how it is defined.
        paper: where the papers have it, and what they found.
        analyse: computes and draws it for a folder.
    """

    id: str
    order: int
    title: str
    meaning: str
    paper: str
    analyse: Callable[[Folder], Findings]

    @property
    def stem(self) -> str:
        """The name of its module and of its files."""
        return self.id.lower().replace("-", "_")
