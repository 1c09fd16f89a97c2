import pytest
from synthetic_folder import ENVIRONMENT, folder, run

from fathom import FathomError
from fathom.measure.report.figures import formats
from fathom.options import QUANTIZED
from fathom.results.formats import FormatRun, Formats


def fixed(bits, updates):
    """Counts in which a share of the updates of the larger of two tensors became 0."""
    tensors = [
        {"layer": "fc", "tensor": "kernel", "kind": "updates", "fraction": 10, "values": 300}
        | {"saturated": 0.0, "zeroed": updates},
        {"layer": "fc", "tensor": "bias", "kind": "updates", "fraction": 10, "values": 100}
        | {"saturated": None, "zeroed": None},
    ]
    kinds = {"quantized": list(QUANTIZED), "rounding": "nearest", "overflow": "saturate"}
    return kinds | {"bits": bits, "tensors": tensors}


def ran(precision, value, seed=0, fixed_point=None, errors=None):
    return FormatRun.model_validate(
        {
            "precision": precision,
            "seed": seed,
            "metrics": {} if value is None else {"cross_entropy": value, "error": 50.0},
            "loss": value,
            "fixed_point": fixed_point,
            "errors": errors or {},
            "ended": "complete" if value is not None else "the loss is NaN",
        }
    )


def results(mode, *runs):
    return Formats(
        workload="memnet",
        mode=mode,
        steps=10,
        hyperparameters={"batch_size": 8},
        environment=ENVIRONMENT,
        runs=list(runs),
    )


TRAINED = results(
    "train",
    ran("float32", 0.5),
    ran("float32", 0.7, seed=1),
    ran("fixed:16.10", 2.0, fixed_point=fixed(16, 0.8)),
    ran("fixed16", None, fixed_point=fixed(16, 0.4)),
    ran("fixed32", 0.6, fixed_point=fixed(32, 0.0)),
)
INFERRED = results(
    "infer",
    ran("fixed:16.10", 0.51, errors={"fc1": 0.001, "fc2": 0.002}),
    ran("float32", 0.5),
)


def test_runs_are_in_the_order_of_their_bits_with_the_shares_of_all_tensors():
    table = formats.runs([TRAINED])
    assert list(table.format[:3]) == ["float32", "float32", "fixed32"]
    assert set(table.metric) == {"cross_entropy"}
    lost = table.set_index("format")["updates to 0"]
    assert lost["fixed:16.10"] == pytest.approx(0.8)  # of the tensor that has any


def test_a_format_is_named_with_what_is_not_the_default():
    changes = {"rounding": "stochastic", "quantized": ["weights", "activations"]}
    changed = ran("fixed16", 1.0, fixed_point=fixed(16, 0.1) | changes)
    table = formats.runs([results("train", ran("float32", 1.0), changed)])
    assert list(table.format) == ["float32", "fixed16, stochastic, weights and activations"]


def test_the_summary_compares_16_bits_with_all_runs_in_float32():
    in_words = formats.summary(formats.runs([TRAINED, INFERRED]))
    assert "memnet, training: cross_entropy 0.5 to 0.7 in float32" in in_words
    assert "2 in fixed:16.10 with 80% of the updates rounded to 0" in in_words
    assert "none in fixed16, which diverged with 40%" in in_words
    assert "memnet, inference: cross_entropy 0.5 in float32, 0.51 in fixed:16.10." in in_words


def test_errors_are_by_layer_in_their_order():
    table = formats.layer_errors([TRAINED, INFERRED])
    assert table.layer.tolist() == ["fc1", "fc2"]
    assert table.error.tolist() == [0.001, 0.002]


def test_the_report_reads_the_files_of_a_folder(tmp_path):
    here = folder([run()], path=tmp_path)
    (tmp_path / "formats").mkdir()
    TRAINED.write(tmp_path / "formats" / "a.json")
    INFERRED.write(tmp_path / "formats" / "b.json")
    findings = formats.FIGURE.analyse(here)
    assert [panel.get_title() for panel in findings.plot.axes if panel.get_visible()] == [
        "memnet",
        "memnet, training: became 0",
        "memnet: error against float32",
    ]
    (tmp_path / "formats" / "a.json").write_text("{")
    with pytest.raises(FathomError, match=r"a\.json is damaged"):
        formats.FIGURE.analyse(here)


def test_formats_without_fixed_point_and_some_diverged_trainings_are_shown():
    floats = results("train", ran("float32", 0.5), ran("bfloat16", 0.6))
    table = formats.runs([floats])
    assert formats.draw(table, formats.layer_errors([floats]))
    assert formats.summary(table) == "No fixed-point format of 16 bits was run beside float32."
    seeds = [ran("fixed16", value, i, fixed(16, 0.5)) for i, value in enumerate((0.8, None, None))]
    text = formats.summary(formats.runs([results("train", ran("float32", 0.5), *seeds)]))
    assert "0.8 in fixed16 (2 of 3 diverged)" in text


def test_trainings_of_other_lengths_are_apart():
    longer = results("train", ran("float32", 0.1), ran("fixed16", 0.2, fixed_point=fixed(16, 0.1)))
    both = [TRAINED, longer.model_copy(update={"steps": 1000}), INFERRED]
    text = formats.summary(formats.runs(both))
    assert "memnet, steps 10, training: cross_entropy 0.5 to 0.7 in float32" in text
    assert "memnet, steps 1000, training: cross_entropy 0.1 in float32, 0.2 in fixed16" in text
    assert "memnet, inference" in text
