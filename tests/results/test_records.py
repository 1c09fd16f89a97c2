import copy
import json

import pytest

from fathom import FathomError, workloads
from fathom.results.characterization import Machine, Run
from fathom.results.quality import Quality
from fathom.results.records import Energy, FixedPointRecord, FixedTensor, Processor, RunResult

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


def refusal(kind, document, source="a.json"):
    with pytest.raises(FathomError) as error:
        kind.parse(json.dumps(document), source)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_result_of_a_run_is_read_as_it_was_written(document):
    assert RunResult.parse(json.dumps(document), "result.json").to_plain() == document


@pytest.mark.parametrize(
    ("section", "field", "value", "complaint"),
    [
        ("steps", "median", "soon", 'steps: its median is "soon", not what its steps give'),
        ("steps", "median", float("nan"), "steps: its median is NaN, not what its steps give"),
        ("steps", "median", True, "steps: its median is true, not what its steps give"),
        ("steps", "median", 1e9, "steps: its median is 1000000000.0, not what its steps give"),
        ("steps", "work_per_second", None, "steps: its work_per_second is null, not what its"),
        ("steps", "quantiles", {"5%": 1.0}, 'steps: its quantiles is {"5%": 1.0}, not what its'),
        ("steps", "seconds", [0, 0, 0, 0], "steps: its counted steps took no time or did no work"),
        ("steps", "input_wait", [float("nan")], "steps.input_wait[0] is NaN, not a number"),
        ("throughput", "flops_per_second", 1e200, "throughput.flops_per_second is 1e+200, not bel"),
        ("throughput", "flops_per_second", float("inf"), "throughput.flops_per_second is Infinity"),
        ("throughput", "flops_per_second", "1", 'throughput.flops_per_second is "1", not a number'),
        ("steps", "seconds", [0.1, True], "steps.seconds[1] is true, not a number"),
        ("steps", "loss", [1.0], "steps: its lists differ in length"),
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
    with pytest.raises(FathomError) as error:
        RunResult.read(path)
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith(f"{path} is damaged ({complaint}")
    assert message.endswith("): delete it and measure again")


def test_a_missing_field_is_named_with_where_the_document_stands(document):
    damaged = copy.deepcopy(document)
    del damaged["throughput"]["flops_per_second"]
    assert refusal(RunResult, damaged) == (
        "a.json is damaged (throughput.flops_per_second is missing): delete it and measure again"
    )


def test_a_file_of_another_schema_is_not_called_damaged(document):
    assert refusal(RunResult, document | {"schema": 2, "steps": None}) == (
        "a.json is of a newer schema (schema is 2, not 1): "
        "update Fathom, or use the version of Fathom that wrote it"
    )
    assert "schema is missing" in refusal(RunResult, {k: document[k] for k in [*document][1:]})


def test_fields_that_a_schema_does_not_know_are_allowed(document):
    RunResult.parse(json.dumps(document | {"new": [1]}), "result.json")


def test_a_file_from_before_cpu_time_was_recorded_is_read(document):
    assert document.pop("processor")["cpu_seconds"] > 0
    assert RunResult.parse(json.dumps(document), "a.json").processor.cpu_seconds is None


def test_lists_that_older_files_lack_are_filled_in(document):
    older = copy.deepcopy(document)
    for name in ("work", "first_of_shape", "quantiles", "spread"):
        del older["steps"][name]
    again = RunResult.parse(json.dumps(older), "result.json")
    assert again.steps.to_plain() == document["steps"]


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ({}, 0.5),
        ({"threads": 2}, 0.5),  # two threads had less than one of them alone would have
        ({"threads": 2, "cpu_seconds": 3.0}, 1.5),
        ({"gpu": "a GPU", "device": "/gpu:0"}, None),  # the CPU waits for it
        ({"seconds": 0.2}, None),  # together 0.8 s: too short
        ({"cpu_seconds": None}, None),  # of an older file
        ({"cpu_seconds": 1.92}, 0.96),
    ],
)
def test_cpu_time_is_evidence_on_a_cpu(document, changes, share):
    values = {"seconds": 0.5, "cpu_seconds": 1.0, "threads": 1} | changes
    result = RunResult.parse(json.dumps(document), "a.json")
    result.processor.wall_seconds = 4 * values.pop("seconds")
    result.processor.cpu_seconds = values.pop("cpu_seconds")
    result.environment = result.environment.model_copy(update=values)
    assert result.cpu_share == share
    assert result.disturbed == (share == 0.5)


def test_frequency_and_steal_time_are_recorded_or_the_reason_why_not():
    reported, unreported = Processor(), Processor()
    reported.add_system(2.0, 2.5, 2600.0)
    unreported.add_system(None, None, None)
    assert (reported.steal_seconds, reported.frequency_mhz, reported.unread) == (0.5, 2600, {})
    assert (unreported.steal_seconds, unreported.frequency_mhz) == (None, None)
    assert unreported.unread.keys() == {"steal_seconds", "frequency_mhz"}


@pytest.mark.parametrize("threads", ["0", "two", "-1", ""])
def test_rates_are_by_number_of_threads(threads):
    Machine.parse(json.dumps(MACHINE), "machine.json")
    damaged = MACHINE | {"gemm_flops_per_second": {"1": 1e11, threads: 1e11}}
    message = refusal(Machine, damaged)
    assert f'gemm_flops_per_second has a field "{threads}"' in message


def test_a_document_that_is_no_object_is_refused():
    assert "all of it is [], not an object" in refusal(Run, [])


def test_energy_is_a_mean_only_with_the_counter_of_the_device():
    known = Energy.of({"cpu": 6.0, "dram": 2.0}, {}, "cpu", steps=4, flops=16.0)
    assert (known.joules_per_step, known.flops_per_joule) == (2.0, 2.0)
    for joules, device, steps in (
        ({"cpu": 6.0}, "gpu", 4),
        ({}, "cpu", 4),
        ({"cpu": 6.0}, "cpu", 0),
    ):
        unknown = Energy.of(joules, {"cpu": "a reason"}, device, steps, 16.0)
        assert (unknown.joules_per_step, unknown.flops_per_joule) == (None, None)
        assert unknown.unread == {"cpu": "a reason"}


def test_tensors_without_any_number_to_round_do_not_thin_out_a_share():
    rows = [("kernel", 100, 0.5), ("bias", 300, None), ("scale", 100, 0.1)]
    record = FixedPointRecord(
        **{"bits": 8, "quantized": ["weights"], "rounding": "nearest", "overflow": "saturate"},
        tensors=[
            FixedTensor(
                **{"layer": "fc", "tensor": name, "kind": "weights", "fraction": 4},
                **{"values": values, "saturated": 0.0, "zeroed": zeroed},
            )
            for name, values, zeroed in rows
        ],
    )
    assert record.share("weights", "zeroed") == pytest.approx(0.3)
    assert record.share("weights", "saturated") == 0
    assert record.share("updates", "zeroed") is None


@pytest.mark.parametrize("values", [[], [80.0], [80.0, 80.0]])
def test_a_training_that_reached_its_target_has_a_point_on_both_sides(values):
    points = [{"epoch": i, "steps": i, "seconds": i, "value": v} for i, v in enumerate(values)]
    training = {"batch_size": 1, "learning_rate": None, "reached": True, "failure": ""}
    document = {"schema": 1, "trainings": [training | {"curve": points}]}
    document |= {"workload": "vgg", "metric": "accuracy", "target": 0.5, "higher_is_better": True}
    document |= {"most_epochs": 9, "seed": 0, "environment": ENVIRONMENT}
    assert "trainings[0]: its curve" in refusal(Quality, document)


def test_every_run_has_its_energy_or_the_reason(document):
    energy = document["energy"]
    assert energy["joules_per_step"] is not None or energy["unread"]["cpu"]
