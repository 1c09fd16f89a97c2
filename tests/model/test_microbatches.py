"""Steps whose batch is computed in parts at once; the conformance suite compares their losses."""

import numpy as np
import pytest
import tensorflow as tf

from fathom import Autoenc, AutoencFwd, DeepQ, FathomError, Residual, workloads
from fathom.model.microbatches import check
from fathom.modern.gcn.model import GCN
from fathom.system.device import GPU
from fathom.testing.descriptors import descriptor

SMALL = {"hidden_units": 8, "latents": 2, "steps_per_call": 1}


def on_two_threads(model_class=Autoenc, **options):
    """Returns a model as it is where two operations run at once."""
    model = model_class("/cpu:0", options)
    model.operations_at_once = 2
    return model


def test_a_result_says_in_how_many_parts_its_batches_were_computed():
    model = on_two_threads(batch_size=6, **SMALL)
    model.setup()
    assert model.run(n_steps=1).environment.microbatches == 2


@pytest.mark.slow
def test_batches_of_some_shapes_are_divided_and_those_of_others_are_not():
    model = descriptor("transformer").model(lengths="16 24", batch_size=2)
    model.operations_at_once = 2
    model.setup()
    assert [shape.pairs for shape in model.shapes] == [3, 2]
    shapes = set()
    model.run(lambda step, batch: shapes.add(len(batch[0])) or step(*batch), n_steps=30)
    assert shapes == {2, 3}


@pytest.mark.parametrize(
    ("model_class", "options"),
    [
        (AutoencFwd, {}),
        (Autoenc, {"batch_size": 7}),
        (Autoenc, {"xla": True}),
        (Autoenc, {"precision": "fixed16"}),
        (Residual, {}),
    ],
)
def test_other_steps_are_not_divided(model_class, options):
    assert on_two_threads(model_class, **options).microbatches == 1


def test_samples_between_divided_steps_are_compiled():
    grpo = workloads.load("grpo")
    created = [on_two_threads(grpo, microbatches=2, xla=xla) for xla in (None, False)]
    assert [(model.microbatches, model.xla, model.xla_beside_steps) for model in created] == [
        (2, "off", "step"),
        (2, "off", "off"),
    ]


@pytest.mark.slow
def test_evaluation_is_compiled_whether_or_not_steps_are_divided():
    found = []
    for options in ({"microbatches": 1}, {"microbatches": 2}, {"xla": False}):
        model = descriptor("gpt").ready(**options)
        found.append(model.evaluate()["loss"])
        model.teardown()
    assert found[0] == found[1] == pytest.approx(found[2], rel=1e-5)
    assert found[1] != found[2]  # by rounding


def outputs(workload, **options):
    """Returns what three steps of inference give, and the model."""
    found = []
    model = descriptor(workload).ready(True, batch_size=4, **options)
    model.run(lambda step, batch: found.append(step(*batch)), n_steps=3)
    return tf.nest.flatten(found), model


def products(model):
    return sum("MatMul" in operation.type for operation in model.model().get_operations())


@pytest.mark.parametrize(
    ("workload", "options"),
    [
        pytest.param("moe", {"phase": "decode", "temperature": 1.0}, marks=pytest.mark.slow),
        pytest.param("moe", {"temperature": 1.0}, marks=pytest.mark.slow),
        ("gpt", {"phase": "prefill", "temperature": 1.0, "xla": False}),
        pytest.param("llama", {"phase": "prefill"}, marks=pytest.mark.slow),
    ],
)
def test_inference_in_microbatches_returns_the_same(workload, options):
    """Random numbers are those of the whole batch, and XLA compiles each part where it does all."""
    whole, model = outputs(workload, microbatches=1, **options)
    divided, in_parts = outputs(workload, microbatches=2, **options)
    for a, b in zip(whole, divided, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert len(np.unique(whole[0])) > 1
    assert in_parts.machine().microbatches == 2
    assert in_parts.xla == model.xla
    functions = [each.type for each in in_parts.model().get_operations()]
    if model.xla == "step":
        assert functions.count("StatefulPartitionedCall") == 2
    elif options.get("phase") != "decode":  # whose products are in a loop
        assert products(in_parts) == 2 * products(model)


@pytest.mark.slow
def test_the_phases_of_generation_are_divided_where_both_run():
    _, model = outputs("moe", microbatches=2)
    state = model.phases.prefill(*next(model.inference_batches()))
    decode = model.phases.decode.get_concrete_function(*state).graph
    assert [each.type for each in decode.get_operations()].count("While") == 2


def test_a_draft_is_not_divided():
    moe = workloads.load("moe", forward_only=True)
    assert on_two_threads(moe).microbatches == 2
    assert on_two_threads(moe, draft_layers=1).microbatches == 1


@pytest.mark.parametrize(("size", "count"), [("characters", 2), ("gpt2", 1)])
def test_larger_sizes_are_not_divided_by_default(size, count):
    model = workloads.load("gpt")("cpu", {"size": size, "batch_size": 4})
    model.operations_at_once = 2
    assert model.microbatches == count


def test_a_gpu_computes_a_batch_at_once():
    model = on_two_threads()
    assert model.microbatches == 2
    model.device = GPU
    assert model.microbatches == 1
    divided = on_two_threads(microbatches=2)
    divided.device = GPU
    with pytest.raises(FathomError, match="a GPU computes a batch at once"):
        check(divided, [])


@pytest.mark.parametrize("model_class", [Autoenc, AutoencFwd, Residual])
@pytest.mark.parametrize("options", [{}, {"xla": True}, {"precision": "fixed16"}])
def test_a_batch_can_always_be_whole(model_class, options):
    assert on_two_threads(model_class, microbatches=1, **options).microbatches == 1


@pytest.mark.parametrize(("wanted", "count"), [("auto", 2), (1, 1), (3, 3), ("4", 4)])
def test_the_number_can_be_chosen_whatever_runs_at_once(wanted, count):
    assert on_two_threads(batch_size=12, microbatches=wanted).microbatches == count


def test_a_workload_that_is_not_divided_by_default_can_be():
    assert [on_two_threads(DeepQ, microbatches=n).microbatches for n in ("auto", 2)] == [1, 2]


def test_whole_batches_are_compiled_where_that_is_the_default():
    gpt = workloads.load("gpt")
    created = [on_two_threads(gpt, microbatches=n) for n in ("auto", 1, 2)]
    assert [(model.microbatches, model.xla) for model in created] == [
        (2, "off"),
        (1, "step"),
        (2, "off"),
    ]


@pytest.mark.parametrize(
    ("model_class", "options", "reason"),
    [
        (Autoenc, {"batch_size": 7}, "autoenc's batch of 7 cannot be divided into 2"),
        (Autoenc, {"xla": True}, "--xla would compute them in turn"),
        (Autoenc, {"precision": "fixed16"}, "fixed16 is simulated for whole batches"),
        (Autoenc, {"strategy": "mirrored", "replicas": 1}, "--strategy mirrored divides"),
        (AutoencFwd, {}, "autoenc cannot compute 2 microbatches: this inference computes whole"),
        (Residual, {}, "the statistics of whole batches"),
        (GCN, {}, "each would compute the whole graph"),
    ],
)
def test_what_cannot_be_divided_as_asked_is_refused_in_one_line(model_class, options, reason):
    with pytest.raises(FathomError, match=reason) as error:
        on_two_threads(model_class, microbatches=2, **options)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_batches_of_every_shape_must_be_divided_as_asked():
    model = descriptor("transformer").model(lengths="16 24", batch_size=2, microbatches=2)
    with pytest.raises(FathomError, match="transformer's batch of 3 cannot be divided into 2"):
        model.setup()
