"""Atari 2600 games: the ROMs that come with ale-py, the Arcade Learning Environment."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from fathom.core.data.dataset import DataSet, Reading
from fathom.errors import FathomError
from fathom.options import unknown_option
from fathom.system.files import exists, list_folder, require_regular

_TWO_PLAYERS = ("combat", "joust", "maze_craze", "warlords")  # part of ale-py, which refuses them


@dataclass(frozen=True)
class Atari(DataSet):
    """The games' ROMs."""

    name = "atari"
    title = "Atari 2600 games"
    licence = "as ale-py, which the ROMs come with"
    home_page = "https://ale.farama.org"
    layout = "<game>.bin, the names in snake case"

    roms: dict[str, Path]  # files by name of the game, in snake case

    @classmethod
    def load(cls, directory: Path) -> "Atari":
        """Finds the ROMs in a folder.

        Raises:
            FathomError: it holds none.
        """
        files = [path for path in list_folder(directory) if path.suffix == ".bin"]
        roms = {path.stem: path for path in files if not (exists(path) and path.is_dir())}
        if not roms:
            raise FathomError(f"{directory} holds no ROMs; they are expected as {cls.layout}")
        return cls(roms)

    @classmethod
    def verify(cls, directory: Path, options: Reading, everything: bool) -> str:
        """Checks that the emulator recognizes each playable ROM by its bytes."""
        atari = cls.load(directory)
        supported = import_ale().ALEInterface.isSupportedROM
        playable = [game for game in atari.roms if game not in _TWO_PLAYERS]
        for game in playable:
            if (found := supported(atari.rom(game))) != game:
                reason = (
                    f"is {found}: name it {found}.bin" if found else "is damaged, or another game"
                )
                raise FathomError(f"{atari.rom(game)} {reason}")
        return f"{len(playable)} games are as the emulator knows them"

    @classmethod
    def packaged(cls) -> Path | None:
        """Returns the folder of ale-py's ROMs; None if it is not installed."""
        package = importlib.util.find_spec("ale_py")
        return Path(package.origin).parent / "roms" if package and package.origin else None

    @classmethod
    def synthesize(cls, directory: Path, seed: int) -> None:
        """Refuses: games cannot be synthesized.

        Raises:
            FathomError: always.
        """
        raise FathomError("games cannot be synthesized; real ones come with ale-py: pip install it")

    def rom(self, game: str) -> Path:
        """Returns a game's file.

        Raises:
            FathomError: there is no such game, the message suggests the nearest name; or its file
                cannot be read.
        """
        if game not in self.roms:
            raise unknown_option("game", game, self.roms)
        require_regular(self.roms[game])  # the emulator would wait for a pipe
        return self.roms[game]


def import_ale() -> ModuleType:
    """Returns the module ``ale_py``, configured to print only errors.

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
