from pathlib import Path

import pytest

from fathom.results import document
from fathom.results.characterization import Machine, Run
from fathom.results.generation import Generation
from fathom.results.profile import GpuTime, Layer, LayerCosts, OpTime, Profile
from fathom.results.records import (
    Cost,
    Data,
    Environment,
    Memory,
    Metrics,
    RunResult,
    Sections,
    Throughput,
    UsedHyperparameters,
)
from fathom.results.steps import Steps

DOCS = Path(__file__).parents[2] / "docs"
OF_A_RESULT = (
    *(RunResult, Data, UsedHyperparameters, Environment, Sections, Steps, Throughput, Cost),
    *(Memory, Metrics, Generation),
)
OF_A_CHARACTERIZATION = (Machine, Run)
OF_A_PROFILE = (Profile, OpTime, GpuTime, Layer)


def test_tables_of_the_documentation_are_those_of_the_records():
    differing = [
        path.name for path, text in document.pages(DOCS).items() if path.read_text() != text
    ]
    assert not differing, "run python -m fathom.results.document"


@pytest.mark.parametrize(
    "record", [*OF_A_RESULT, *OF_A_CHARACTERIZATION, *OF_A_PROFILE, LayerCosts]
)
def test_every_field_says_what_it_holds(record):
    fields = record.model_fields | record.model_computed_fields
    assert not [name for name, field in fields.items() if not field.description]


@pytest.mark.parametrize(
    ("page", "kinds"),
    [
        ("results.md", OF_A_RESULT),
        ("characterization.md", OF_A_CHARACTERIZATION),
        ("profiling.md", OF_A_PROFILE),
    ],
)
def test_every_record_has_its_table(page, kinds):
    text = (DOCS / page).read_text()
    assert not [
        kind for kind in kinds if f"<!-- fields of {kind.__name__} -->\n\n| key" not in text
    ]
