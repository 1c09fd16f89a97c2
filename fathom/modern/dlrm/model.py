"""The deep learning recommendation model: Naumov et al. 2019 (arXiv:1906.00091), "DLRM".

Sizes and initialisation are those of the published code's setting for Criteo's Kaggle set.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from keras import layers

from fathom.core.training import optimizers
from fathom.core.training.optimizers import Optimizer
from fathom.modern.dlrm.criteo import CATEGORIES, NUMBERS, Criteo
from fathom.modern.dlrm.descriptor import DESCRIPTOR
from fathom.modern.dlrm.layers import EmbeddingTables, Interaction
from fathom.options import Characterization, Hyperparameters, hyperparameter
from fathom.shared.in_memory import InMemory
from fathom.system.device import CPU

BOTTOM = (512, 256, 64)
TOP = (512, 256)
COLUMNS = 16
_EVALUATED = 2_048  # examples at once


@dataclass(frozen=True)
class DLRMHyperparameters(Hyperparameters):
    """The published code's setting for Kaggle; categories are hashed."""

    batch_size: int = hyperparameter(128, "per step", unit="examples", minimum=1)
    rows: int = hyperparameter(
        *(10_000, "of each table; categories modulo"), minimum=2, maximum=2**31 // CATEGORIES
    )
    optimizer: str = optimizers.choice("sgd")
    learning_rate: float = hyperparameter(0.1, "of the optimizer")


class DLRM(InMemory):
    """13 numbers and 26 categories to the odds of a click."""

    descriptor = DESCRIPTOR
    divides_batches = True
    Hyperparameters = DLRMHyperparameters
    hyperparameters: DLRMHyperparameters
    default_steps = 3_000
    characterization = Characterization(steps=100, quick_steps=50)

    def load_data(self) -> None:
        """Reads the clicks, and finds the rows of their categories."""
        self.criteo: Criteo = self.dataset.load(self.source.directory)
        rows = rows_of(self.criteo.categories, self.hyperparameters.rows)
        self._hottest = hottest_share(rows, self.hyperparameters.rows)
        columns = self.criteo.numbers, rows, self.criteo.clicked
        cut = self.criteo.training_examples
        with CPU.placement():
            self.training = tuple(tf.constant(column[:cut]) for column in columns)
            self.test = tuple(tf.constant(column[cut:]) for column in columns)

    def build_inputs(self) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Returns numbers, float32 [batch, 13], and rows of the tables, int32 [batch, 26]."""
        return (
            keras.Input((NUMBERS,), name="numbers"),
            keras.Input((CATEGORIES,), dtype="int32", name="rows"),
        )

    def build_labels(self) -> keras.KerasTensor:
        """Returns whether the examples were clicked: int32 [batch], 0 or 1."""
        return keras.Input((), dtype="int32", name="clicked")

    def build_inference(self, inputs: Any) -> keras.KerasTensor:
        """Returns the log-odds of a click: float32 [batch]."""
        numbers, rows = inputs
        x = numbers
        for i, units in enumerate((*BOTTOM, COLUMNS)):
            x = self._dense(x, units, f"bottom{i + 1}", "relu")
        tables = EmbeddingTables(
            CATEGORIES, self.hyperparameters.rows, COLUMNS, self.new_seed(), name="tables"
        )
        vectors = layers.Concatenate(axis=1, name="vectors")(
            [layers.Reshape((1, COLUMNS), name="vector")(x), tables(rows)]
        )
        pairs = Interaction(name="interaction")(vectors)
        x = layers.Concatenate(name="features")([x, pairs])
        for i, units in enumerate(TOP):
            x = self._dense(x, units, f"top{i + 1}", "relu")
        return keras.ops.squeeze(self._dense(x, 1, "top3"), 1)

    def build_loss(self, inputs: Any, clicked: tf.Tensor, odds: tf.Tensor) -> tf.Tensor:
        """Returns the mean binary cross-entropy, in nats."""
        return tf.reduce_mean(_cross_entropy(clicked, odds))

    def build_train(self) -> Optimizer:
        """By default gradient descent, sparse for the tables."""
        hyperparameters = self.hyperparameters
        return optimizers.create(hyperparameters.optimizer, hyperparameters.learning_rate)

    def build_evaluation(
        self, inputs: Any, clicked: tf.Tensor, odds: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns each example's log loss, in nats, and whether its click is foreseen."""
        return {
            "accuracy": tf.cast((odds > 0) == (clicked == 1), tf.float32),
            "log_loss": _cross_entropy(clicked, odds),
        }

    def test_metrics(self) -> dict[str, float]:
        """Returns the metrics of the test part, with the area under the ROC curve."""
        metrics = super().test_metrics()
        odds, clicked = self._test_odds()
        metrics["auc"] = area_under_curve(odds, clicked)
        if self.criteo.odds is not None:
            metrics["best_auc"] = area_under_curve(self.criteo.odds[-len(clicked) :], clicked)
        return metrics

    def _test_odds(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the log-odds and the clicks of the test part."""
        odds = [self.network(batch[:2], training=False) for batch in self.evaluation_batches()]
        return np.concatenate(odds), self.criteo.clicked[self.criteo.training_examples :]

    # ---------------------------------------------------------------- data

    @property
    def evaluated(self) -> int:
        """Test examples in a batch."""
        return max(_EVALUATED, self.hyperparameters.batch_size)

    def describe_data(self) -> dict[str, Any]:
        """Returns the training examples, and the share of look-ups in the hottest rows."""
        examples = self.criteo.training_examples
        return {"train_examples": examples, "hottest_percent_share": self._hottest}

    # ---------------------------------------------------------------- network

    def _dense(
        self, x: keras.KerasTensor, units: int, name: str, activation: str | None = None
    ) -> keras.KerasTensor:
        """Applies a dense layer, initialised as in the published code."""
        deviation = (2 / (x.shape[1] + units)) ** 0.5
        return layers.Dense(
            units,
            activation,
            kernel_initializer=keras.initializers.RandomNormal(0, deviation, self.new_seed()),
            bias_initializer=keras.initializers.RandomNormal(0, units**-0.5, self.new_seed()),
            name=name,
        )(x)

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes a picture of the ROC curve of the test part."""
        from fathom.modern.dlrm import pictures  # Matplotlib is slow to import

        return [pictures.save(directory, *self._test_odds())]


class DLRMFwd(DLRM):
    """The recommendation model, inference only."""

    forward_only = True
    default_xla = "step"  # many short operations: docs/workloads/dlrm.md

    @property
    def small_operations(self) -> bool:
        """Whether there is one example, which is faster without a second thread."""
        return self.hyperparameters.batch_size == 1


def rows_of(categories: np.ndarray, rows: int) -> np.ndarray:
    """Returns the row of each category, int64: int32; the first is for the empty ones, -1."""
    return np.where(categories < 0, 0, 1 + categories % (rows - 1)).astype(np.int32)


def area_under_curve(scores: np.ndarray, clicked: np.ndarray) -> float:
    """Returns the probability that a clicked example's score exceeds another's; 0.5 for ties."""
    positive = int(clicked.sum())
    negative = len(clicked) - positive
    if not positive or not negative:
        return 0.5
    ranks = scipy.stats.rankdata(scores)[clicked == 1]
    return float((ranks.sum() - positive * (positive + 1) / 2) / (positive * negative))


def hottest_share(rows: np.ndarray, size: int) -> float:
    """Returns the share of look-ups [n, tables] in each table's hottest rows.

    They are a hundredth, rounded down, and at least one.
    """
    counts = [np.sort(np.bincount(column, minlength=size))[::-1] for column in rows.T]
    return float(sum(each[: max(1, size // 100)].sum() for each in counts) / rows.size)


def _cross_entropy(clicked: tf.Tensor, odds: tf.Tensor) -> tf.Tensor:
    """Returns the binary cross-entropy of each example, in nats, [batch]."""
    return tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(clicked, odds.dtype), odds)
