"""Batches of questions."""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from fathom.core.data.pipeline import DataLoader, Sampler, Tensors
from fathom.core.training import replicas
from fathom.memnet.babi import Questions
from fathom.system.device import CPU


def parts(questions: Questions, size: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Yields stories, questions and answers once, at most ``size`` at a time."""
    for start in range(0, len(questions), size):
        part = slice(start, start + size)
        yield questions.story[part], questions.question[part], questions.answer[part]


def epochs(
    questions: Questions, order: Sampler, steps: int, first: int, training: bool
) -> Iterator[Tensors]:
    """Returns an endless stream of epochs, whose batches are stacked: [steps, batch, ...].

    An epoch is loaded at once: loading such small batches one by one costs too much.
    """
    rows = replicas.rows_of_worker(order.batch_size // steps)
    with CPU.placement():
        story, question = tf.constant(questions.story), tf.constant(questions.question)
        answer = tf.constant(questions.answer)

    def load(indices: tf.Tensor, seeds: tf.Tensor) -> Tensors:
        read = (story, question, answer) if training else (story, question)
        loaded = [tf.gather(tensor, indices) for tensor in read]
        stacked = [tf.reshape(tensor, (steps, -1, *tensor.shape[1:])) for tensor in loaded]
        return tuple(tensor[:, rows] for tensor in stacked)

    return DataLoader(order, load, first, cut=False)


def singly(epochs: Iterator[Tensors], first: int) -> Iterator[Tensors]:
    """Yields the batches of epochs one by one, from batch ``first`` of the first epoch on."""
    for epoch in epochs:
        for i in range(first, len(epoch[0])):
            yield tuple(tensor[i] for tensor in epoch)
        first = 0
