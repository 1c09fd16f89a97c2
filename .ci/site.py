"""A hook of MkDocs: adds the workloads' pages to the menu, schemas and the atlas to the site."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from fathom import workloads
from fathom.measure.atlas.site import site
from fathom.results.atlas import Bundle
from fathom.results.schemas import schemas


def on_config(config: MkDocsConfig) -> None:
    """Adds the page of each registered workload to the menu."""
    (section,) = (entry for entry in config.nav if "Workloads" in entry)
    section["Workloads"][:0] = [{name: f"workloads/{name}.md"} for name in workloads.names()]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the schemas to the folder ``schemas``, and the atlas of the machines in ``machines``."""
    for name, text in schemas().items():
        files.append(File.generated(config, f"schemas/{name}", content=text))
    bundles = sorted((Path(config.docs_dir) / "machines").glob("*.json"))
    atlas = site([Bundle.read(path) for path in bundles])
    files.append(File.generated(config, "machines/atlas.html", content=atlas))
