"""ResNet-34 in NumPy, float64, written from the paper alone.

Each function returns its value and a function that takes the value's gradient back: it returns the
gradient of the first argument and notes those of the weights in ``gradients``, by name.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

EPSILON = 1e-5


def convolution(x, weights, name, strides, gradients):
    kernel = weights[f"{name}/kernel"]
    size = len(kernel)
    edge = size // 2
    padded = np.pad(x, [(0, 0), (edge, edge), (edge, edge), (0, 0)])
    patches = sliding_window_view(padded, (size, size), (1, 2))[:, ::strides, ::strides]
    y = np.tensordot(patches, kernel, ((4, 5, 3), (0, 1, 2)))
    height, width = y.shape[1:3]

    def back(dy):
        gradients[f"{name}/kernel"] = np.tensordot(patches, dy, ((0, 1, 2), (0, 1, 2))).transpose(
            1, 2, 0, 3
        )
        dx = np.zeros_like(padded)
        for i in range(size):
            for j in range(size):
                rows, columns = (
                    slice(i, i + strides * height, strides),
                    slice(j, j + strides * width, strides),
                )
                dx[:, rows, columns] += dy @ kernel[i, j].T
        return dx[:, edge : dx.shape[1] - edge, edge : dx.shape[2] - edge]

    return y, back


def normalization(x, weights, name, training, gradients):
    scale, offset = weights[f"{name}/scale"], weights[f"{name}/offset"]
    mean, variance = weights[f"{name}/mean"], weights[f"{name}/variance"]
    if training:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    deviation = np.sqrt(variance + EPSILON)
    normal = (x - mean) / deviation

    def back(dy):
        gradients[f"{name}/offset"] = dy.sum((0, 1, 2))
        gradients[f"{name}/scale"] = (dy * normal).sum((0, 1, 2))
        d = dy * scale
        return (d - d.mean((0, 1, 2)) - normal * (d * normal).mean((0, 1, 2))) / deviation

    return scale * normal + offset, back


def normalized_convolution(x, weights, name, strides, training, gradients):
    y, convolution_back = convolution(x, weights, name, strides, gradients)
    y, normalization_back = normalization(y, weights, f"{name}/norm", training, gradients)
    return y, lambda dy: convolution_back(normalization_back(dy))


def relu(x):
    return np.maximum(x, 0), lambda dy: dy * (x > 0)


def max_pooling(x):
    """Pools 3 x 3 windows, 2 apart, the last of which hang over the right and lower edge."""
    padded = np.pad(x, [(0, 0), (0, 1), (0, 1), (0, 0)], constant_values=-np.inf)
    windows = sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
    flat = windows.reshape(*windows.shape[:4], 9)
    largest = flat.argmax(-1)

    def back(dy):
        dx = np.zeros(padded.shape)
        n, i, j, c = np.indices(dy.shape)
        np.add.at(dx, (n, 2 * i + largest // 3, 2 * j + largest % 3, c), dy)
        return dx[:, :-1, :-1]

    return flat.max(-1), back


def identity_shortcut(x, filters, strides):
    y = np.zeros((len(x), *x[:, ::strides, ::strides].shape[1:3], filters))
    y[..., : x.shape[3]] = x[:, ::strides, ::strides]

    def back(dy):
        dx = np.zeros_like(x)
        dx[:, ::strides, ::strides] = dy[..., : x.shape[3]]
        return dx

    return y, back


def block(x, weights, name, filters, strides, projection, training, gradients):
    y, a_back = normalized_convolution(x, weights, f"{name}a", strides, training, gradients)
    y, a_relu_back = relu(y)
    y, b_back = normalized_convolution(y, weights, f"{name}b", 1, training, gradients)
    shortcut, shortcut_back = x, lambda dy: dy
    if strides > 1 and projection:
        shortcut, shortcut_back = normalized_convolution(
            x, weights, f"{name}_shortcut", strides, training, gradients
        )
    elif strides > 1:
        shortcut, shortcut_back = identity_shortcut(x, filters, strides)
    y, relu_back = relu(y + shortcut)

    def back(dy):
        dy = relu_back(dy)
        return a_back(a_relu_back(b_back(dy))) + shortcut_back(dy)

    return y, back


def network(x, weights, filters, projection, training, gradients):
    x, back = normalized_convolution(x, weights, "conv1", 2, training, gradients)
    backs = [back]
    for function in (relu, max_pooling):
        x, back = function(x)
        backs.append(back)
    for stage, n_blocks in ((2, 3), (3, 4), (4, 6), (5, 3)):
        for number in range(1, n_blocks + 1):
            strides = 2 if number == 1 and stage > 2 else 1
            name = f"conv{stage}_{number}"
            x, back = block(x, weights, name, filters, strides, projection, training, gradients)
            backs.append(back)
        filters *= 2
    area = x.shape[1] * x.shape[2]
    features, kernel = x.mean((1, 2)), weights["fc/kernel"]

    def network_back(dy):
        gradients["fc/kernel"], gradients["fc/bias"] = features.T @ dy, dy.sum(0)
        d = np.broadcast_to((dy @ kernel.T / area)[:, None, None], x.shape)
        for back in reversed(backs):
            d = back(d)
        return d

    return features @ kernel + weights["fc/bias"], network_back
