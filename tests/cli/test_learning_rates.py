"""What ``fathom quality --scale-rate`` and a diverged training say of learning rates."""

import pytest

from fathom import workloads
from fathom.cli.quality import _scaled_rate

SEQ2SEQ = workloads.load("seq2seq")
SUTSKEVER = {"size": "sutskever", "batch_size": 32}


@pytest.mark.parametrize(
    ("values", "rate"),
    [
        ({"batch_size": 32}, 0.5 * 32 / 64),
        (SUTSKEVER, 0.7 * 32 / 128),
        ({**SUTSKEVER, "learning_rate": "0.1"}, 0.1 * 32 / 128),
    ],
)
def test_a_rate_is_scaled_from_the_batch_size_of_the_chosen_size(values, rate):
    assert _scaled_rate(SEQ2SEQ, values) == pytest.approx(rate)


def test_the_remedy_for_divergence_is_of_the_chosen_size():
    remedy = SEQ2SEQ.Hyperparameters.of(SUTSKEVER).remedy_for_divergence()
    assert "batches of 128: for 32, try --set learning_rate=0.17 " in remedy
