"""Load tests with arrivals of our own, against targets that answer at once."""

import time

import numpy as np
import pytest

from fathom.measure.serving import queries, replay
from fathom.measure.serving.arrivals import Gamma
from fathom.results.serving import Bounds


class OnePiece:
    """A target that writes each text in one piece."""

    def __init__(self, answer):
        self.batches, self._answer = {}, answer

    def issue(self, sent):
        for query in sent:
            query.tokens, query.first = 1, time.perf_counter()
            self._answer([query])
            query.answered = time.perf_counter()
            self._answer([query])

    def stop(self):
        pass


def test_queries_that_are_due_at_once_are_sent_at_once():
    sizes = []

    class Noting(OnePiece):
        def issue(self, sent):
            sizes.append(len(sent))
            super().issue(sent)

    service = replay.Service(["a", "b"], Noting, writes_text=True, limit=3)
    sent, _, _ = replay.send(service, np.array([0.0, 0.0, 0.0, 0.01]), 9.0)
    assert sizes == [3, 1]  # a full batch has no batch of its first query before it
    assert [(query.sample, query.id) for query in sent] == [("a", 0), ("b", 1), ("a", 2), ("b", 3)]


@pytest.mark.filterwarnings("error")
def test_texts_in_one_piece_have_no_time_between_tokens(tmp_path):
    service = replay.Service(["a"], OnePiece, writes_text=True, limit=1)
    bounds = Bounds(first_token=5.0, output_token=5.0)
    trial = replay.run(service, Gamma(1.0), 5000.0, 0.1, bounds, 0, tmp_path / "log")
    assert trial.first_token["p99"] < 5
    assert trial.output_token is None
    assert not trial.valid
    assert trial.reason == "the 99th percentile of output_token is not known"


def test_a_text_of_one_token_meets_the_bound_between_tokens():
    sent = [queries.Query("a", number) for number in range(2)]
    for query, tokens in zip(sent, (1, 3), strict=True):
        query.issued, query.first, query.answered, query.tokens = 1.0, 1.5, 2.5, tokens
    log = queries.table(sent, np.array([1.0, 1.0]))
    assert queries.met(log, Bounds(output_token=0.6)).all()
    assert queries.missed(log, Bounds(output_token=0.6)) == []
    assert len(queries.missed(log, Bounds(output_token=0.4))) == 1
