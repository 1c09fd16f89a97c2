"""Writes what pip writes of a package with workloads, so that a test needs not install it."""

import re


def write_metadata(folder, package, entries):
    """Writes a package's name and its entry points, a class by workload, to a folder."""
    metadata = folder / f"{package.replace('-', '_')}-0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
    lines = [f"{name} = {value}\n" for name, value in entries.items()]
    (metadata / "entry_points.txt").write_text("[fathom.workloads]\n" + "".join(lines))


def entries_of(project):
    """Returns the classes by workload that a pyproject.toml registers."""
    section = project.read_text().partition('[project.entry-points."fathom.workloads"]\n')[2]
    return dict(re.findall(r'^(\w+) = "(.+)"$', section.partition("\n\n")[0], re.MULTILINE))
