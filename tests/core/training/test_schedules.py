from types import SimpleNamespace

import numpy as np
import tensorflow as tf

from fathom.core.training import strategies
from fathom.core.training.schedules import Plateau


def test_a_plateau_lowers_the_rate_after_patience_checks_without_improvement():
    rate = tf.Variable(1.0)
    plateau = Plateau(rate, factor=10.0, patience=2)
    lowered = [plateau.update(value) for value in (5.0, 4.0, 4.0, 4.5, 4.5, 3.0, 3.0, 3.0)]
    assert lowered == [False, False, False, True, False, False, False, True]
    np.testing.assert_allclose(rate, 0.01, rtol=1e-6)


def test_a_loss_that_is_not_a_number_counts_as_no_improvement():
    plateau = Plateau(tf.Variable(1.0), factor=2.0)
    assert plateau.update(float("nan"))
    assert plateau.best.numpy() == tf.float64.max


def test_a_worker_decides_by_the_value_of_the_first(monkeypatch):
    monkeypatch.setattr(strategies, "_meetings", [SimpleNamespace(of_first=lambda value: 3.0)])
    rate = tf.Variable(1.0)
    plateau = Plateau(rate, factor=2.0)
    assert not plateau.update(5.0)
    assert plateau.update(2.0)  # lower, but that of the first worker is not
    assert (plateau.best.numpy(), rate.numpy()) == (3.0, 0.5)


def test_a_plateau_goes_on_where_its_checkpoint_stood(tmp_path):
    plateau = Plateau(tf.Variable(1.0), factor=10.0, patience=2)
    plateau.update(0.1)
    plateau.update(0.2)
    path = tf.train.Checkpoint(plateau=plateau).write(str(tmp_path / "plateau"))

    restored = Plateau(tf.Variable(1.0), factor=10.0, patience=2)
    tf.train.Checkpoint(plateau=restored).read(path).assert_consumed()
    assert restored.best.numpy() == 0.1
    assert restored.update(0.1)
