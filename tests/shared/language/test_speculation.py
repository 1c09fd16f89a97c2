"""A draft changes how fast tokens come, and not which."""

import numpy as np
import pytest
import tensorflow as tf
from commands import run

from fathom.__main__ import main
from fathom.testing.descriptors import descriptor

SIZE = {"layers": 2, "batch_size": 3}
SLOW = [
    pytest.param(("llama", 3), marks=pytest.mark.slow),
    pytest.param(("moe", 3), marks=pytest.mark.nightly),
]


def generated(model):
    """Returns the new tokens, and what a run says of the generation."""
    prompts = next(iter(model.inference_batches()))
    result = model.run(n_steps=2, warmup=1)
    return model.infer(*prompts).numpy(), result.generation


@pytest.fixture(scope="module", params=[("llama", 2), *SLOW])
def plain(request):
    """Gives a way to make a model, weights, and what they generate one token at a time."""
    name, layers = request.param

    def make(**draft):
        options = SIZE | {"layers": layers} | draft
        model = descriptor(name).model(True, **options, xla=False)  # it compiles for longer
        model.setup()
        return model

    model = make()
    rng = np.random.default_rng(0)
    # Larger weights than the initial ones: blocks that agree in part.
    weights = [
        each + rng.normal(0, 0.5, each.shape).astype(np.float32)
        for each in model.network.get_weights()
    ]
    model.network.set_weights(weights)
    return make, weights, layers, *generated(model)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [4, 1])
def test_the_text_is_that_of_plain_decoding(plain, tokens):
    make, weights, layers, expected, of_plain = plain
    model = make(draft_layers=layers - 1, draft_tokens=tokens)
    model.network.set_weights(weights)
    found, of_draft = generated(model)
    assert (found == expected).all()
    assert len({*expected.ravel().tolist()}) > 3
    assert of_plain.tokens_per_pass is None
    assert 1 <= of_draft.tokens_per_pass < 1 + tokens
    assert of_draft.new_tokens == of_plain.new_tokens


@pytest.mark.slow
def test_a_draft_that_is_right_saves_passes():
    """Blocks whose last projections are zero add nothing: the first block is the network."""
    model = descriptor("llama").model(True, **SIZE, draft_layers=1, draft_tokens=3)
    model.setup()
    for block in model.decoder.blocks[1:]:
        for layer in (block.attention, block.feed_forward):
            layer.projection.assign(tf.zeros_like(layer.projection))
    result = model.run(n_steps=2, warmup=0)
    new = model.hyperparameters.new_tokens - 1
    assert result.generation.tokens_per_pass == new / -(-new // 4)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("draft_layers=6", "not below layers"),
        ("draft_layers=1 temperature=0.5", "omit temperature"),
        ("draft_tokens=0", "at least 1"),
        ("draft_tokens=9", "draft_tokens has no effect with draft_layers=0: omit it"),
    ],
)
def test_drafts_that_cannot_be_are_refused(option, words, capsys):
    sets = [word for each in option.split() for word in ("--set", each)]
    assert run(main, ["run", "llama", "--infer", "--steps", "1", *sets]) == 2
    assert words in capsys.readouterr().err
