from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from fathom import FathomError, Speech, SpeechFwd
from fathom.speech import ctc
from fathom.speech.audio import write_riff
from fathom.speech.phones import BLANK

SMALL = {"units": 32, "batch_size": 4}


@pytest.fixture(scope="module")
def model():
    model = Speech("/cpu:0", SMALL)
    model.setup()
    return model


def random_batch(seed=0):
    rng = np.random.default_rng(seed)
    return [
        tf.constant(rng.normal(size=(4, 30, 26)), tf.float32),
        tf.constant([30, 20, 11, 5]),
        tf.constant(rng.integers(0, BLANK, (4, 6)), tf.int32),
        tf.constant([6, 3, 1, 2]),
    ]


def test_the_counts_are_those_of_the_architecture():
    model = Speech("/cpu:0", {**SMALL, "units": 2048})
    model.build()
    counted = model.cost()
    units, windows = 2048, 19 * 26
    weights = windows * units + 6 * units**2 + units * 62  # three of the six are layer 4's
    assert counted.forward_macs == 150 * weights == 150 * 26_304_512
    assert counted.parameters == weights + 5 * units + 62 == 26_314_814
    assert counted.training_macs == 3 * counted.forward_macs - 150 * windows * units


@pytest.mark.parametrize(
    ("chosen", "steps", "size"),
    [({"stride": 1}, 300, 26), ({"stride": 7}, 43, 26), ({"features": "spectrogram"}, 75, 161)],
)
def test_the_stride_and_the_features_determine_the_steps_of_15_seconds(chosen, steps, size):
    model = Speech("/cpu:0", {**SMALL, **chosen})
    model.build()
    weights = 19 * size * 32 + 6 * 32**2 + 32 * 62
    assert model.cost().forward_macs == steps * weights


def test_a_batchs_work_is_its_steps_over_the_nominal_ones(model):
    assert model.work(*random_batch()) == pytest.approx(15 / 150)
    assert model.work(tf.zeros([4, 31, 26])) == pytest.approx(16 / 150)


def test_weights_keep_the_size_of_what_passes_through_them(model):
    deviations = {
        variable.path.partition("speech/")[2] or variable.path: float(np.std(variable))
        for variable in model.network.trainable_variables
        if len(variable.shape) == 2
    }
    expected = {
        "layer1/kernel": (2 / 494) ** 0.5,
        "layer2/kernel": (2 / 32) ** 0.5,
        "layer4/kernel": (2 / 32) ** 0.5,
        "layer4/forward_kernel": (1 / 32) ** 0.5,
        "layer4/backward_kernel": (1 / 32) ** 0.5,
        "logits/kernel": (1 / 32) ** 0.5,
    }
    for name, deviation in expected.items():
        assert deviations[name] == pytest.approx(deviation, rel=0.1), name
    layer4 = model.network.get_layer("layer4")
    assert np.any(layer4.forward_kernel.numpy() != layer4.backward_kernel.numpy())


def test_what_lies_after_an_utterances_end_changes_nothing(model):
    x, lengths, phones, counts = random_batch()
    longer = tf.concat([x, tf.ones([4, 9, 26])], axis=1).numpy()
    for row, length in zip(longer, lengths, strict=True):
        row[length:] = 1e3
    padded_phones = tf.pad(phones, [[0, 0], [0, 3]], constant_values=7)
    outputs = model.network([x, lengths], training=False)
    others = model.network([tf.constant(longer), lengths], training=False)
    for ours, theirs, length in zip(outputs, others, (lengths + 1) // 2, strict=True):
        np.testing.assert_allclose(theirs[:length], ours[:length], rtol=1e-4, atol=1e-4)
    ours = model.build_evaluation([x, lengths], [phones, counts], outputs)
    theirs = model.build_evaluation([longer, lengths], [padded_phones, counts], others)
    for name, value in ours.items():
        np.testing.assert_allclose(theirs[name], value, rtol=1e-4)


def test_the_gradient_is_that_of_the_utterances_by_themselves(model):
    batch = random_batch()
    variables = model.network.trainable_variables

    def gradients(batch):
        with tf.GradientTape() as tape:
            outputs = model.network(batch[:2], training=False)
            loss = tf.reduce_sum(ctc.loss(outputs, model._steps(batch[1]), *batch[2:]))
        return tape.gradient(loss, variables)

    together = gradients(batch)
    alone = []
    for i, (length, count) in enumerate(zip(batch[1], batch[3], strict=True)):
        one = [tensor[i : i + 1] for tensor in batch]
        alone.append(gradients([one[0][:, :length], one[1], one[2][:, :count], one[3]]))
    for total, parts in zip(together, zip(*alone, strict=True), strict=True):
        scale = np.abs(total).max()
        np.testing.assert_allclose(total, np.sum(parts, axis=0), rtol=1e-3, atol=1e-4 * scale)


def test_a_step_has_one_ctc_kernel_and_a_fixed_number_of_products_over_all_frames(model):
    types = Counter(operation.type for operation in model.model().get_operations())
    assert types["CTCLoss"] == 1
    # Five input halves and the logits: forward, and twice back but for the windows; both V's.
    assert types["MatMul"] == 6 + (2 * 6 - 1) + 2
    assert types["While"] + types["StatelessWhile"] == 4  # both directions, forward and back


@pytest.mark.slow
def test_the_rate_is_annealed_after_each_epoch():
    model = Speech("/cpu:0", {**SMALL, "batch_size": 32, "learning_rate": 1e-4, "annealing": 0.5})
    model.setup()
    model.run(n_steps=2 * model.steps_per_epoch)
    assert float(model.optimizer.learning_rate) == pytest.approx(0.25e-4)


def test_the_validation_utterances_are_evaluated_after_each_epoch():
    model = Speech("/cpu:0", {**SMALL, "batch_size": 16})
    model.setup()
    model.run(n_steps=model.steps_per_epoch + 1)
    assert len(model.timit.validation) == 6
    for name in ("loss", "phone_error_rate"):
        ((step, value),) = model.history[f"validation_{name}"]
        assert step == model.steps_per_epoch
        assert value > 0


def test_spectrograms_are_read_and_learned_from():
    model = Speech("/cpu:0", {**SMALL, "features": "spectrogram", "learning_rate": 1e-6})
    model.setup()
    assert model.timit.train.features.shape[1] == 161
    assert np.isfinite(model.run(n_steps=2).steps.loss).all()


def test_error_rates_are_all_errors_over_all_phones(model):
    sums = {"loss": 6.0, "errors": 4.0, "phones": 10.0, "folded_errors": 3.0, "folded_phones": 9.0}
    metrics = model.total_metrics(sums, 2)
    assert metrics == {"loss": 3.0, "phone_error_rate": 3 / 9, "label_error_rate": 4 / 10}


def test_the_compiled_evaluation_and_a_beam_give_error_rates():
    model = Speech("/cpu:0", {**SMALL, "xla": True, "beam_width": 3})
    model.setup()
    metrics = model.evaluate()
    assert metrics["examples"] == 16
    assert metrics["phone_error_rate"] > 0


def test_a_picture_of_a_test_utterance_is_written(model, tmp_path):
    (path,) = model.save_pictures(tmp_path)
    assert path.name == "speech-utterance.png"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_what_was_left_out_is_part_of_the_result(tmp_path):
    for part, count in (("train", 2), ("test", 2)):
        for i in range(count):
            path = tmp_path / part / "dr1" / "fabc0" / f"sx{i}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_riff(path, np.full(8000, i, np.int16), 16_000)
            path.with_suffix(".phn").write_text("0 8000 aa\n" if i or part == "test" else "")
    model = SpeechFwd("/cpu:0", {**SMALL, "batch_size": 1, "data_dir": str(tmp_path)})
    model.setup()
    described = model.run(n_steps=1).data
    assert described.train_utterances == 1
    assert described.test_utterances == 2
    assert described.validation_utterances == 0
    assert list(described.skipped) == ["train/dr1/fabc0/sx0"]


@pytest.mark.slow
def test_a_set_without_test_utterances_cannot_be_evaluated(tmp_path):
    path = tmp_path / "train" / "dr1" / "fabc0" / "sx0.wav"
    path.parent.mkdir(parents=True)
    (tmp_path / "test").mkdir()
    write_riff(path, np.arange(8000, dtype=np.int16), 16_000)
    path.with_suffix(".phn").write_text("0 8000 aa\n")
    model = Speech("/cpu:0", {**SMALL, "batch_size": 1, "data_dir": str(tmp_path)})
    model.setup()
    model.run(n_steps=1)
    with pytest.raises(FathomError, match="no test data"):
        model.evaluate()
