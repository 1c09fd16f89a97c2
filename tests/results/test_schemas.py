import functools
import json

import pytest
import synthetic_folder
from jsonschema import Draft202012Validator

from fathom.results.atlas import Bundle, Measured
from fathom.results.description import Description
from fathom.results.formats import FormatRun, Formats
from fathom.results.machine import Finding, Inspection
from fathom.results.nearest import Archetype, Nearest
from fathom.results.quality import Point, Quality, Training
from fathom.results.records import RunResult
from fathom.results.schemas import main, schemas
from fathom.results.serving import ServingResult, Trial

ENVIRONMENT = synthetic_folder.ENVIRONMENT
RESULT = synthetic_folder.result()
PROFILE = synthetic_folder.profile([synthetic_folder.op("MatMul", [0.1, 0.2])])
POINT = Point(epoch=1, steps=20, seconds=0.5, value=100.0)
TRAINING = Training(batch_size=8, learning_rate=0.1, reached=False, failure="", curve=[POINT])
FORMAT = FormatRun(
    **{"precision": "fixed16", "seed": 0, "metrics": {"error": 0.1}, "loss": None},
    **{"fixed_point": None, "errors": {"fc": 0.01}, "ended": "complete"},
)
OPERATION = {
    **{"name": "fc/MatMul", "type": "MatMul", "layer": "fc", "phase": "forward"},
    **{
        "kind": "matrix product",
        "dtype": "float32",
        "bounds": {"batch": 1, "M": 2, "N": 3, "K": 4},
    },
    **{"repeats": 1, "macs": 24, "flops": 0},
    **{"input_bytes": 32, "weight_bytes": 48, "output_bytes": 24},
}
TRIAL = Trial(
    **{"rate": 10.0, "valid": True, "reason": "", "queries": 9, "samples_per_second": 9.5},
    **{"latency": {"mean": 0.1}, "batches": {"1": 9}},
)
MEASURED = Measured(
    **{"workload": "vgg", "mode": "infer", "device": "/cpu:0", "precision": "float32"},
    **{"batch_size": 8, "threads": 2, "microbatches": 1, "xla": "off", "seed": 0},
    **{"data": "imagenet (synthetic)", "command": "python", "step_seconds": (0.1,)},
    **{"low": 0.09, "high": 0.11, "example": "image", "examples_per_second": 80.0},
    **{"flops_per_second": 1e9, "parameters": 12, "forward_macs_per_example": 24},
    **{"first_loss": None, "op_shares": {"Conv2D": 0.9}},
)
RECORDS = {
    "bundle": Bundle(
        environment=ENVIRONMENT,
        gemm_flops_per_second={"2": 1e11},
        triad_bytes_per_second={},
        rows=(MEASURED,),
    ),
    "result": RunResult(**RESULT),
    "profile": PROFILE,
    "machine": synthetic_folder.MACHINE,
    "run": synthetic_folder.run(profile=PROFILE),
    "inspection": Inspection(
        environment=ENVIRONMENT, findings=[Finding(name="processor", found="one")]
    ),
    "formats": Formats(
        **{"workload": "memnet", "mode": "infer", "steps": 0, "environment": ENVIRONMENT},
        **{"hyperparameters": RESULT["hyperparameters"], "runs": [FORMAT]},
    ),
    "quality": Quality(
        **{"workload": "autoenc", "metric": "negative_elbo", "target": 99.0, "seed": 0},
        **{"higher_is_better": False, "most_epochs": 2, "environment": ENVIRONMENT},
        trainings=[TRAINING],
    ),
    "nearest": Nearest(
        **{"network": "net", "mode": "infer", "batch_size": 1, "work": {"reductions": 1.0}},
        archetypes=(Archetype(workload="vgg", batch_size=2, distance=0.5, work={}),),
    ),
    "description": Description(
        **{"workload": "memnet", "mode": "train", "batch_size": 2, "inputs": {}},
        **{"precision": "float32", "parameters": 12, "operations": (OPERATION,)},
    ),
    "serving": ServingResult(
        **{"workload": "gpt", "scenario": "server", "largest_batch": 4, "different_samples": 8},
        **{"duration": 1.0, "latency_bound": 0.1, "seed": 0, "batch_seconds": {"1": 0.01}},
        **{"environment": ENVIRONMENT, "trials": [TRIAL], "result": TRIAL},
    ),
}


@functools.cache
def validator(name):
    return Draft202012Validator(json.loads(schemas()[f"{name}.json"]))


def is_valid(document, name):
    return validator(name).is_valid(document)


def test_the_command_writes_valid_json_schemas(tmp_path):
    main([str(tmp_path / "new")])
    written = {path.name: json.loads(path.read_text()) for path in (tmp_path / "new").iterdir()}
    assert written.keys() == {f"{name}.json" for name in RECORDS}
    for name, schema in written.items():
        Draft202012Validator.check_schema(schema)
        assert schema["$id"] == name


@pytest.mark.parametrize("name", RECORDS)
def test_a_file_is_valid_by_its_schema(name):
    document = json.loads(RECORDS[name].to_json())
    assert is_valid(document, name)
    for field in document:
        assert not is_valid({**document, field: object()}, name)
        assert not is_valid({key: document[key] for key in document if key != field}, name)
