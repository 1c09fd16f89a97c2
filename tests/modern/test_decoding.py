"""Decoding token by token, with what is kept of the tokens before, against decoding without."""

import numpy as np
import pytest
import tensorflow as tf
from modern.formulas import perturbed

from fathom import workloads

SMALL = {"layers": 2, "width": 16, "context": 12, "batch_size": 3, "xla": False}
HEADS = {"heads": 4, "kv_heads": 2, "hidden_units": 24}
SIZES = {"gpt": {"heads": 2}, "llama": HEADS, "mamba": {}, "moe": {**HEADS, "experts": 4}}


def slow(name, **options):
    return pytest.param(name, options, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in ("gpt", "llama", "mamba")),
        slow("moe"),
        *(slow(name, prompt_tokens=1) for name in ("gpt", "llama", "mamba")),
        slow("moe", experts_per_token=1),
        *(slow(name, xla=True) for name in SIZES),
        *(slow(name, new_tokens=2) for name in ("gpt", "llama", "mamba")),
    ],
)
def test_decoding_with_the_cache_equals_decoding_without(name, options):
    model = workloads.load(name, True)("/cpu:0", {**SMALL, **SIZES[name], **options})
    model.setup()
    perturbed(model)
    (prompts,) = next(model.inference_batches())
    generated = model.compiled.step.call(prompts).numpy()
    assert generated.shape == (3, model.hyperparameters.new_tokens)
    sequence = prompts.numpy()
    for _ in range(generated.shape[1]):
        logits = model.decoder.logits(model.decoder(tf.constant(sequence))[0])
        sequence = np.concatenate([sequence, np.argmax(logits[:, -1], -1)[:, None]], 1)
    np.testing.assert_array_equal(generated, sequence[:, prompts.shape[1] :])
    np.testing.assert_array_equal(model.compiled.step.single(prompts), generated)
