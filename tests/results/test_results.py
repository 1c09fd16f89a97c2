import json

import numpy as np
import pytest

from fathom import FathomError
from fathom.results.records import read


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
    page = (Path(__file__).parents[2] / "docs" / "results.md").read_text()
    for name in [*document, *document["steps"], *document["environment"], *document["throughput"]]:
        assert f"`{name}`" in page, name
    for name in [*document["sections"], *document["cost"], *document["memory"]]:
        assert f"`{name}`" in page, name
