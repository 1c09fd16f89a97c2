"""Load tests of networks that write text: both kinds of batching, tokens, bounds and logs."""

import numpy as np
import pandas as pd
import pytest
from commands import fathom

from fathom.measure.serving import queries
from fathom.results.serving import ServingResult
from fathom.testing.descriptors import descriptor


def small(workload):
    """Returns the options of a small network."""
    sizes = descriptor(workload).small
    return [
        *(f"--set={name}={value}" for name, value in sizes.items() if name != "batch_size"),
        *("--batch-size=4", "--device=cpu", "--no-xla"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["gpt", "llama"])
def test_loadgen_measures_tokens_from_the_scheduled_arrival(workload, tmp_path, capsys):
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    out = tmp_path / "out"
    bounds = ("--ttft-bound=20000", "--tpot-bound=20000", "--rate=300", "--duration=1")
    options = (*small(workload), *bounds, "--batching=both", f"--out={out}")
    assert fathom("serve-test", workload, *options) == 0
    printed = capsys.readouterr().out
    assert "goodput within 20000 ms to the first token and 20000 ms per next token" in printed
    for folder, batching in ((out, "continuous"), (out / "static", "static")):
        result = ServingResult.read(folder / "serving.json")
        assert result.batching == batching
        assert result.bounds.given() == {"first_token": 20, "output_token": 20}
        assert result.cache_bytes
        trial = result.result
        log = pd.read_csv(folder / "trial-00" / queries.NAME)
        assert len(log) == trial.queries >= 662
        assert (log.issued >= log.scheduled).all()
        # LoadGen measures with a clock of its own, a little before and after ours.
        for seconds, theirs in (
            (queries.latency(log), trial.latency),
            (queries.first_token(log), trial.first_token),
            (queries.output_token(log), trial.output_token),
        ):
            assert np.median(seconds) == pytest.approx(theirs["p50"], rel=0.2, abs=0.002)
        assert trial.tokens_per_second == pytest.approx(log.tokens.sum() / log.answered.max())
        assert not (folder / "trial-00" / "mlperf_log_trace.json").exists()


@pytest.mark.slow
def test_a_trace_is_replayed_with_its_lengths(tmp_path, capsys):
    trace = tmp_path / "azure.csv"
    rows = [
        f"2023-11-16 18:17:0{i // 10}.{i % 10}000000,{100 * (i + 1)},{i + 1}" for i in range(20)
    ]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    out = tmp_path / "out"
    options = (*small("gpt"), f"--trace={trace}", "--rate=100", "--duration=5", f"--out={out}")
    assert fathom("serve-test", "gpt", *options) == 0
    result = ServingResult.read(out / "serving.json")
    assert (result.arrivals, result.result.queries) == ("azure.csv", 20)
    log = pd.read_csv(out / "trial-00" / queries.NAME)
    assert log.scheduled.tolist() == pytest.approx(np.arange(20) / 100)
    assert log.tokens.tolist() == [max(2, int(np.ceil(8 * (i + 1) / 20))) for i in range(20)]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["single-stream", "offline"])
def test_text_is_measured_in_loadgens_other_scenarios(scenario, tmp_path, capsys):
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    out = tmp_path / "out"
    options = (*small("gpt"), f"--scenario={scenario}", "--duration=1", f"--out={out}")
    assert fathom("serve-test", "gpt", *options) in (0, 2)  # LoadGen's verdict
    trial = ServingResult.read(out / "serving.json").result
    assert trial.first_token["p50"] > 0
    assert trial.tokens_per_second > 0
