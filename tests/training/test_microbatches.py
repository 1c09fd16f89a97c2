"""Steps whose batch is computed in parts at once; the conformance suite compares their losses."""

import pytest

from fathom import Autoenc, AutoencFwd, Residual
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


def test_a_gpu_computes_a_batch_at_once():
    model = on_two_threads()
    assert model.microbatches == 2
    model.device = "/gpu:0"
    assert model.microbatches == 1
