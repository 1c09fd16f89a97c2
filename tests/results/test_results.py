import json
import os

import numpy as np
import pytest

from fathom import FathomError
from fathom.results.records import RunResult


def test_a_result_is_written_as_strict_json_and_read_back(tmp_path):
    from fathom import Autoenc

    model = Autoenc("/cpu:0", {"batch_size": 10, "hidden_units": 5})
    model.setup()
    result = model.run(n_steps=0)
    result.metrics = result.metrics.model_copy(
        update={"error": np.float32(0.5), "nothing": float("nan")}
    )
    result.write(tmp_path / "result.json")
    assert json.loads((tmp_path / "result.json").read_text())["metrics"] == {
        "error": 0.5,
        "nothing": None,
    }
    again = RunResult.read(tmp_path / "result.json")
    assert again.metrics.error == 0.5
    assert again.throughput.examples_per_second is None
    assert again.to_plain()["steps"]["median"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_pipe_in_the_place_of_a_result_is_refused_and_not_waited_for(tmp_path):
    path = tmp_path / "result.json"
    os.mkfifo(path)
    with pytest.raises(FathomError, match=r"result\.json is not a regular file"):
        RunResult.read(path)


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 0}', "\x00"])
def test_a_file_that_is_no_result_is_refused(tmp_path, text):
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(FathomError, match=r"result\.json"):
        RunResult.read(path)
