import json
import math

import numpy as np
import pytest

from fathom import FathomError
from fathom.results import read
from fathom.steps import Steps


def steps_of(times, warmup=0):
    steps = Steps(first=0, warmup=warmup)
    for time in times:
        steps.add(time, 0.5, 1.0)
    return steps


def test_the_statistics_leave_the_warm_up_steps_out():
    plain = steps_of([100.0, 1.0, 2.0, 3.0, 4.0, 5.0], warmup=1).to_plain()
    assert plain["median"] == 3.0
    assert plain["spread"] == pytest.approx((4 - 2) / 3)
    assert plain["quantiles"] == {"5%": 1.2, "25%": 2.0, "50%": 3.0, "75%": 4.0, "95%": 4.8}
    assert plain["seconds"] == [100.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_the_rate_with_input_counts_the_wait_for_each_batch():
    assert steps_of([9.0, 1.0, 2.0], warmup=1).mean_with_input == 2.0


def test_a_run_without_steps_has_no_median():
    assert math.isnan(Steps(0, 0).median)
    assert Steps(0, 0).to_plain()["median"] is None


def test_a_result_is_written_as_strict_json_and_read_back(tmp_path):
    from fathom import Autoenc

    model = Autoenc("/cpu:0", {"batch_size": 10, "hidden_units": 5})
    model.setup()
    result = model.run(n_steps=0)
    result.metrics = {"error": np.float32(0.5), "nothing": float("nan")}
    result.write(tmp_path / "result.json")
    document = read(tmp_path / "result.json")
    assert document["metrics"] == {"error": 0.5, "nothing": None}
    assert document["throughput"]["examples_per_second"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 0}', "\x00"])
def test_a_file_that_is_no_result_is_refused(tmp_path, text):
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(FathomError, match=r"result\.json"):
        read(path)


def test_every_field_of_a_result_is_documented(tmp_path):
    from pathlib import Path

    from fathom import Autoenc

    model = Autoenc("/cpu:0", {"batch_size": 10, "hidden_units": 5})
    model.setup()
    document = json.loads(json.dumps(model.run(n_steps=5).to_plain()))
    page = (Path(__file__).parent.parent / "docs" / "results.md").read_text()
    for name in [*document, *document["steps"], *document["environment"], *document["throughput"]]:
        assert f"`{name}`" in page, name
    for name in [*document["sections"], *document["cost"], *document["memory"]]:
        assert f"`{name}`" in page, name


def test_the_first_step_of_each_shape_of_batch_does_not_count():
    steps = Steps(first=0, warmup=1)
    for seconds, first_of_shape in [(9, True), (8, True), (1, False), (7, True), (3, False)]:
        steps.add(float(seconds), 0.5, None, work=2.0, first_of_shape=first_of_shape)
    assert steps.counted.tolist() == [1.0, 3.0]
    assert steps.work_per_second == np.median([2 / 1, 2 / 3])
    assert steps.mean_with_input == 2.5
    assert steps.to_plain()["median"] == 2.0


def test_where_every_step_is_the_first_of_its_shape_all_after_warm_up_count():
    steps = Steps(first=0, warmup=1)
    for seconds in (9.0, 8.0, 7.0):
        steps.add(seconds, 0.0, None, first_of_shape=True)
    assert steps.counted.tolist() == [8.0, 7.0]
