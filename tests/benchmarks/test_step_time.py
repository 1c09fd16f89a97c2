"""step_time.py: time limits, what is measured again, and the table for documents."""

import importlib
import itertools
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def step_time(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield importlib.import_module("step_time")
    for name in [n for n, m in sys.modules.items() if _is_of(m)]:
        monkeypatch.delitem(sys.modules, name)


def _is_of(module):
    return str(getattr(module, "__file__", "")).startswith(str(BENCHMARKS))


def test_steps_stop_when_time_is_over(step_time, monkeypatch):
    import timing

    clock = itertools.count(0.0, 1.0)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    calls = itertools.count()
    record = timing.record_of(lambda: next(calls), steps=100, warmup=50, seconds=0.5)
    assert len(record["step_seconds"]) == timing.FEWEST_STEPS
    assert next(calls) == 1 + timing.FEWEST_STEPS
    assert len(timing.record_of(lambda: None, 100, 1)["step_seconds"]) == 100


def setting(step_time, **changes):
    values = {"workload": "gcn", "mode": "train", "batch_size": None, "threads": 1}
    rest = {"precision": "float32", "hyperparameters": [], "isa": None}
    return step_time.Setting(
        **{**values, **rest, "steps": 20, "warmup": 3, "seconds": 60.0, **changes}
    )


def measured(step_time, chosen, **ratios):
    ours = {"step_seconds": [1.0, 1.0], "processor_seconds": [1.0, 1.0], "batch_size": 140}
    ours |= {"flops_per_example": 1.0, "gemm_flops_per_second": 280.0}
    flags = {"cpu_model": "Old", "cpu_flags": ["avx"], "tensorflow": "2.21.0"}
    switches = {"ONEDNN_MAX_CPU_ISA": chosen.isa} if chosen.isa else {}
    ours |= {"input_examples_per_second": 1.0, "environment": {**flags, "switches": switches}}
    theirs = {
        name: [{"step_seconds": [ratio] * 2, "processor_seconds": [ratio] * 2, "library": name}]
        for name, ratio in ratios.items()
    }
    return step_time.summary(chosen, [ours], theirs) | {"left_out": {"compiled": "no such product"}}


def peer(step_time, name):
    return step_time.Peer(name, "python", {})


def test_a_file_is_taken_up_where_it_ends(step_time, tmp_path):
    file, first = tmp_path / "figures.json", setting(step_time)
    step_time.Results(file, None).add(measured(step_time, first, eager=2.0))
    results = step_time.Results(file, None)
    wanted = [peer(step_time, "eager"), peer(step_time, "compiled")]
    assert results.has(setting(step_time, steps=500), wanted)
    assert not results.has(setting(step_time, isa="AVX2"), wanted)
    assert not results.has(first, [*wanted, peer(step_time, "JAX")])
    results.add(measured(step_time, first, eager=2.0, JAX=3.0))
    assert [list(r["peers"]) for r in json.loads(file.read_text())] == [["eager", "JAX"]]


def test_another_file_is_refused(step_time, tmp_path):
    file = tmp_path / "other.json"
    file.write_text('[{"figures": 1}]')
    with pytest.raises(step_time.FathomError, match="remove it"):
        step_time.Results(file, None)


def test_the_best_peer_is_in_the_document(step_time, tmp_path):
    document = tmp_path / "table.md"
    results = step_time.Results(None, document)
    results.add(measured(step_time, setting(step_time), eager=2.0, JAX=1.5))
    results.add(measured(step_time, setting(step_time, isa="AVX2"), eager=1.2))
    new, old = document.read_text().split("Old with avx; ")[1:]
    assert "| gcn (140) | training | 1 | 1,000 | 0.50 | JAX | 1.50 | eager 2.00 |" in new
    assert "ONEDNN_MAX_CPU_ISA not set" in new
    assert "ONEDNN_MAX_CPU_ISA=AVX2; all libraries limited by `--isa AVX2`" in old
    assert "gcn without compiled: no such product." in old


def test_a_lesser_processor_is_imitated_in_every_process(step_time, monkeypatch):
    import peers

    monkeypatch.setenv("XLA_FLAGS", "--mine")
    write = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
    found = peers.child([sys.executable, "-c", write], "AVX2")
    assert found["XLA_FLAGS"] == "--mine --xla_cpu_max_isa=AVX2"
    assert found["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    refuse = f"import sys; print('not here', file=sys.stderr); sys.exit({peers.CANNOT})"
    with pytest.raises(peers.CannotRunError, match="not here"):
        peers.child([sys.executable, "-c", refuse], None)


def test_a_process_that_does_not_end_is_given_up(step_time, monkeypatch):
    import peers

    monkeypatch.setattr(peers, "LIMIT_S", 0.2)
    with pytest.raises(step_time.FathomError, match="took longer than 0 min"):
        peers.child([sys.executable, "-c", "import time; time.sleep(60)"], None)


def test_the_rate_of_input_counts_all_examples_of_batches_that_differ(step_time, monkeypatch):
    clock = itertools.count(0.0, 1.0)
    monkeypatch.setattr(step_time.time, "perf_counter", lambda: next(clock))
    model = SimpleNamespace(
        **{"forward_only": False, "steps_per_call": 2},
        hyperparameters=SimpleNamespace(batch_size=10),
        training_batches=lambda first: itertools.cycle([(1.0,), (4.0,)]),
        examples=lambda share: share,
    )
    # Four batches, of 10 and 40 examples in each of two steps, in five seconds of the clock.
    assert step_time.input_rate(model) == pytest.approx(2 * 10 * (1 + 4 + 1 + 4) / 5)
