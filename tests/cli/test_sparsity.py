import pandas as pd
import pytest
from commands import run

from fathom.__main__ import main
from fathom.cli.sparsity import pruned
from fathom.nn import NeuralNetworkModel
from fathom.results.description import Description
from fathom.testing.descriptors import descriptor


@pytest.mark.slow
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


def test_the_zeros_of_a_run_reach_the_description_of_its_step(tmp_path, capsys, monkeypatch):
    zeros, file = tmp_path / "zeros.csv", tmp_path / "step.json"
    small = ["autoenc", "--batch-size=3", "--set=hidden_units=7", "--set=latents=2"]
    ended = []
    monkeypatch.setattr(NeuralNetworkModel, "teardown", lambda model: ended.append(model))
    assert run(main, ["sparsity", *small, "--train", "--steps=1", f"--csv={zeros}"]) == 0
    assert len(ended) == 1
    table = pd.read_csv(zeros)
    work = table.macs * [2, 3, 3, 3]  # no gradient of the network's input
    saved = (work * table["saved in training"]).sum() / work.sum()
    assert f"{saved:.1%} of a step" in " ".join(capsys.readouterr().out.split())
    assert run(main, ["describe", *small, f"--sparsity={zeros}", f"--json={file}"]) == 0
    products = [row for row in Description.read(file).operations if row.macs]
    assert all(row.densities for row in products)
    bound = ["roofline", "autoenc", "--train", "--machine=p100"]
    assert run(main, [*bound, f"--sparsity={zeros}", *small[1:]]) == 0
    assert run(main, ["export", *small, "--to=timeloop", f"--sparsity={zeros}"]) == 2
    out = tmp_path / "out"
    export = ["export", *small, "--to=scale-sim", f"--sparsity={zeros}", f"--out={out}"]
    assert run(main, export) == 0
    assert "Sparsity" in (out / "products.csv").read_text()


@pytest.mark.slow
def test_averaged_weights_are_pruned_where_they_are_evaluated(tmp_path):
    model = descriptor("diffusion").ready(xla=False)
    model.run(n_steps=2)
    table = pruned(model, [0.01])
    assert table.loss[0] == pytest.approx(model.evaluate()["loss"])
    assert table.loss[1] != table.loss[0]


@pytest.mark.slow
def test_matrices_that_are_no_weights_are_not_pruned(monkeypatch):
    """mamba keeps the logarithms of its rates, of which 0 is none of the smallest."""
    model = descriptor("mamba").ready(xla=False)

    def zeros():
        found = {"log_rates": 0, "kernel": 0}
        for variable in model.network.trainable_variables:
            name = variable.path.rpartition("/")[2]
            if name in found:
                found[name] += int((variable.numpy() == 0).sum())
        return found

    monkeypatch.setattr(model, "evaluate", zeros)
    before, after = pruned(model, [0.5]).to_dict("records")
    assert after["log_rates"] == before["log_rates"]
    assert after["kernel"] > before["kernel"]
