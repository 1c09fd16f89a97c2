"""The device of a run: a value, created where its name is read."""

import contextlib
import re
import reprlib
from dataclasses import dataclass

from fathom.errors import FathomError
from fathom.options import DEVICE_KINDS, DeviceKind
from fathom.system.words import counted


@dataclass(frozen=True)
class Device:
    """The CPU, or the one GPU that this process sees."""

    kind: DeviceKind  # ``cpu`` or ``gpu``

    @property
    def name(self) -> str:
        """TensorFlow's name: ``/cpu:0`` or ``/gpu:0``."""
        return f"/{self.kind}:0"

    @property
    def on_gpu(self) -> bool:
        """Whether this is a GPU."""
        return self.kind == "gpu"

    def placement(self) -> contextlib.AbstractContextManager[object]:
        """Returns the context in which TensorFlow puts variables and operations here."""
        import tensorflow as tf

        return tf.device(self.name)

    def start(self) -> None:
        """Makes TensorFlow take a GPU's memory, as its first operation would.

        Raises:
            FathomError: it cannot, such as where other processes have most of it.
        """
        if not self.on_gpu:
            return
        import tensorflow as tf

        try:
            tf.config.list_logical_devices("GPU")
        except tf.errors.InternalError as error:
            reason = " ".join(error.message.split())
            raise FathomError(
                f"the GPU cannot be used: {reason}; nvidia-smi lists what else uses it"
            ) from error

    def synchronize(self) -> None:
        """Waits until the device has done all that was asked of it; a CPU always has."""
        if self.on_gpu:
            import tensorflow as tf

            tf.test.experimental.sync_devices()

    def __str__(self) -> str:
        return self.name


CPU, GPU = Device("cpu"), Device("gpu")


def parse(name: str) -> tuple[Device, int]:
    """Returns the device and its number for a name such as ``gpu:1`` or ``/cpu:0``.

    Raises:
        FathomError: not a device name.
    """
    pattern = rf"/?(?:device:)?({'|'.join(DEVICE_KINDS)})(?::(\d+))?"
    match = re.fullmatch(pattern, name.lower()) if isinstance(name, str) else None
    if match is None:
        shown = " ".join(reprlib.repr(name).split())
        raise FathomError(f"unknown device {shown}: use cpu, gpu or gpu:N")
    return {"cpu": CPU, "gpu": GPU}[match[1]], int(match[2] or 0)


def select(name: str | None) -> Device:
    """Returns a device of this machine, and hides the other GPUs from this process.

    TensorFlow numbers the visible GPUs, so that the name of any GPU of the machine is ``/gpu:0``;
    ``gpu_number`` has its number among all of them.

    Args:
        name: ``cpu``, ``gpu``, ``gpu:N``, or TensorFlow's ``/cpu:0``; None for the first GPU if
            available, otherwise the CPU.

    Raises:
        FathomError: not a device name, no such device on this machine, or TensorFlow already runs
            with another GPU.
    """
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    device, index = parse(name if name is not None else "gpu" if gpus else "cpu")
    if device.on_gpu and index >= len(gpus):
        found = counted(len(gpus), "GPU") if gpus else "no GPU"
        raise FathomError(
            f"device {name} is not available: TensorFlow sees {found} on this machine; use "
            "--device cpu or install fathom-workloads[gpu]"
        )
    if not device.on_gpu and index > 0:
        raise FathomError(f"device {name} is not available: the CPU is one device, cpu")
    if device.on_gpu:
        try:
            tf.config.set_visible_devices(gpus[index], "GPU")
        except RuntimeError:
            raise FathomError(
                f"device gpu:{index} cannot be used any more: TensorFlow already runs in this "
                "process and sees other GPUs; choose it for the first model, or start a fresh "
                "process"
            ) from None
    return device


def gpu_number() -> int:
    """Returns the number of the first visible GPU among all GPUs of the machine."""
    import tensorflow as tf

    visible = tf.config.get_visible_devices("GPU")
    return tf.config.list_physical_devices("GPU").index(visible[0])
