import pandas as pd
import pytest
from commands import run

from fathom.__main__ import main
from fathom.testing.descriptors import descriptor


@pytest.mark.parametrize("mode", ["--train", "--infer"])
@pytest.mark.parametrize("name", ["seq2seq", "transformer"])
def test_zeros_of_the_networks_own_layers_are_counted(name, mode, tmp_path):
    path, workload = tmp_path / "zeros.csv", descriptor(name)
    arguments = [*workload.arguments(), "--steps=1", f"--csv={path}"]
    assert run(main, ["sparsity", name, mode, *arguments]) == 0
    model = workload.model(mode == "--infer")
    model.build()
    table = pd.read_csv(path)
    assert list(table.layer) == [layer.name for layer in model.cost().layers if layer.macs]
    assert table.output.notna().any()
