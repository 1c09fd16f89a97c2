"""A hook of MkDocs: adds the JSON Schemas of result files to the site."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from fathom.results.schemas import schemas


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the schemas to the folder ``schemas``."""
    for name, text in schemas().items():
        files.append(File.generated(config, f"schemas/{name}", content=text))
