"""The graph convolutional network: Kipf and Welling 2017.

"Semi-Supervised Classification with Graph Convolutional Networks" (arXiv:1609.02907); section and
equation numbers are the paper's.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from fathom.core.layers import Dropout
from fathom.core.training import optimizers
from fathom.core.training.optimizers import Optimizer
from fathom.modern.gcn.cora import Cora
from fathom.modern.gcn.descriptor import DESCRIPTOR
from fathom.modern.gcn.layers import (
    FeatureProduct,
    Propagation,
    SparseMatrix,
    normalized_adjacency,
    normalized_rows,
)
from fathom.options import Characterization, Hyperparameters, hyperparameter
from fathom.results import cost
from fathom.shared.in_memory import InMemory
from fathom.system.device import CPU


@dataclass(frozen=True)
class GCNHyperparameters(Hyperparameters):
    """The choices of section 5.2 for citation networks."""

    batch_size: int = hyperparameter(
        140, "whose loss a step takes; it computes the whole graph", unit="nodes", minimum=1
    )
    hidden_units: int = hyperparameter(16, "columns of W0", source="section 5.2", minimum=1)
    dropout: float = hyperparameter(0.5, "of both layers' inputs", source="section 5.2", below=1)
    weight_decay: float = hyperparameter(5e-4, "L2 of W0 alone", source="section 5.2")
    optimizer: str = optimizers.choice("adam", source="section 5.2")
    learning_rate: float = hyperparameter(0.01, "of the optimizer", source="section 5.2")
    patience: int = hyperparameter(
        10, "then weights stay; 0: never", unit="epochs without progress", source="section 5.2"
    )


class GCN(InMemory):
    """softmax(A' ReLU(A' X W0) W1) (equation 9); a batch names the nodes of the loss."""

    descriptor = DESCRIPTOR
    small_operations = True
    indivisible = "each would compute the whole graph"
    Hyperparameters = GCNHyperparameters
    hyperparameters: GCNHyperparameters
    example = "nodes"
    default_steps = 200  # section 5.2: the most epochs
    sized_by_data = True
    undistributable = "each replica would compute the whole graph, whatever its part of the nodes"
    characterization = Characterization(steps=100, quick_steps=50)

    def load_data(self) -> None:
        """Reads the graph; examples are nodes with their classes."""
        graph: Cora = self.dataset.load(self.source.directory)
        self.graph, parts = graph, (graph.train, graph.validation, graph.test)
        with CPU.placement():
            self.training, self._validation, self.test = (
                (tf.constant(nodes), tf.constant(graph.classes[nodes])) for nodes in parts
            )

    def build_state(self) -> None:
        """Creates the variable of the last validation losses."""
        with self.device.placement():
            self._losses = tf.Variable(tf.zeros([self.hyperparameters.patience + 1]))

    def build_inputs(self) -> keras.KerasTensor:
        """Returns the nodes whose classes are asked for: int32 [batch]."""
        return keras.Input((), dtype="int32", name="nodes")

    def build_labels(self) -> keras.KerasTensor:
        """Returns their classes: int32 [batch]."""
        return keras.Input((), dtype="int32", name="classes")

    def build_inference(self, nodes: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the logits of the nodes' classes: float32 [batch, classes]."""
        hyperparameters, graph = self.hyperparameters, self.graph
        units, classes = hyperparameters.hidden_units, len(graph.class_names)
        edges = normalized_adjacency(graph.edges, len(graph.classes))
        adjacency = SparseMatrix(edges)
        features = SparseMatrix(normalized_rows(graph.features))
        x = FeatureProduct(
            features, units, hyperparameters.dropout, self.new_noise(), self._weights(), name="W0"
        )(nodes)
        x = Propagation(adjacency, units, name="propagation0")(x)
        x = layers.ReLU(name="hidden")(x)
        x = Dropout(hyperparameters.dropout, self.new_noise(), name="dropout")(x)
        x = layers.Dense(classes, use_bias=False, kernel_initializer=self._weights(), name="W1")(x)
        x = Propagation(adjacency, classes, name="propagation1")(x)
        return keras.ops.take(x, nodes, axis=0)

    def build_loss(self, nodes: tf.Tensor, classes: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy of the labelled nodes, in nats (equation 10)."""
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits))

    def build_train(self) -> Optimizer:
        """By default Adam, with L2 regularization of the first layer alone (section 5.2)."""
        hyperparameters = self.hyperparameters
        return optimizers.create(
            hyperparameters.optimizer,
            hyperparameters.learning_rate,
            weight_decay=hyperparameters.weight_decay,
            decayed=lambda variable: variable.path.startswith("W0"),
        )

    def build_evaluation(
        self, nodes: tf.Tensor, classes: tf.Tensor, logits: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns each node's cross-entropy, in nats, and whether its class is found."""
        found = tf.argmax(logits, axis=1, output_type=tf.int32) == classes
        return {
            "accuracy": tf.cast(found, tf.float32),
            "cross_entropy": tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits),
        }

    def work(self, *batch: tf.Tensor) -> float:
        """Returns the nodes of the graph, all of which are computed, over those of the batch."""
        return len(self.graph.classes) / self.hyperparameters.batch_size

    def cost(self) -> cost.Cost:
        """Counts parameters and work; A' is constant, so propagation has one gradient, not two."""
        counted = super().cost()
        layers = (
            layer.model_copy(update={"reads_input": layer.reads_input or not layer.parameters})
            for layer in counted.layers
        )
        return dataclasses.replace(counted, layers=tuple(layers))

    def _weights(self) -> keras.initializers.Initializer:
        return keras.initializers.GlorotUniform(seed=self.new_seed())

    # ---------------------------------------------------------------- early stopping

    def state(self) -> dict[str, tf.Variable]:
        """Returns the last validation losses, the newest last."""
        return {"validation_losses": self._losses}

    def end_epoch(self, epoch: int) -> None:
        """Stops learning where the validation loss exceeds its mean over the epochs before it.

        This is the rule of the published code, whose validation loss includes the L2 term, as its
        training loss does. The weights stay as they are from then on.
        """
        patience = self.hyperparameters.patience
        if not patience:
            return
        loss = self.metrics_of([self._validation])["cross_entropy"]
        w0 = self.network.get_layer("W0").kernel.numpy()
        loss += self.hyperparameters.weight_decay * float(np.sum(w0**2)) / 2
        self.note("validation_loss", loss)
        before = self._losses[1:]
        self._losses.assign(tf.concat([before, [loss]], 0))
        full = bool(tf.reduce_all(before > 0))  # not where larger batches begin at a later epoch
        if epoch > patience and full and loss > tf.reduce_mean(before):
            self.learning_rate.assign(0)
            assert self.optimizer is not None
            self.optimizer.forget()  # a velocity would move the weights on

    # ---------------------------------------------------------------- data

    @property
    def evaluated(self) -> int:
        """Test nodes in a batch: all, as each computes the whole graph."""
        return len(self.graph.test)

    def describe_data(self) -> dict[str, Any]:
        """Returns the size of the graph."""
        nodes, features = self.graph.features.shape
        return {"nodes": nodes, "edges": len(self.graph.edges), "features": features}

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes a picture of the test nodes' hidden representations."""
        from fathom.modern.gcn import pictures  # Matplotlib is slow to import

        hidden = keras.Model(self.network.input, self.network.get_layer("hidden").output)
        values = hidden(tf.constant(self.graph.test)).numpy()[self.graph.test]
        return [pictures.save(directory, values, self.graph)]


class GCNFwd(GCN):
    """The graph convolutional network, inference only."""

    forward_only = True
    default_xla = "step"  # TensorFlow's sparse product is slow: docs/performance.md
