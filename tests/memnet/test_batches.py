from types import SimpleNamespace

import numpy as np

from fathom.core.data.pipeline import Sampler
from fathom.core.training import replicas
from fathom.memnet import batches


class Questions(SimpleNamespace):
    """Twelve questions, told apart by their numbers."""

    story = question = answer = np.arange(12)

    def __len__(self):
        return 12


def test_a_worker_has_its_rows_of_each_batch_of_an_epoch():
    questions, order = Questions(), Sampler(12, 12, seed=3)

    def epoch():
        return next(batches.epochs(questions, order, steps=3, first=0, training=True))[0].numpy()

    whole, parts = epoch(), []
    for index in range(2):
        workers = SimpleNamespace(index=index, num_replicas_in_sync=2)
        with replicas.scope_of(workers, in_step=False):
            parts.append(epoch())
    assert whole.shape == (3, 4)
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)
