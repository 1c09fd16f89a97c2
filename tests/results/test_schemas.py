import copy
import json

import pytest

from fathom import Autoenc, FathomError, workloads
from fathom.results import records, schemas

ENVIRONMENT = {
    "cpu_model": "a processor",
    "cores_available": 2,
    "memory_bytes": 2**30,
    "platform": "Linux",
    "tensorflow": "2.21.0",
    "gpu": None,
    "device": "/cpu:0",
    "threads": 2,
    "precision": "float32",
    "xla": "off",
}
MACHINE = {"schema": 1, "environment": ENVIRONMENT, "gemm_flops_per_second": {"1": 1e11}}
OPTIONS = {"batch_size": 5, "hidden_units": 5, "steps_per_call": 2}


@pytest.fixture(scope="module", params=[False, True], ids=["train", "infer"])
def document(request, tmp_path_factory):
    """The result of a real run, as it is written."""
    model = workloads.load("autoenc", request.param)("/cpu:0", OPTIONS)
    model.setup()
    path = tmp_path_factory.mktemp("run") / "result.json"
    model.run(n_steps=4).write(path)
    return json.loads(path.read_text())


def refusal(check, *arguments):
    with pytest.raises(FathomError) as error:
        check(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_result_of_a_run_is_what_its_schema_says(document):
    schemas.check_result(document, "result.json")


def test_the_result_of_no_steps_is_what_its_schema_says(tmp_path):
    model = Autoenc("/cpu:0", OPTIONS)
    model.setup()
    model.run(n_steps=0).write(tmp_path / "result.json")
    assert records.read(tmp_path / "result.json")["steps"]["median"] is None


@pytest.mark.parametrize(
    ("section", "field", "value", "complaint"),
    [
        ("steps", "median", "soon", 'steps.median is "soon", not a number or null'),
        ("steps", "median", float("nan"), "steps.median is NaN, not a number or null"),
        ("steps", "median", float("inf"), "steps.median is Infinity, not a number or null"),
        ("steps", "median", 0, "steps.median is 0, not above 0"),
        ("steps", "work_per_second", None, "steps.work_per_second is null, not a number"),
        ("steps", "seconds", [0.1, True], "steps.seconds[1] is true, not a number"),
        ("steps", "loss", [], "the lists of steps differ in length"),
        ("hyperparameters", "batch_size", 8.0, "hyperparameters.batch_size is 8.0, not a whole"),
        ("hyperparameters", "batch_size", 2**63, "hyperparameters.batch_size is 922337203685477"),
        ("hyperparameters", "batch_size", 0, "hyperparameters.batch_size is 0, not 1 or more"),
        ("environment", "device", "a\nb", r'environment.device is "a\nb", not of the form ^/'),
        ("environment", "xla", ["on"] * 99, 'environment.xla is ["on", "on", "on", "on", '),
        ("sections", "a b\n", "long", r'sections."a b\n" is "long", not a number'),
    ],
)
def test_a_wrong_field_is_named_in_one_line(tmp_path, document, section, field, value, complaint):
    damaged = copy.deepcopy(document)
    damaged[section][field] = value
    path = tmp_path / "result.json"
    path.write_text(json.dumps(damaged))
    message = refusal(records.read, path)
    assert message.startswith(f"{path} is damaged ({complaint}")
    assert message.endswith("): delete it and measure again")


def test_a_missing_field_is_named_with_where_the_document_stands(document):
    damaged = copy.deepcopy(document)
    del damaged["throughput"]["flops_per_second"]
    assert refusal(schemas.check_result, damaged, "a.json", "result") == (
        "a.json is damaged (result.throughput.flops_per_second is missing): "
        "delete it and measure again"
    )


def test_fields_that_a_schema_does_not_know_are_allowed(document):
    schemas.check_result(document | {"new": [1]}, "result.json")


@pytest.mark.parametrize("threads", ["0", "two", "-1", ""])
def test_rates_are_by_number_of_threads(threads):
    schemas.check(MACHINE, "machine", "machine.json")
    damaged = MACHINE | {"gemm_flops_per_second": {"1": 1e11, threads: 1e11}}
    message = refusal(schemas.check, damaged, "machine", "machine.json")
    assert f'gemm_flops_per_second has a field "{threads}"' in message


def test_a_document_that_is_no_object_is_refused():
    assert "all of it is [], not an object" in refusal(schemas.check, [], "run", "a.json")
