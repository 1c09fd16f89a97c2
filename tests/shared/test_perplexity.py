"""The perplexity of language models and of translation."""

import math

import pytest

from fathom import workloads


@pytest.mark.parametrize(
    ("workload", "sums"),
    [("gpt", {"loss": 10.0}), ("seq2seq", {"cross_entropy": 10.0, "words": 5.0})],
)
def test_the_perplexity_of_a_network_that_has_gone_wrong_is_infinite(workload, sums):
    model = workloads.load(workload)("cpu", {})
    metrics = model.total_metrics(sums, 5)
    assert metrics["perplexity"] == pytest.approx(math.exp(2))
    first, *_ = sums
    metrics = model.total_metrics({**sums, first: 5000.0}, 5)
    assert metrics == {first: 1000.0, "perplexity": math.inf}
