"""The precision of computations: Keras' policy, and TF32 on GPUs."""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf

from fathom.errors import FathomError
from fathom.options import precision_traits
from fathom.system.device import Device

_TF32_CAPABILITY = (8, 0)  # least compute capability of a GPU with TF32: Ampere


def select_precision(precision: str, device: Device) -> None:
    """Makes float32 products on GPUs exact, or rounds their factors to TF32, for the whole process.

    TensorFlow's default is TF32 wherever a GPU has it.

    Raises:
        FathomError: the device does not have TF32, or fixed point.
    """
    traits = precision_traits(precision)
    tf32 = traits.tf32
    if traits.fixed and device.on_gpu:
        raise FathomError(f"precision {precision} is simulated on the CPU only: use --device cpu")
    if tf32 and not device.on_gpu:
        raise FathomError("precision tf32 is for GPUs only: use --device gpu or another precision")
    if tf32:
        gpu = tf.config.get_visible_devices("GPU")[0]
        details = tf.config.experimental.get_device_details(gpu)
        capability = details.get("compute_capability") or (0, 0)
        if capability < _TF32_CAPABILITY:
            raise FathomError(
                "precision tf32 needs a GPU of compute capability 8.0 or more; "
                f"{details.get('device_name', gpu.name)} has {'.'.join(map(str, capability))}"
            )
    tf.config.experimental.enable_tensor_float_32_execution(tf32)


@contextlib.contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """Makes Keras layers built in the block compute in ``precision``, with float32 weights.

    Images are channels last and numbers are float32, whatever the user's Keras is set to.
    """
    before, image_format = keras.config.dtype_policy(), keras.config.image_data_format()
    numbers = keras.config.floatx()
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy(precision_traits(precision).policy)
    keras.config.set_image_data_format("channels_last")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
        keras.config.set_image_data_format(image_format)
        keras.config.set_floatx(numbers)
