"""A trace has every operation of the step, after those that it depends on."""

import gzip
import json
import math

import pytest
from google.protobuf import proto

from fathom import FathomError, exports
from fathom.exports import ExportOptions, chakra
from fathom.testing.descriptors import descriptor


@pytest.fixture(scope="module")
def model():
    model = descriptor("seq2seq").model()
    model.build()
    return model


def nodes_of(file):
    kinds = chakra.messages()
    with file.open("rb") as stream:
        metadata = proto.parse_length_prefixed(kinds["GlobalMetadata"], stream)
        assert metadata.version == chakra.VERSION
        return list(iter(lambda: proto.parse_length_prefixed(kinds["Node"], stream), None))


def attribute(node, name):
    (found,) = (each for each in node.attr if each.name == name)
    return getattr(found, found.WhichOneof("value"))


@pytest.fixture(scope="module")
def nodes(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trace")
    exports.find("chakra").save(model, folder, ExportOptions())
    return nodes_of(folder / "trace.0.et")


def test_dependencies_are_complete_and_come_first(model, nodes):
    written = {}
    for node in nodes:
        before = {*node.data_deps, *node.ctrl_deps}
        assert before <= written.keys()
        produced = {name for other in node.data_deps for name in written[other]}
        assert set(json.loads(node.inputs.values)) <= produced
        written[node.id] = json.loads(node.outputs.values)
    assert len(written) == len(nodes)
    work = model.describe().operations
    assert sum(attribute(node, "num_ops") for node in nodes) == sum(o.total_flops for o in work)
    assert sum(attribute(node, "tensor_size") for node in nodes) == sum(
        o.traffic_bytes for o in work
    )


def test_durations_are_those_of_a_profile(model, nodes, tmp_path):
    name = next(node.name for node in nodes if node.name.endswith("/while"))
    events = [
        {"name": "While", "dur": 30.0, "args": {"op": name}},
        {"name": "While", "dur": 50.0, "args": {"op": name}},
        {"name": "Other", "dur": 80.0, "args": {"op": "unknown"}},
        {"name": "process_name", "args": {"name": "host"}},
    ]
    (tmp_path / "profile.json").write_text('{"step_seconds": [1, 1]}')
    with gzip.open(tmp_path / "trace.json.gz", "wt") as file:
        json.dump({"traceEvents": events}, file)
    options = ExportOptions(profile=tmp_path)
    (left_out,) = exports.find("chakra").save(model, tmp_path, options)
    assert left_out.startswith("50% of the profiled time")
    durations = {node.name: node.duration_micros for node in nodes_of(tmp_path / "trace.0.et")}
    assert durations.pop(name) == 40
    assert not any(durations.values())


def test_a_folder_without_a_profile_is_refused(model, tmp_path):
    with pytest.raises(FathomError, match="is no folder of fathom profile"):
        exports.find("chakra").save(model, tmp_path, ExportOptions(profile=tmp_path))


@pytest.mark.parametrize(
    ("profile", "trace"),
    [
        ("[" * 10**5, "{}"),
        ("[1]", "{}"),
        ('{"step_seconds": [1]}', "[" * 10**5),
        ('{"step_seconds": [1]}', '{"traceEvents": [1]}'),
        ('{"step_seconds": []}', '{"traceEvents": [{"dur": 1, "args": {"op": "a"}}]}'),
        ('{"step_seconds": [1]}', '{"traceEvents": [{"dur": "1", "args": {"op": "a"}}]}'),
    ],
)
def test_a_damaged_profile_is_refused(profile, trace, tmp_path):
    (tmp_path / "profile.json").write_text(profile)
    with gzip.open(tmp_path / "trace.json.gz", "wt") as file:
        file.write(trace)
    with pytest.raises(FathomError, match="is no folder of fathom profile"):
        chakra._times(tmp_path)


def test_workers_exchange_every_gradient(model, tmp_path):
    exports.find("chakra").save(model, tmp_path, ExportOptions(workers=2))
    assert (tmp_path / "trace.1.et").read_bytes() == (tmp_path / "trace.0.et").read_bytes()
    nodes = nodes_of(tmp_path / "trace.0.et")
    collectives = [node for node in nodes if node.type == 7]
    assert all(attribute(node, "is_cpu_op") == (node.type == 1) for node in nodes)  # metadata
    rows, summed = {}, {}
    for node in collectives:
        kind, _, name = node.name.partition("/")
        assert attribute(node, "comm_type") == (0 if kind == "all_reduce" else 2)
        (summed if kind == "all_reduce" else rows)[name] = attribute(node, "comm_size")
    variables = {each.path: 4 * math.prod(each.shape) for each in model.network.trainable_variables}
    assert summed == {name: size for name, size in variables.items() if name in summed}
    assert {name.rpartition("/")[0] for name in rows} == variables.keys() - summed.keys()
    embedding = "source_embedding/embedding/rows"
    (source, *_) = model.signature_of_length(None)
    assert rows[embedding] == 4 * math.prod(source.shape) * model.hyperparameters.units
    updates = {dep for node in nodes for dep in node.data_deps}
    assert {node.id for node in collectives} <= updates
    assert all(node.data_deps for node in collectives)


def test_what_cannot_be_distributed_has_no_collectives(tmp_path):
    for name, forward_only, reason in (
        ("deepq", False, "deepq cannot be distributed"),
        ("memnet", True, "collectives are of training"),
    ):
        other = descriptor(name).model(forward_only)
        other.build()
        with pytest.raises(FathomError, match=reason):
            exports.find("chakra").save(other, tmp_path, ExportOptions(workers=2))
