"""Writes the JSON Schemas of result files: ``python -m fathom.results.schemas FOLDER``."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from fathom.results import (
    atlas,
    characterization,
    description,
    formats,
    machine,
    nearest,
    profile,
    quality,
    records,
    serving,
)
from fathom.results.base import Document

_DOCUMENTS: dict[str, type[Document]] = {
    "result": records.RunResult,
    "profile": profile.Profile,
    "description": description.Description,
    "formats": formats.Formats,
    "nearest": nearest.Nearest,
    "quality": quality.Quality,
    "serving": serving.ServingResult,
    "bundle": atlas.Bundle,
    "machine": characterization.Machine,
    "inspection": machine.Inspection,
    "run": characterization.Run,
}


def schemas() -> dict[str, str]:
    """Returns the JSON Schema of each kind of file, by the schema's file name."""
    return {f"{name}.json": _schema(name) for name in _DOCUMENTS}


def _schema(name: str) -> str:
    schema = _DOCUMENTS[name].model_json_schema(mode="serialization")
    return json.dumps({"$id": f"{name}.json", **schema}, indent=1) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes all schemas to the folder that the command line names."""
    parser = argparse.ArgumentParser(prog="fathom.results.schemas", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in schemas().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
