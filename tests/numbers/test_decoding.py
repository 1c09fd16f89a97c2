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


@pytest.mark.slow
def test_gpt_rounds_at_every_token_that_it_decodes():
    model, values = counted("gpt", new_tokens=3, xla=False)
    hyperparameters = model.hyperparameters
    tokens = hyperparameters.batch_size * (hyperparameters.prompt_tokens + 2)
    for layer in ("embedding", "block1_sum1", "block1_mlp", "block1_sum2", "norm"):
        assert values[layer] == tokens * hyperparameters.width
    words = hyperparameters.vocabulary or len(model.vocabulary)
    assert values["logits"] == 3 * hyperparameters.batch_size * words


@pytest.mark.slow
def test_transformer_rounds_what_its_decoder_layers_return_at_every_word():
    model, values = counted("transformer", xla=False)
    hyperparameters = model.hyperparameters
    words = hyperparameters.batch_size * hyperparameters.beam_size * int(model.decoder.steps_taken)
    assert values["decoder_1"] == words * hyperparameters.width
    source = hyperparameters.batch_size * 24
    assert values["encoder_1"] == source * hyperparameters.width
    assert values["embedding"] == (source + words) * hyperparameters.width


@pytest.mark.slow
def test_seq2seq_rounds_what_its_decoder_reads_of_the_encoder():
    model, values = counted("seq2seq", buckets="8-9")
    hyperparameters = model.hyperparameters
    assert values["encoder_2"] == hyperparameters.batch_size * 8 * hyperparameters.units
    assert (
        values["encoder_2_1"]
        == values["encoder_2_2"]
        == hyperparameters.batch_size * hyperparameters.units
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["seq2seq", "transformer"])
def test_formats_are_calibrated_on_decoded_words(name):
    model = descriptor(name).model(True, precision="fixed16")
    model.setup()
    rows = model.run(n_steps=1).fixed_point.tensors
    assert max(row.saturated or 0 for row in rows) == 0
    assert len({row.fraction for row in rows}) > 1
