"""The description itself as a table, one line per operation."""

from fathom.exports.format import Exported, Format

FORMAT = Format(
    about="the description of the step as a table",
    export=lambda description: Exported(
        {"description.csv": description.frame().to_csv(index=False, lineterminator="\n")}
    ),
    has_densities=True,
)
