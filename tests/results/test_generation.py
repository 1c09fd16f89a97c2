"""The speed of prefill and decode from the times of steps."""

import pytest

from fathom.results.generation import Generation, PhaseTimes


def test_medians_are_of_each_phase():
    runs = [
        PhaseTimes(0.1, 0.2, 10, 4, 2),
        PhaseTimes(0.2, 0.8, 10, 8, 2),
        PhaseTimes(0.4, 9, 10, 9, 2),
    ]
    speed = Generation.of(runs, cache_bytes=2**20)
    assert speed.sequences == 2
    assert speed.prompt_tokens == 10
    assert speed.new_tokens == 8  # the prefill gives one
    assert speed.seconds_to_first_token == pytest.approx(0.2)
    assert speed.prefill_tokens_per_second == pytest.approx(2 * 10 / 0.2)
    assert speed.seconds_per_output_token == pytest.approx(0.1)
    assert speed.decode_tokens_per_second == pytest.approx(2 / 0.1)
    assert [line.partition(":")[0] for line in speed.summary()] == ["prefill", "decode"]


def test_the_first_token_may_come_from_the_loop():
    speed = Generation.of([PhaseTimes(0.1, 0.2, 10, 4, 2)], 0, first_by_prefill=False)
    assert speed.new_tokens == 4
    assert speed.seconds_to_first_token == pytest.approx(0.15)


def test_rates_are_of_the_sequences_of_each_step():
    runs = [PhaseTimes(0.1, 0.2, 10, 4, sequences) for sequences in (1, 2, 6)]
    speed = Generation.of(runs, 0)
    assert speed.sequences == 3
    assert speed.prefill_tokens_per_second == pytest.approx(2 * 10 / 0.1)
    assert speed.decode_tokens_per_second == pytest.approx(2 * 4 / 0.2)


def test_a_phase_that_did_not_run_has_no_speed():
    prefill = Generation.of([PhaseTimes(0.1, None, 10, 0, 2)], 0)
    assert prefill.decode_tokens_per_second is None
    assert len(prefill.summary()) == 1
    decode = Generation.of([PhaseTimes(None, 0.2, 10, 4, 2)], 0)
    assert decode.seconds_to_first_token is None
    assert decode.seconds_per_output_token == pytest.approx(0.05)
