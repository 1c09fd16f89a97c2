"""Atari 2600 games: the ROMs that come with ale-py, the Arcade Learning Environment."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from fathom.data.dataset import DataSet
from fathom.errors import FathomError
from fathom.options import unknown_option


@dataclass(frozen=True)
class Atari(DataSet):
    """The games' ROMs.

    Attributes:
        roms: name of a game, in snake case, to its file.
    """

    name = "atari"
    title = "Atari 2600 games"
    licence = "as ale-py, which the ROMs come with"
    home_page = "https://ale.farama.org"
    layout = "<game>.bin, the names in snake case"

    roms: dict[str, Path]

    @classmethod
    def load(cls, directory: Path) -> "Atari":
        """Finds the ROMs in a folder.

        Raises:
            FathomError: it holds none.
        """
        roms = {path.stem: path for path in sorted(directory.glob("*.bin")) if path.is_file()}
        if not roms:
            raise FathomError(f"{directory} holds no ROMs; they are expected as {cls.layout}")
        return cls(roms)

    @classmethod
    def packaged(cls) -> Path | None:
        """Returns the folder of the ROMs that come with ale-py; None where it is not installed."""
        package = importlib.util.find_spec("ale_py")
        return Path(package.origin).parent / "roms" if package else None

    @classmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Refuses: a game cannot be imitated.

        Raises:
            FathomError: always.
        """
        raise FathomError("games cannot be synthesized; real ones come with ale-py: pip install it")

    def rom(self, game: str) -> Path:
        """Returns a game's file.

        Raises:
            FathomError: there is no such game; the message suggests the nearest name.
        """
        if game not in self.roms:
            raise unknown_option("game", game, self.roms)
        return self.roms[game]


def import_ale() -> ModuleType:
    """Returns the module ``ale_py``, told to print nothing but errors.

    Raises:
        FathomError: it is not installed.
    """
    try:
        import ale_py
        import ale_py.roms
    except ImportError as error:
        raise FathomError(f"ale-py is missing ({error}): pip install ale-py") from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return ale_py
