"""Fixed point where inference decodes word by word, outside the network's graph."""

import pytest

from fathom.testing.conformance import own_data  # noqa: F401
from fathom.testing.descriptors import descriptor


def counted(name, **options):
    """Returns a model after a batch of inference, and the values that were rounded, by layer."""
    model = descriptor(name).model(True, precision="fixed:24.12", **options)
    model.setup()
    rows = model.run(n_steps=1).fixed_point.tensors
    return model, {row.layer: row.values for row in rows if row.kind == "activations"}


def test_gpt_rounds_at_every_token_that_it_decodes():
    model, values = counted("gpt", new_tokens=3, xla=False)
    chosen = model.hyperparameters
    tokens = chosen.batch_size * (chosen.prompt_tokens + 2)
    for layer in ("embedding", "block1_sum1", "block1_mlp", "block1_sum2", "norm"):
        assert values[layer] == tokens * chosen.width
    words = chosen.vocabulary or len(model.vocabulary)
    assert values["logits"] == 3 * chosen.batch_size * words


def test_transformer_rounds_what_its_decoder_layers_return_at_every_word():
    model, values = counted("transformer", xla=False)
    chosen = model.hyperparameters
    words = chosen.batch_size * chosen.beam_size * int(model.decoder.steps_taken)
    assert values["decoder_1"] == words * chosen.width
    source = chosen.batch_size * 24
    assert values["encoder_1"] == source * chosen.width
    assert values["embedding"] == (source + words) * chosen.width


def test_seq2seq_rounds_what_its_decoder_reads_of_the_encoder():
    model, values = counted("seq2seq", buckets="8-9")
    chosen = model.hyperparameters
    assert values["encoder_2"] == chosen.batch_size * 8 * chosen.units
    assert values["encoder_2_1"] == values["encoder_2_2"] == chosen.batch_size * chosen.units


@pytest.mark.parametrize("name", ["seq2seq", "transformer"])
def test_formats_are_calibrated_on_decoded_words(name):
    model = descriptor(name).model(True, precision="fixed16")
    model.setup()
    rows = model.run(n_steps=1).fixed_point.tensors
    assert max(row.saturated or 0 for row in rows) == 0
    assert len({row.fraction for row in rows}) > 1
