from collections import Counter
from types import SimpleNamespace

import pytest
import tensorflow as tf

from fathom import FathomError
from fathom.measure.profile.gpu import Sessions
from fathom.measure.profile.windows import Windows, window_of_step
from fathom.system.device import CPU


def test_a_long_run_has_eleven_windows_of_five_steps_from_its_start_to_its_end():
    windows = window_of_step(1001)
    assert Counter(windows.values()) == dict.fromkeys(range(11), 5)
    starts = [min(step for step in windows if windows[step] == window) for window in range(11)]
    assert starts == pytest.approx([1 + 99.5 * i for i in range(11)], abs=0.5)
    assert max(windows) == 1000


@pytest.mark.parametrize(
    ("run_steps", "steps"), [(2, 1), (5, 4), (8, 7), (12, 11), (20, 11), (50, 22)]
)
def test_a_short_run_has_fewer_and_shorter_windows_and_never_the_first_step(run_steps, steps):
    windows = window_of_step(run_steps)
    assert len(windows) == steps
    assert (min(windows), max(windows)) == (1, run_steps - 1)


def test_a_run_whose_steps_are_all_the_first_of_their_shape_is_too_short():
    windows = Windows(SimpleNamespace(signatures=lambda: range(5)), 5, Sessions(CPU))
    for size in range(5):
        windows.step(tf.identity, (tf.zeros([size]),))
    with pytest.raises(FathomError, match=r"no step on a shape that came before: .* longer --life"):
        windows.life()
