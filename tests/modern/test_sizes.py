"""Hyperparameters and options that do not fit together."""

import pytest

from fathom.errors import FathomError
from fathom.testing.descriptors import descriptor


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("diffusion", {"patch": 5}, "side 28 is not a multiple of patch 5"),
        ("diffusion", {"heads": 3}, "width 16 is not a multiple of heads 3"),
        ("diffusion", {"width": 18}, "width 18 is not a multiple of 4"),
        (
            "diffusion",
            {"size": "s", "patch": 2},
            "of 32 x 32 x 4 of 1000 classes, not MNIST's 28 x 28",
        ),
        ("diffusion", {"classes": 9}, "of 28 x 28 x 1 of 9 classes, not MNIST's 28 x 28 x 1 of 10"),
        ("diffusion", {"classes": 20}, "of 20 classes, not MNIST's"),
        ("gpt", {"prompt_tokens": 17}, "17 tokens and 2 new ones are more than the context of 16"),
        ("gpt", {"prompt_tokens": 8, "new_tokens": 9}, "8 tokens and 9 new ones are more"),
        ("gpt", {"heads": 3}, "width 16 is not a multiple of heads 3"),
        ("gpt", {"tokens": "bpe"}, "bpe needs a vocabulary of more than 256"),
        ("gpt", {"vocabulary": 5}, "tokens=characters are .* more than the vocabulary of 5"),
        ("gpt", {"tokens": "bytes", "vocabulary": 100}, "needs a vocabulary of 256"),
        ("gpt", {"context": 100_000}, "validation part has .* but needs more than the context of"),
        ("llama", {"kv_heads": 3}, "heads 4 is not a multiple of kv_heads 3"),
        ("llama", {"width": 12}, r"the 3 values of a head \(width/heads\) are an odd number"),
        ("llama", {"width": 18}, "width 18 is not a multiple of heads 4"),
        ("mamba", {"chunks": 0}, "chunks must be at least 1"),
        ("mamba", {"heads": 2}, "heads"),
        ("moe", {"experts": 1}, "experts_per_token 2 is more than experts 1"),
        ("moe", {"experts": 0}, "experts must be at least 1"),
        ("moe", {"capacity_factor": -1}, "capacity_factor must not be negative"),
        ("moe", {"kv_heads": 3}, "heads 4 is not a multiple of kv_heads 3"),
        ("moe", {"microbatches": 3}, "the balance of experts is that of a whole batch"),
        ("moe", {"divide_experts": True}, "divide_experts needs workers that exchange rows"),
        ("ngp", {"finest": 15}, "finest 15 is not from coarsest 16 to 1048576"),
        ("ngp", {"finest": 2**21}, "finest 2097152 is not from coarsest 16 to 1048576"),
        ("transformer", {"heads": 3}, "width 16 is not a multiple of the 3 heads"),
        (
            "transformer",
            {"beam_size": 1, "length_penalty": 3},
            "length_penalty has no effect with beam_size=1",
        ),
    ],
)
def test_what_does_not_fit_is_named_in_one_line(name, options, message):
    with pytest.raises(FathomError, match=message) as error:
        descriptor(name).model(**options).load_data()
    assert "\n" not in str(error.value)


def test_a_decoding_without_a_token_is_refused():
    model = descriptor("gpt").model(True, phase="decode", new_tokens=1)
    with pytest.raises(FathomError, match="phase=decode needs new_tokens above 1"):
        model.build()
