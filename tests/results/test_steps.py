import math

import numpy as np
import pytest

from fathom.results.steps import Steps


def steps_of(times, warmup=0):
    steps = Steps(first=0, warmup=warmup)
    for time in times:
        steps.add_call([1.0], time, 0.5, 1.0, False)
    return steps


def test_the_statistics_leave_the_warm_up_steps_out():
    plain = steps_of([100.0, 1.0, 2.0, 3.0, 4.0, 5.0], warmup=1).to_plain()
    assert plain["median"] == 3.0
    assert plain["spread"] == pytest.approx((4 - 2) / 3)
    assert plain["quantiles"] == {"5%": 1.2, "25%": 2.0, "50%": 3.0, "75%": 4.0, "95%": 4.8}
    assert plain["seconds"] == [100.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_the_rate_with_input_counts_the_wait_for_each_batch():
    steps = steps_of([9.0, 1.0, 2.0], warmup=1)
    assert steps.examples_per_second_with_input(10) == pytest.approx(10 / 2)


def test_batches_of_more_examples_count_with_all_of_them():
    steps = steps_of([9.0, 1.0], warmup=1)
    steps.add_call([1.0], 3.0, 0.5, 1.0, False, examples=4.0)
    steps.add_call([1.0], 1.0, 0.5, 1.0, False, examples=2.0)
    assert steps.examples_per_second(10) == pytest.approx(10 * 4 / 3)
    assert steps.examples_per_second_with_input(10) == pytest.approx(10 * 7 / 6.5)
    older = {k: v for k, v in steps.to_plain().items() if k != "examples"}
    assert Steps.model_validate(older).examples == [1.0] * 4


def test_steps_that_were_timed_in_one_call_are_one_measurement_without_a_spread():
    steps = steps_of([9.0], warmup=1)
    steps.add_call([1.0] * 3, 6.0, 1.5, 1.0, False)
    plain = steps.to_plain()
    assert steps.measurements == 1
    assert [plain["median"], plain["spread"], plain["quantiles"]] == [2.0, None, None]
    steps.add_call([1.0], 4.0, 0.5, 1.0, False)
    assert steps.measurements == 2
    assert steps.to_plain()["spread"] == pytest.approx(0.5 / 2)
    assert steps.call == [0, 1, 1, 1, 4]


def test_a_single_step_has_no_spread():
    plain = steps_of([3.0]).to_plain()
    assert [plain["median"], plain["spread"]] == [3.0, None]


def test_a_step_that_was_half_recorded_is_dropped():
    steps = steps_of([1.0, 2.0])
    steps.seconds.append(3.0)
    steps.drop_unfinished()
    assert [steps.seconds, steps.loss, steps.call] == [[1.0, 2.0], [1.0, 1.0], [0, 1]]


def test_a_run_without_steps_has_no_median():
    assert math.isnan(Steps(first=0, warmup=0).median)
    assert Steps(first=0, warmup=0).to_plain()["median"] is None


def test_the_first_step_of_each_shape_of_batch_does_not_count():
    steps = Steps(first=0, warmup=1)
    for seconds, first_of_shape in [(9, True), (8, True), (1, False), (7, True), (3, False)]:
        steps.add_call([None], float(seconds), 0.5, 2.0, first_of_shape)
    assert steps.counted.tolist() == [1.0, 3.0]
    assert steps.work_per_second == np.median([2 / 1, 2 / 3])
    assert steps.examples_per_second_with_input(5) == pytest.approx(2)
    assert steps.to_plain()["median"] == 2.0
    assert steps.to_plain()["work_per_second"] == steps.work_per_second


def test_steps_that_were_skipped_do_not_count():
    steps = Steps(first=0, warmup=1)
    for loss, seconds in ((1.0, 9.0), (None, 0.1), (1.0, 4.0), (None, 0.1), (1.0, 6.0)):
        steps.add_call([loss], seconds, 0.0, 1.0, False)
    assert steps.counted.tolist() == [4.0, 6.0]
    older = steps.to_plain() | {"median": 2.05}  # of a file from before
    assert Steps.model_validate(older).median == 5.0


def test_where_every_step_is_the_first_of_its_shape_all_after_warm_up_count():
    steps = Steps(first=0, warmup=1)
    for seconds in (9.0, 8.0, 7.0):
        steps.add_call([None], seconds, 0.0, 1.0, True)
    assert steps.counted.tolist() == [8.0, 7.0]
