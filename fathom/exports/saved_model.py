"""TensorFlow's SavedModel: the forward pass with the weights, which needs no Fathom to run.

Its one signature, ``serving_default``, takes the network's inputs by name.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from fathom.exports.format import ExportOptions, NetworkFormat, writing

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel


def _save(model: "NeuralNetworkModel", folder: Path, options: ExportOptions) -> tuple[str, ...]:
    """Writes the SavedModel."""
    import tensorflow as tf

    from fathom.exports.traced import RANDOM, draws_random_numbers, forward, signature

    traced = forward(model, signature(model, options)).get_concrete_function()
    module = tf.Module()
    order = [id(captured) for captured in traced.captured_inputs]
    variables = [each for each in traced.graph.variables if id(each.handle) in order]
    module.variables_read = sorted(variables, key=lambda each: order.index(id(each.handle)))
    saving = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    with writing(folder):
        tf.saved_model.save(module, str(folder), signatures=traced, options=saving)
        # A random number, which would make two exports of the same network differ.
        (folder / "fingerprint.pb").unlink(missing_ok=True)
    return (RANDOM,) * draws_random_numbers(traced)


FORMAT = NetworkFormat(about="TensorFlow's SavedModel of the forward pass", save_network=_save)
