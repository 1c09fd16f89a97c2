"""End-to-end memory networks: Sukhbaatar, Szlam, Weston and Fergus 2015, on the bAbI tasks.

Section and equation numbers are those of the paper (arXiv:1503.08895).
"""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from fathom import nn
from fathom.core.data.pipeline import Sampler, Tensors
from fathom.core.training.optimizers import Optimizer, create
from fathom.memnet import batches
from fathom.memnet.babi import Questions
from fathom.memnet.descriptor import DESCRIPTOR
from fathom.memnet.hyperparameters import (
    RATE_WITHOUT_LINEAR_START,
    MemNetHyperparameters,
    MemNetOptions,
)
from fathom.memnet.layers import (
    Attention,
    Response,
    SentenceEmbedding,
    StoryEmbedding,
    TemporalEncoding,
    TiedAnswer,
    position_weights,
)
from fathom.memnet.noise import RandomNoise
from fathom.memnet.restarts import RestartSchedule
from fathom.options import Characterization
from fathom.system.memory import require_free_memory

_AT_ONCE = 1_000  # questions per batch in evaluation


class MemNet(nn.NeuralNetworkModel):
    """The memory network: embedded sentences, K hops of attention over them, an answer."""

    descriptor = DESCRIPTOR
    small_operations = True
    Hyperparameters = MemNetHyperparameters
    hyperparameters: MemNetHyperparameters
    RunOptions = MemNetOptions
    run_options: MemNetOptions
    example = "questions"
    default_xla = "step"
    sized_by_data = True
    characterization = Characterization(
        steps=280,
        quick_steps=280,
        profile_setting="linear_start=false",  # past the sixth of a training without softmax
    )

    @classmethod
    def build_hyperparameters(cls, values: Mapping[str, object]) -> MemNetHyperparameters:
        """Returns the hyperparameters; the default learning rate depends on the linear start."""
        hyperparameters = MemNetHyperparameters.of(values)
        if hyperparameters.linear_start or "learning_rate" in values:
            return hyperparameters
        return dataclasses.replace(hyperparameters, learning_rate=RATE_WITHOUT_LINEAR_START)

    def load_data(self) -> None:
        """Reads the task."""
        hyperparameters = self.hyperparameters
        self.babi = self.dataset.load(
            self.source.directory,
            hyperparameters.task,
            hyperparameters.memory,
            hyperparameters.joint_vocabulary,
        )
        if not self.device.on_gpu:  # TensorFlow itself checks a GPU's memory
            require_free_memory(self._embedded_bytes(), "embedded stories", "set a smaller memory")

    def _embedded_bytes(self) -> int:
        """Returns the bytes of the embedded words of the largest batch of stories."""
        hyperparameters = self.hyperparameters
        stories = hyperparameters.batch_size
        if not self.forward_only:
            stories = max(stories, min(_AT_ONCE, len(self.babi.train)))
        words = stories * self.babi.train.story[0].size
        matrices = hyperparameters.hops + 1 if hyperparameters.tying == "adjacent" else 2
        return words * matrices * hyperparameters.embedding * np.dtype(np.float32).itemsize

    def build_state(self) -> None:
        """Lets the restart schedule keep the best weights, and computes losses for it."""
        with self.device.placement():
            self._trainings.watch([v.value for v in self.network.trainable_variables])
        self._losses = tf.function(
            lambda answer, *inputs: cross_entropy(answer, self.network(inputs, training=False)),
            autograph=False,
        )

    # ---------------------------------------------------------------- network

    def build_inputs(self) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Returns story int32 [batch, memory, words], the newest first, and question int32."""
        _, memory, words = self.babi.train.story.shape
        return (
            keras.Input((memory, words), name="story", dtype="int32"),
            keras.Input((words,), name="question", dtype="int32"),
        )

    def build_labels(self) -> keras.KerasTensor:
        """Returns the answers: int32 [batch], each a word of the vocabulary."""
        return keras.Input((), name="answer", dtype="int32")

    def build_inference(self, inputs: nn.Nest) -> keras.KerasTensor:
        """K hops over the memory, u^(k+1) = u^k + o^k (equation 4), then W u (equation 3)."""
        self._trainings = RestartSchedule(self.hyperparameters, self.execution.seed)
        build = {"adjacent": self._build_adjacent, "layer-wise": self._build_layer_wise}
        return build[self.hyperparameters.tying](*inputs)

    def _build_adjacent(
        self, story: keras.KerasTensor, question: keras.KerasTensor
    ) -> keras.KerasTensor:
        """A^(k+1) = C^k, B = A^1 and W^T = C^K (section 2.2, the first type of tying)."""
        hops = self.hyperparameters.hops
        names = ["A1", *(f"C{k}" for k in range(1, hops + 1))]
        matrices = [self._embedding(name) for name in names]
        memories = self._remember(story, matrices)
        u = matrices[0](question)
        for k in range(hops):
            u = layers.Add(name=f"u{k + 2}")([u, self._hop(k + 1, u, memories[k], memories[k + 1])])
        return TiedAnswer(matrices[-1], name="W")(u)

    def _build_layer_wise(
        self, story: keras.KerasTensor, question: keras.KerasTensor
    ) -> keras.KerasTensor:
        """All hops share A and C, and u^(k+1) = H u^k + o^k (the second type of tying)."""
        memory, output = self._remember(story, [self._embedding(name) for name in "AC"])
        u = self._embedding("B")(question)
        linear_map = self._dense(self.hyperparameters.embedding, "H")
        for k in range(1, self.hyperparameters.hops + 1):
            o = self._hop(k, u, memory, output)
            u = layers.Add(name=f"u{k + 1}")([linear_map(u), o])
        return self._dense(len(self.babi.vocabulary) - 1, "W")(u)

    def _hop(
        self, k: int, u: keras.KerasTensor, memory: keras.KerasTensor, output: keras.KerasTensor
    ) -> keras.KerasTensor:
        """Returns o^k, the response of the memory to the state u^k (section 2.1)."""
        p = Attention(self._trainings.linear, name=f"p{k}")(u, memory)
        return Response(name=f"o{k}")(p, output)

    def _embedding(self, name: str) -> SentenceEmbedding:
        words, dimensions = self.babi.train.question.shape[1], self.hyperparameters.embedding
        weights = np.ones((words, dimensions), np.float32)
        if self.hyperparameters.position_encoding:
            weights = position_weights(words, dimensions)
        return SentenceEmbedding(weights, len(self.babi.vocabulary), self._initializer(), name=name)

    def _remember(
        self, story: keras.KerasTensor, matrices: list[SentenceEmbedding]
    ) -> list[keras.KerasTensor]:
        """Returns the memory vectors [batch, memory, d] for each matrix."""
        embedded = StoryEmbedding(matrices, name="story_embedding")(story)
        hyperparameters = self.hyperparameters
        if not hyperparameters.temporal_encoding:
            return embedded
        gaps = RandomNoise(hyperparameters.random_noise, self.new_noise(), name="noise")(story)
        return [
            TemporalEncoding(self._initializer(), name=f"T_{matrix.name}")(memories, story, gaps)
            for matrix, memories in zip(matrices, embedded, strict=True)
        ]

    def _dense(self, units: int, name: str) -> layers.Dense:
        return layers.Dense(
            units, use_bias=False, kernel_initializer=self._initializer(), name=name
        )

    def _initializer(self) -> keras.initializers.Initializer:
        return keras.initializers.RandomNormal(
            stddev=self.hyperparameters.initial_stddev, seed=self.new_seed()
        )

    # ---------------------------------------------------------------- training

    def build_loss(self, inputs: nn.Nest, answer: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Returns the cross-entropy in nats, summed over the batch, not averaged (section 4.2)."""
        return tf.reduce_sum(cross_entropy(answer, logits))

    def loss_denominator(self, labels: nn.Nest) -> None:
        """The loss is a sum."""

    def build_train(self) -> Optimizer:
        """By default gradient descent without momentum; each matrix's gradient is clipped."""
        hyperparameters = self.hyperparameters
        return create(
            hyperparameters.optimizer,
            hyperparameters.learning_rate,
            clip_norm=hyperparameters.clip_norm,
        )

    def build_evaluation(
        self, inputs: nn.Nest, answer: tf.Tensor, logits: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns each question's cross-entropy in nats, and 100 if the answer is wrong."""
        wrong = tf.argmax(logits, 1, tf.int32) + 1 != answer
        return {
            "cross_entropy": cross_entropy(answer, logits),
            "error_percent": 100 * tf.cast(wrong, tf.float32),
        }

    @property
    def steps_per_epoch(self) -> int:
        """Number of whole batches in the training questions."""
        return len(self.babi.train) // self.hyperparameters.batch_size

    @property
    def default_steps(self) -> int:
        """The steps of all trainings together."""
        return self.hyperparameters.restarts * self._trainings.epochs_each * self.steps_per_epoch

    @property
    def steps_per_call(self) -> int:
        """Steps per call of the compiled step: by default an epoch's."""
        return self.run_options.steps_per_call or max(1, self.steps_per_epoch)

    def end_epoch(self, epoch: int) -> None:
        """Starts the next phase of the training, or the next training, when due."""
        assert self.optimizer is not None
        self._trainings.end_epoch(
            self.optimizer,
            lambda: self.mean_loss(self.babi.validation),
            lambda: self.mean_loss(self.babi.train),
            self.note,
        )

    def state(self) -> dict[str, tf.Variable]:
        """Returns the state of the restart schedule."""
        return self._trainings.state()

    def restore_state(self) -> None:
        """Loads the best weights for inference."""
        if self.forward_only:
            self._trainings.take_best()

    def test_metrics(self) -> dict[str, float]:
        """Returns the error in percent and the cross-entropy in nats of the test questions.

        Evaluates the best training so far, or the first until it ends. For several tasks together
        the result includes the error of each.
        """
        with self._trainings.best_weights():
            metrics = super().test_metrics()
            if len(self.babi.tasks) > 1:
                wrong = self.answer(self.babi.test)[0] != self.babi.test.answer
                for task in self.babi.tasks:
                    error = 100 * wrong[self.babi.test.task == task].mean()
                    metrics[f"error_percent_task_{task}"] = float(error)
        return metrics

    def mean_loss(self, questions: Questions) -> float:
        """Returns the mean cross-entropy of questions in nats, without random noise."""
        losses = [
            self._losses(answer, *inputs) for *inputs, answer in batches.parts(questions, _AT_ONCE)
        ]
        return float(np.concatenate(losses).mean(dtype=np.float64))

    def answer(self, questions: Questions) -> tuple[np.ndarray, np.ndarray]:
        """Answers questions.

        Returns:
            the answers int [n], and the attention of each hop, float32 [n, memory, hops].
        """
        attention = [
            self.network.get_layer(f"p{k + 1}").output for k in range(self.hyperparameters.hops)
        ]
        network = keras.Model(self.inputs, [self.outputs, *attention])
        words, weights = [], []
        for *inputs, _ in batches.parts(questions, _AT_ONCE):
            logits, *p = network(inputs, training=False)
            words.append(np.argmax(logits, 1) + 1)
            weights.append(np.stack(p, -1).astype(np.float32))
        return np.concatenate(words), np.concatenate(weights)

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes some test questions with their answers and the attention to their stories."""
        from fathom.memnet import answers  # Matplotlib is slow to import

        with self._trainings.best_weights():
            given, attention = self.answer(self.babi.test)
        chosen = answers.choose(self.babi, given, attention, self.execution.seed)
        return answers.save(chosen, directory)

    # ---------------------------------------------------------------- data

    def training_batches(self, first_step: int) -> Iterator[Tensors]:
        """Returns the endless stream of training questions."""
        return self._stream(self.babi.train, first_step, training=True)

    def inference_batches(self) -> Iterator[Tensors]:
        """Returns an endless stream of test questions without answers, cycling through them."""
        return self._stream(self.babi.test, 0, training=False)

    def evaluation_batches(self) -> Iterator[Tensors]:
        """Returns the test questions once."""
        for part in batches.parts(self.babi.test, self.hyperparameters.batch_size):
            yield tuple(map(tf.constant, part))

    def _stream(self, questions: Questions, first_step: int, training: bool) -> Iterator[Tensors]:
        """Returns batches, or blocks with an epoch of batches."""
        steps = max(1, self.steps_per_epoch)
        size = steps * self.hyperparameters.batch_size
        order = Sampler(len(questions), size, self.execution.seed, shuffle=training)
        epochs = batches.epochs(questions, order, steps, first_step // steps, training)
        return epochs if self.steps_per_call > 1 else batches.singly(epochs, first_step % steps)

    def describe_data(self) -> dict[str, object]:
        """Returns the tasks, and the numbers of questions and words."""
        return {
            "tasks": list(self.babi.tasks),
            "train": len(self.babi.train),
            "validation": len(self.babi.validation),
            "test": len(self.babi.test),
            "vocabulary": len(self.babi.vocabulary) - 1,
        }


class MemNetFwd(MemNet):
    """The memory network, inference only."""

    forward_only = True


def cross_entropy(answer: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Returns -log of each correct answer's probability, in nats, [batch].

    Args:
        answer: int32 [batch], words of the vocabulary except the null word.
        logits: float32 [batch, vocabulary - 1], of all words except the null word.
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(answer - 1, logits)
