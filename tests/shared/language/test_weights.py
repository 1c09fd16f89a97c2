"""Published weights: folders of safetensors, loaded or refused in one line."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from fathom import workloads
from fathom.errors import FathomError
from fathom.shared.language import weights

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
    (folder / "config.json").write_text(json.dumps(model.published_settings()))
    return tensors


@pytest.mark.parametrize("workload", [pytest.param("gpt", marks=pytest.mark.slow), "llama"])
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


def test_a_scalar_is_refused_as_other_shapes(tmp_path):
    scalars = dict.fromkeys(saved(make("llama"), tmp_path), np.array(0, np.float32))
    save_file(scalars, tmp_path / "scalars.safetensors")
    refused(tmp_path, r"with shape \(\) cannot be .* choose the hyperparameters")


def refused(folder, message, workload="llama", **options):
    with pytest.raises(FathomError, match=message) as error:
        make(workload, weights=str(folder), **options)
    assert "\n" not in str(error.value)


def test_weights_of_another_network_are_refused(tmp_path):
    refused(tmp_path / "nowhere", r"nowhere has no weights: expected files \*\.safetensors")
    saved(make("llama"), tmp_path)
    refused(tmp_path, r"cannot be block1_feed_forward/kernel .*choose", hidden_units=13)
    refused(tmp_path, "has num_hidden_layers 1 where this network has 2", layers=2)
    refused(tmp_path, r"has model_type 'llama' where this network has 'gpt2'", "gpt")
    refused(tmp_path, "has num_attention_heads 2 where this network has 4", heads=4)
    refused(tmp_path, "has rope_theta 500000.0 where this network has 10000.0", rope_base=1e4)


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, "rope_theta 10000.0"),  # as Llama 2's
        ({"rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3"}}, "rope_type 'llama3'"),
        ({"rope_theta": 5e5, "rope_scaling": {"factor": 8.0}}, "rope_scaling {'factor': 8.0}"),
    ],
)
def test_the_configuration_is_read_in_its_old_and_its_new_form(settings, found, tmp_path):
    saved(make("llama"), tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(settings))
    refused(tmp_path, f"has {found} where this network has")


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        ("gpt", "tie_word_embeddings"),
        ("gpt", "scale_attn_weights"),
        ("mamba", "tie_word_embeddings"),
    ],
)
def test_what_a_network_always_has_must_be_so_in_the_configuration(workload, name, tmp_path):
    save_file({}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({name: False}))
    model = workloads.load(workload)("cpu")
    with pytest.raises(FathomError, match=f"has {name} False where this network has True"):
        weights.load(tmp_path, (), model.published_settings())


def test_configurations_of_mixtral_mean_another_base(tmp_path):
    save_file({}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "mixtral"}')
    one, other = (workloads.load("moe")("cpu", {"rope_base": base}) for base in (1e6, 1e4))
    weights.load(tmp_path, (), one.published_settings())
    with pytest.raises(FathomError, match=r"has rope_theta 1000000\.0"):
        weights.load(tmp_path, (), other.published_settings())


def test_a_damaged_folder_is_named(tmp_path):
    saved(make("llama"), tmp_path)
    tensors = tmp_path / "model-0.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-8])
    refused(tmp_path, "cannot be read")
    tensors.write_bytes(b"\xff" * 100)
    refused(tmp_path, "cannot be read")
    configuration = tmp_path / "config.json"
    for text in ("", "[]", "{", '{"rope_parameters": 3}'):
        configuration.write_text(text)
        refused(tmp_path, r"config\.json is no network's configuration")
    configuration.unlink()
    refused(tmp_path, r"cannot read .*config\.json")


@pytest.mark.parametrize("workload", OWN)
def test_weights_of_a_deeper_network_are_refused(workload, tmp_path):
    saved(make(workload, layers=2), tmp_path)
    refused(tmp_path, "layers? 2 where this network has 1", workload, layers=1)


def test_a_description_needs_no_weights(tmp_path):
    model = workloads.load("llama")("cpu", SMALL | {"weights": str(tmp_path / "nowhere")})
    assert model.describe().parameters
