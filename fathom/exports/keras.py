"""Keras' own archive: the layers with their arguments and weights; ``load`` reads it again.

Keras writes the date and addresses in memory into it. They are replaced, so that the same network
is the same file.
"""

import importlib
import json
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from fathom.errors import FathomError
from fathom.exports.format import ExportOptions, NetworkFormat, writing

if TYPE_CHECKING:
    import keras

    from fathom.nn import NeuralNetworkModel

_FILE = "network.keras"
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest of a ZIP archive


def load(path: Path) -> "keras.Model":
    """Returns the network of a ``network.keras``; it may be trained further with Keras.

    Keras loads only layers whose modules were imported. This imports Fathom's, no others.

    Raises:
        ValueError: Keras cannot read the file.
    """
    import keras

    with zipfile.ZipFile(path) as archive:
        config = archive.read("config.json").decode()
    for module in sorted(set(re.findall(r'"(fathom(?:\.\w+)+)>\w+"', config))):
        importlib.import_module(module)
    return keras.saving.load_model(path)


def _save(model: "NeuralNetworkModel", folder: Path, options: ExportOptions) -> tuple[str, ...]:
    """Writes the archive; it takes any size that the network takes."""
    if options.length is not None:
        raise FathomError("keras holds the network for any length: omit --length")
    whole = folder / f".{_FILE}"
    with writing(folder):
        try:
            model.network.save(whole)
        except NotImplementedError as error:
            raise FathomError(
                f"Keras cannot save {model.name}: a layer has no configuration"
            ) from error
        _rewrite(whole, folder / _FILE)
        whole.unlink()
    return ("the update rule and its state",)


def _rewrite(source: Path, target: Path) -> None:
    """Copies an archive without what differs from one export to the next."""
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as copy:
        for name in archive.namelist():
            entry = zipfile.ZipInfo(name, _DATE)
            if name.endswith(".json"):
                copy.writestr(entry, _without_chance(archive.read(name).decode()))
            else:
                with archive.open(name) as read, copy.open(entry, "w", force_zip64=True) as written:
                    while block := read.read(1 << 24):
                        written.write(block)


def _without_chance(text: str) -> str:
    """Returns the JSON without a date, and with the identities of shared objects in order."""
    content = json.loads(text)
    content.pop("date_saved", None)
    numbers: dict[str, int] = {}
    return re.sub(
        r'(?<="shared_object_id": )\d+',
        lambda found: str(numbers.setdefault(found[0], len(numbers) + 1)),
        json.dumps(content),
    )


FORMAT = NetworkFormat(
    about="the network as Keras saves it, for fathom.exports.keras.load", save_network=_save
)
