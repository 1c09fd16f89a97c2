"""The command that compares an exported network, in float32 and in int8, with the workload's."""

import pytest
from commands import fathom, refusal

SMALL = ("--set=log2_table=8", "--batch-size=50")


@pytest.fixture(scope="module", autouse=True)
def network(tmp_path_factory):
    """Exports ngp, which XLA compiles by default, for batches of one size."""
    for library in ("onnxruntime", "tf2onnx"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    folder = tmp_path_factory.mktemp("exports") / "ngp"
    assert fathom("export", "ngp", "--infer", "--to=onnx", f"--out={folder}", *SMALL) == 0
    return folder / "network.onnx"


def test_what_an_engine_computes_is_not_compiled_by_xla(network, capsys):
    assert fathom("int8", "ngp", f"--network={network}", "--steps=1", *SMALL) == 0
    assert "ONNX Runtime, int8" in capsys.readouterr().out


def test_test_data_of_another_batch_are_refused_before_the_runs(network, capsys):
    error = refusal(capsys, fathom("int8", "ngp", f"--network={network}", "--evaluate", *SMALL))
    assert "takes 50 examples, and a batch of the test data has" in error
