"""Every notebook of ``examples/`` runs, and is kept without what it printed and drew."""

from pathlib import Path

import nbclient
import nbformat
import pytest

from fathom.testing.descriptors import small_options

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def test_a_notebook_is_kept_without_outputs(notebook):
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


@pytest.mark.slow
def test_a_notebook_runs_and_draws_its_figures(notebook, tmp_path):
    code = next(cell for cell in notebook.cells if "init_options={" in cell.source)
    small = str(dict(small_options("alexnet"))).strip("{}")
    code.source = code.source.replace("init_options={", f"init_options={{{small}, ")
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    drawn = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(drawn) == 2
