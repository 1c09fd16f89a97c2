"""Every notebook of ``examples/notebooks`` runs, and is kept without what it printed and drew."""

import re
from pathlib import Path

import nbclient
import nbformat
import pytest

from fathom import workloads

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def test_a_notebook_is_kept_without_outputs(notebook):
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


@pytest.mark.slow
def test_a_notebook_runs_and_draws_its_figures(notebook, tmp_path):
    for cell in notebook.cells:
        cell.source = re.sub(r"(\w+)\((.*)init_options={", _smaller, cell.source)
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert any(
        "image/png" in output.get("data", {})
        for cell in notebook.cells[-3:]
        for output in cell.get("outputs", [])
    )


def _smaller(model):
    """Gives a workload's small options before the notebook's own."""
    name, others = model.groups()
    small = str(dict(workloads.descriptor(name.lower()).small)).strip("{}")
    return f"{name}({others}init_options={{{small}, "
