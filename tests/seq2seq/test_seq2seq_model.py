import dataclasses

import keras
import numpy as np
import pytest
import sacrebleu
import tensorflow as tf

from fathom import FathomError, Seq2Seq, Seq2SeqFwd
from fathom.seq2seq.buckets import Bucket
from fathom.shared.translation import evaluation
from fathom.shared.translation.parallel import write_lines
from fathom.shared.translation.symbols import EOS, GO, PAD

SMALL = {
    "batch_size": 8,
    "layers": 2,
    "units": 8,
    "source_vocabulary": 60,
    "target_vocabulary": 70,
    "samples": 10,
    "buckets": "16-18",
    "initial_range": 0.5,
}


def model_of(**options):
    return Seq2Seq("/cpu:0", {**SMALL, **options})


def built(**options):
    """Returns a model with its data and its network, but no compiled step."""
    model = model_of(**options)
    model.load_data()
    model.build()
    return model


def parameters(layers, units, source, target, attention):
    """The formula of docs/workloads/seq2seq.md."""
    recurrent = 2 * layers * (8 * units**2 + 4 * units)
    embeddings, softmax = (source + target) * units, target * (units + 1)
    return recurrent + embeddings + softmax + (8 * units**2 + units) * attention


@pytest.fixture
def text_folder(tmp_path):
    """Gives a folder for a text of 20 short pairs, some blank or very long."""

    def write(**more):
        pairs = [(f"a b{i} c", f"A B{i}") for i in range(20)]
        pairs += [("a", ""), ("", "B"), ("w " * 30, "W"), ("w", "W " * 30), ("w", "W " * 18)]
        for name, lines in {"train": pairs, **more}.items():
            for side, language in enumerate(("en", "de")):
                write_lines(tmp_path / f"{name}.{language}.gz", tuple(p[side] for p in lines))
        return str(tmp_path)

    return write


@pytest.mark.parametrize("attention", [True, False])
def test_the_number_of_parameters_follows_the_formula(attention):
    model = model_of(attention=attention)
    model.build()
    assert model.cost().parameters == parameters(2, 8, 60, 70, attention)


def test_fathoms_and_sutskevers_sizes_have_34_and_384_million_parameters():
    assert parameters(3, 256, 40_000, 40_000, True) == 34_436_416
    assert parameters(4, 1000, 160_000, 80_000, False) == 384_112_000


def test_sutskevers_size_is_one_option_away_and_others_may_be_given_beside_it():
    hyperparameters = Seq2Seq("/cpu:0", {"size": "sutskever", "layers": 2}).hyperparameters
    chosen = dataclasses.asdict(hyperparameters)
    assert chosen["layers"] == 2
    sutskevers = {
        **{"batch_size": 128, "units": 1000, "attention": False},
        **{"source_vocabulary": 160_000, "target_vocabulary": 80_000},
        **{"samples": 0, "optimizer": "sgd", "learning_rate": 0.7},
    }
    assert {name: chosen[name] for name in sutskevers} == sutskevers


def test_the_multiply_accumulates_of_a_pair_are_those_of_its_products():
    model = model_of(buckets="8-9 16-18")
    model.build()
    u, source, target = 8, 8, 9  # the nominal bucket is the last but one
    encoder = 2 * source * 8 * u * u
    step = 4 * u * u + 2 * 8 * u * u + 3 * u * u + 2 * source * u + 11 * u
    assert model.cost().forward_macs == encoder + source * u * u + target * step


def test_a_batch_of_the_larger_bucket_is_more_work():
    model = built(buckets="8-9 16-18")
    small, large = (tf.zeros([8, length], tf.int32) for length in (8, 16))
    assert model.work(small) == 1
    assert 1.9 < model.work(large) < 2.2


@pytest.mark.parametrize("beam", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_decoding_counts_the_steps_and_the_hypotheses_that_ran(beam):
    model = Seq2SeqFwd("/cpu:0", {**SMALL, "beam_size": beam})
    model.setup()
    one = Seq2SeqFwd("/cpu:0", SMALL)
    one.build()
    decoder = model.decoder.macs_of((16, 18), 70) - model.decoder.macs_of((16, 0), 70)
    assert model.cost().forward_macs == one.cost().forward_macs + (beam - 1) * decoder
    model.decoder.softmax_bias.assign(tf.one_hot(EOS, 70) * 1e6)  # every sentence ends at once
    result = model.run(n_steps=2, warmup=0)
    short = model.cost().forward_macs - beam * decoder * 17 // 18
    assert result.steps.work == [short / model.cost().forward_macs] * 2


def test_teacher_forced_inference_gives_the_most_probable_word_after_each_given_one():
    model = Seq2SeqFwd("/cpu:0", {**SMALL, "decoding": "teacher-forced"})
    model.setup()
    free = Seq2SeqFwd("/cpu:0", SMALL)
    free.build()
    assert model.cost().forward_macs == free.cost().forward_macs
    translated = []

    def runstep(step, batch):
        translated.append((batch, step(*batch)))
        return translated[-1][1]

    assert model.run(runstep, 2, warmup=0).steps.work == [1.0, 1.0]
    (source, target), words = translated[0]
    trained = Seq2Seq("/cpu:0", SMALL)
    trained.build()
    for ours, theirs in zip(trained.network.variables, model.network.variables, strict=True):
        ours.assign(theirs)
    logits = trained.network((source, target)) @ tf.transpose(trained.decoder.softmax)
    logits = (logits + trained.decoder.softmax_bias).numpy()
    logits[..., [PAD, GO]] = -np.inf
    np.testing.assert_array_equal(words, logits.argmax(-1))
    assert model.evaluate().keys() == {"examples", "bleu"}  # of free decoding


def test_the_encoder_reads_the_source_from_its_end():
    model = model_of()
    model.build()
    words = model.encoder(tf.constant([[5, 6, 7, PAD]]))[0]
    assert words.numpy().tolist() == [[PAD, 7, 6, 5]]


def test_padding_to_a_larger_bucket_changes_neither_outputs_nor_loss():
    model = model_of(samples=0)
    model.build()
    source, target = tf.constant([[5, 6, 7], [8, 9, 10]]), tf.constant([[GO, 5, 6], [GO, 7, 8]])
    words = tf.constant([[5, 6, EOS], [7, 8, EOS]])
    padded = [tf.pad(t, [[0, 0], [0, 4]], constant_values=PAD) for t in (source, target, words)]
    short = model.network((source, target))
    long = model.network(tuple(padded[:2]))
    np.testing.assert_allclose(long[:, :3], short, atol=1e-6)
    np.testing.assert_allclose(
        model.build_loss(None, padded[2], long), model.build_loss(None, words, short), rtol=1e-6
    )


def test_initial_weights_are_uniform_in_the_papers_range():
    model = Seq2Seq("/cpu:0", {"source_vocabulary": 1000, "target_vocabulary": 1000})
    model.build()
    for variable in model.network.trainable_variables:
        values = np.abs(variable.numpy())
        assert values.max() <= 0.08, variable.path
        assert values.mean() == pytest.approx(0.04, rel=0.25), variable.path


def test_the_evaluated_cross_entropy_is_that_of_the_whole_softmax():
    model = model_of()
    model.build()
    words = tf.constant([[5, 6, EOS, PAD], [7, EOS, PAD, PAD]])
    outputs = model.network((words, words))
    metrics = model.build_evaluation(None, words, outputs)
    logits = outputs @ tf.transpose(model.decoder.softmax) + model.decoder.softmax_bias
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(words, logits).numpy()
    np.testing.assert_allclose(
        metrics["cross_entropy"], [each[0, :3].sum(), each[1, :2].sum()], rtol=1e-5
    )
    assert metrics["words"].numpy().tolist() == [3, 2]
    total = model.total_metrics({"cross_entropy": 10.0, "words": 5.0}, 2)
    assert total["perplexity"] == pytest.approx(np.exp(2))


@pytest.mark.slow
def test_each_epoch_notes_the_validation_perplexity_and_lowers_the_rate_where_it_stalls():
    model = model_of(learning_rate_decay=0.5)
    model.setup()
    model.end_epoch(0)
    rate = float(model.optimizer.learning_rate)
    model.end_epoch(1)  # nothing was learned in between
    assert float(model.optimizer.learning_rate) == rate / 2
    (first, perplexity), (_, same) = model.history["validation_perplexity"]
    assert first == 0
    assert perplexity == same


@pytest.mark.slow
def test_a_few_steps_lower_the_loss_on_the_synthetic_text():
    model = model_of(optimizer="adam", learning_rate=0.01, units=32, samples=0, batch_size=32)
    model.setup()
    losses = model.run(n_steps=60).steps.loss
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])


@pytest.mark.slow
def test_a_network_overfitted_to_a_pair_translates_it():
    model = model_of(
        optimizer="adam", learning_rate=0.02, units=24, samples=0, batch_size=4, buckets="8-9"
    )
    model.setup()
    batch = next(model.training_batches(0))
    model.run(runstep=lambda step, _: step(*batch), n_steps=150)
    translated = model.translate(batch.source).numpy()
    np.testing.assert_array_equal(translated, batch.words.numpy())


@pytest.mark.slow
def test_the_forward_only_twin_translates_as_the_trained_network_and_writes_its_translations(
    tmp_path,
):
    trained = model_of()
    trained.setup({"checkpoint_dir": str(tmp_path)})
    trained.run(n_steps=2)
    model = Seq2SeqFwd("/cpu:0", SMALL)
    model.setup({"checkpoint_dir": str(tmp_path)})
    (source,) = next(model.inference_batches())
    translated = []
    model.run(runstep=lambda step, batch: translated.append(step(*batch)), n_steps=1)
    np.testing.assert_array_equal(translated[0], trained.translate(source))
    np.testing.assert_array_equal(model.infer_step(source), translated[0])  # in one part, not two
    metrics = model.evaluate()
    assert metrics["examples"] == 200
    assert 0 <= metrics["bleu"] <= 100
    translations, attention = model.save_pictures(tmp_path)
    assert translations.read_text(encoding="utf-8").count("translation: ") == 200
    assert attention.stat().st_size > 1000


def test_the_result_has_the_speed_of_encoder_and_decoder_unless_it_reads_the_target():
    model = Seq2SeqFwd("/cpu:0", {**SMALL, "beam_size": 2})
    model.setup()
    result = model.run(n_steps=3)
    speed = result.generation
    assert (speed.sequences, speed.prompt_tokens) == (8, 16)
    assert 1 <= speed.new_tokens <= 18
    # Of 2 hypotheses of 8 sentences: 16 states and keys, an output, 2 layers' states and memories.
    assert speed.cache_bytes == 2 * 8 * (2 * 16 + 1 + 4) * 8 * 4
    both = speed.seconds_to_first_token + (speed.new_tokens - 1) * speed.seconds_per_output_token
    assert 0 < both <= 1.5 * max(result.steps.seconds)
    forced = Seq2SeqFwd("/cpu:0", {**SMALL, "decoding": "teacher-forced"})
    forced.setup()
    assert forced.run(n_steps=1).generation is None


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_an_empty_translation_in_bfloat16_is_pictured_without_a_warning(tmp_path):
    model = model_of(precision="bfloat16")
    model.setup()
    model.evaluate()
    model.translations[0, 0] = EOS
    assert next(model._alignments()).attention.dtype == np.float32
    assert model.save_pictures(tmp_path)[1].exists()


def test_bleu_is_sacrebleus_of_the_sentences_as_written():
    translated = ["Ein Hund läuft über die Wiese .", "Zwei Männer sitzen auf einer Bank."]
    right = ["Ein Hund läuft über die Wiese.\n", "zwei Frauen sitzen auf einer Bank.\n"]
    expected = sacrebleu.corpus_bleu(translated, [[line.strip() for line in right]])
    assert evaluation.bleu(translated, right) == expected.score
    assert evaluation.bleu(translated, right, lowercase=True) > expected.score


def test_pairs_that_are_left_out_are_counted_and_reported(text_folder):
    model = built(data_dir=text_folder(), batch_size=4)
    assert model.notes == [
        "left out: pairs with a blank side: 2",
        "left out: training pairs longer than the largest length: 3",
    ]
    assert model.describe_data()["training_pairs"] == 23
    assert model.steps_per_epoch == 5


def test_test_pairs_that_are_left_out_are_reported(text_folder):
    model = built(data_dir=text_folder(test_2016_flickr=[("a", "A"), ("", "B")]), batch_size=4)
    assert "left out: test pairs with a blank side: 1" in model.notes


def test_test_pairs_that_are_cut_are_reported(text_folder):
    long = " ".join(["a"] * 60)
    model = built(data_dir=text_folder(test_2016_flickr=[("a", "A"), (long, "B")]), batch_size=4)
    assert "cut: test pairs longer than the largest length: 1" in model.notes


def test_a_text_without_test_pairs_cannot_be_evaluated(text_folder):
    model = built(data_dir=text_folder(), batch_size=4)
    model.end_epoch(0)  # nor is there anything to validate on
    assert model.history == {}
    with pytest.raises(FathomError, match="no test text"):
        model.test_metrics()


def test_long_test_sentences_are_cut_but_translated(text_folder):
    long = [("w " * 40, "W " * 40), ("a b1 c", "A B1")]
    model = Seq2SeqFwd("/cpu:0", {**SMALL, "data_dir": text_folder(test_2016_flickr=long)})
    model.load_data()
    model.build()
    assert model.translate_text(model.test).shape == (2, 18)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_vocabulary": 4}, "target_vocabulary must be at least 5"),
        ({"source_vocabulary": 0}, "source_vocabulary must be at least 5"),
        ({"size": "huge"}, "size must be one of fathom, sutskever"),
        ({"size": ["fathom"]}, "size must be text"),
        ({"buckets": "9-8 5-5"}, "buckets must be"),
        ({"dropout": 1.0}, "dropout must be less than 1"),
        ({"learning_rate_decay": 0.0}, "learning_rate_decay must be more than 0"),
        ({"beam_size": 0}, "beam_size must be at least 1"),
        ({"target_language": "fr"}, "no training text of en and fr"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_choice_that_makes_no_sense_is_refused_in_one_line(options, message):
    with pytest.raises(FathomError, match=message) as error:
        model_of(**options).load_data()
    assert "\n" not in str(error.value)


def test_the_step_is_compiled_once_for_each_bucket():
    model = model_of(buckets="8-9 16-18")
    model.load_data()
    shapes = [[tuple(spec.shape) for spec in signature] for signature in model.signatures()]
    assert shapes == [[(8, s), (8, t), (8, t)] for s, t in (Bucket(8, 9), Bucket(16, 18))]


@pytest.mark.slow
def test_the_first_step_of_each_bucket_is_marked():
    model = model_of(buckets="4-5 8-9 16-18")
    model.setup()
    lengths = []

    def runstep(step, batch):
        lengths.append(batch[0].shape[1])
        return step(*batch)

    steps = model.run(runstep=runstep, n_steps=8, warmup=0).steps
    assert steps.first_of_shape == [length not in lengths[:i] for i, length in enumerate(lengths)]
    assert len(steps.counted) == 8 - len(set(lengths)) < 8


@pytest.mark.parametrize("attention", [True, False])
def test_beam_search_is_one_option_away(attention):
    translated = []
    for size in (1, 3):
        model = Seq2SeqFwd("/cpu:0", {**SMALL, "beam_size": size, "attention": attention})
        model.load_data()
        model.build()
        assert keras.tree.flatten(model.outputs)[0].dtype == "int32"
        translated.append(model.network(tf.constant([[5, 6, 7]])))
    assert translated[0].shape == translated[1].shape == (1, 18)
