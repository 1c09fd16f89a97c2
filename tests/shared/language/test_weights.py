"""Published weights: folders of safetensors, loaded whole or refused in one line."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from fathom import workloads
from fathom.errors import FathomError

SMALL = {"layers": 1, "heads": 2, "width": 8, "context": 8, "batch_size": 2, "xla": False}
OWN = {"gpt": {}, "llama": {"kv_heads": 1, "hidden_units": 12}}


def make(workload, **options):
    model = workloads.load(workload)("cpu", {**SMALL, **OWN[workload], **options})
    model.setup()
    return model


def saved(model, folder):
    """Writes a model's weights as they are published, each file with some of them."""
    tensors, prefix = {}, "transformer." if model.name == "gpt" else ""
    for each in model.published():
        value, columns = each.variable.numpy(), len(each.names)
        # Queries, keys and values differ in size: 8, 4 and 4 columns here.
        cuts = [8, 12] if columns == 3 else columns
        for name, part in zip(each.names, np.split(value, cuts, -1), strict=True):
            whole = np.ascontiguousarray(part.T if each.transposed else part)
            tensors[prefix + name] = whole
    names = sorted(tensors)
    for i, some in enumerate((names[::2], names[1::2])):
        save_file({name: tensors[name] for name in some}, folder / f"model-{i}.safetensors")
    return tensors


@pytest.mark.parametrize("workload", OWN)
def test_a_network_starts_from_published_weights(workload, tmp_path):
    model = make(workload, seed=1)
    saved(model, tmp_path)
    other = make(workload, seed=2, weights=str(tmp_path))
    assert len(model.network.variables) == len(model.published())
    for ours, theirs in zip(other.network.variables, model.network.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    forward = workloads.load(workload, forward_only=True)(
        "cpu", {**SMALL, **OWN[workload], "weights": str(tmp_path)}
    )
    forward.setup()
    tokens = next(model.training_batches(0))[0]
    np.testing.assert_array_equal(
        forward.decoder.logits(forward.decoder(tokens)[0]), model.network(tokens)
    )


def test_a_folder_without_weights_of_another_size_or_damaged_is_named(tmp_path):
    with pytest.raises(FathomError, match=r"has no weights: expected files \*\.safetensors"):
        make("llama", weights=str(tmp_path))
    saved(make("llama"), tmp_path)
    with pytest.raises(FathomError, match=r"cannot be block1_feed_forward/kernel .*choose"):
        make("llama", weights=str(tmp_path), hidden_units=13)
    with pytest.raises(FathomError, match=r"has no tensor wte\.weight"):
        make("gpt", weights=str(tmp_path), vocabulary=27)
    (tmp_path / "model-0.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(FathomError, match="cannot be read") as error:
        make("llama", weights=str(tmp_path))
    assert "\n" not in str(error.value)
