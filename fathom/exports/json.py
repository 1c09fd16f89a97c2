"""The description itself as JSON; ``python -m fathom.results.schemas`` writes its schema."""

from fathom.exports.format import Exported, Format

FORMAT = Format(
    about="the description of the step, as fathom describe --json writes it",
    export=lambda description: Exported({"description.json": description.to_json()}),
    has_densities=True,
)
