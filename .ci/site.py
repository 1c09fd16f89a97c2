"""A hook of MkDocs: adds the workloads' pages to the menu, and the JSON Schemas to the site."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from fathom import workloads
from fathom.results.schemas import schemas


def on_config(config: MkDocsConfig) -> None:
    """Adds the page of each registered workload to the menu."""
    (section,) = (entry for entry in config.nav if "Workloads" in entry)
    section["Workloads"][:0] = [{name: f"workloads/{name}.md"} for name in workloads.names()]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the schemas to the folder ``schemas``."""
    for name, text in schemas().items():
        files.append(File.generated(config, f"schemas/{name}", content=text))
