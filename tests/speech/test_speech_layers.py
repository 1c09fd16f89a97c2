import numpy as np
import pytest
import tensorflow as tf

from fathom.speech.layers import (
    BidirectionalRecurrent,
    ContextWindow,
    FrameLayer,
    clipped_relu,
    recurrence,
)

FRAMES, BATCH, UNITS, CLIP = 7, 3, 5, 1.5
LENGTHS = np.array([7, 4, 1], np.int32)


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def g(x):
    return np.minimum(np.maximum(x, 0), CLIP)


def valid():
    return (np.arange(FRAMES)[:, None, None] < LENGTHS[:, None]).astype(np.float32)


def test_a_window_holds_a_frame_between_its_neighbours_and_zeros_beyond_the_ends():
    x = random(2, 4, 3)
    windows, steps = ContextWindow(2)(tf.constant(x), tf.constant([4, 2]))
    windows = windows.numpy()
    assert windows.shape == (4, 2, 15)
    assert steps.numpy().tolist() == [4, 2]
    zero = np.zeros(3, np.float32)
    np.testing.assert_array_equal(windows[1, 0], np.concatenate([zero, *x[0, :4]]))
    np.testing.assert_array_equal(windows[1, 1], np.concatenate([zero, *x[1, :2], zero, zero]))


@pytest.mark.parametrize("frames", [5, 6, 7])
def test_a_stride_takes_the_windows_of_every_second_frame_from_the_first_on(frames):
    x, lengths = tf.constant(random(3, frames, 3)), tf.constant([frames, 4, 1])
    every, _ = ContextWindow(2)(x, lengths)
    windows, steps = ContextWindow(2, stride=2)(x, lengths)
    np.testing.assert_array_equal(windows, every[::2])
    assert steps.numpy().tolist() == [(frames + 1) // 2, 2, 1]


def test_a_frame_layer_is_the_same_for_every_frame():
    layer = FrameLayer(UNITS, CLIP, "glorot_uniform")
    x = random(FRAMES, BATCH, 4)
    y = layer(tf.constant(x)).numpy()
    np.testing.assert_allclose(y, g(x @ layer.kernel.numpy()), rtol=1e-4, atol=1e-6)
    linear = FrameLayer(UNITS, None, "glorot_uniform")
    y = linear(tf.constant(x)).numpy()
    np.testing.assert_allclose(y, x @ linear.kernel.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_the_gradient_of_a_bias_sums_all_frames(precision):
    layer = FrameLayer(2, None, "zeros", dtype=precision)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(layer(tf.ones([1000, 3, 4])), tf.float32))
    np.testing.assert_allclose(tape.gradient(loss, layer.bias.value), [3000, 3000], rtol=0.01)


def test_the_clipped_rectifier_and_its_gradient():
    x = tf.constant([-1.0, 0.0, 0.5, 1.4, 1.6, 9.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = clipped_relu(x, CLIP)
    np.testing.assert_array_equal(y, g(x.numpy()))
    np.testing.assert_array_equal(tape.gradient(y, x), [0, 0, 1, 1, 0, 0])


def states(z, kernel, backward):
    """The recurrence of each utterance by itself, one frame after the other."""
    h = np.zeros_like(z)
    for i, length in enumerate(LENGTHS):
        state = np.zeros(UNITS)
        times = range(length)
        for t in reversed(times) if backward else times:
            state = g(z[t, i] + state @ kernel)
            h[t, i] = state
    return h


@pytest.mark.parametrize("backward", [False, True])
def test_the_recurrence_begins_at_each_utterances_own_end(backward):
    z, kernel = random(FRAMES, BATCH, UNITS), random(UNITS, UNITS, seed=1)
    h = recurrence(tf.constant(z), tf.constant(kernel), tf.constant(valid()), CLIP, backward)
    np.testing.assert_allclose(h, states(z, kernel, backward), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("frames", [1, FRAMES])
def test_the_recurrences_gradient_is_the_one_of_automatic_differentiation(backward, frames):
    z, kernel = (tf.constant(random(*s)) for s in ((frames, BATCH, UNITS), (UNITS, UNITS)))
    mask, weight = tf.constant(valid()[:frames]), random(frames, BATCH, UNITS, seed=2)

    def plain(z, kernel):
        h, rows = tf.zeros([BATCH, UNITS]), {}
        times = range(frames)
        for t in reversed(times) if backward else times:
            h = tf.minimum(tf.maximum(z[t] + h @ kernel, 0), CLIP) * mask[t]
            rows[t] = h
        return tf.stack([rows[t] for t in times])

    def gradients(function):
        with tf.GradientTape() as tape:
            tape.watch([z, kernel])
            loss = tf.reduce_sum(weight * function(z, kernel) ** 2)
        return tape.gradient(loss, [z, kernel])

    ours = gradients(lambda z, kernel: recurrence(z, kernel, mask, CLIP, backward))
    for our, expected in zip(ours, gradients(plain), strict=True):
        np.testing.assert_allclose(our, expected, rtol=1e-4, atol=1e-5)


def test_layer_4_sums_both_directions_of_one_input_half():
    layer = BidirectionalRecurrent(UNITS, CLIP, ["glorot_uniform"] * 3)
    x = random(FRAMES, BATCH, 4)
    y = layer(tf.constant(x), tf.constant(LENGTHS)).numpy()
    z = x @ layer.kernel.numpy()
    expected = states(z, layer.forward_kernel.numpy(), backward=False)
    expected += states(z, layer.backward_kernel.numpy(), backward=True)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    assert layer.macs == (4 + 2 * UNITS) * UNITS
