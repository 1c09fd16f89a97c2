"""TIMIT's standard development and test sets (Halberstadt 1998), by speaker.

The test folder has 168 speakers. Results are reported on the 24 of the core test set, named in the
corpus' own documentation, and settings are chosen on 50 others, as in Kaldi's recipe.
"""

from pathlib import Path

import numpy as np

HELD_OUT = 0.1  # of the training utterances, for validation, where the tree is not all of TIMIT

_CORE_TEST = """
mdab0 mwbt0 felc0 mtas1 mwew0 fpas0 mjmp0 mlnt0 fpkt0 mlll0 mtls0 fjlm0 mbpm0 mklt0 fnlp0 mcmj0
mjdh0 fmgd0 mgrt0 mnjm0 fdhc0 mjln0 mpam0 fmld0
"""
_DEVELOPMENT = """
faks0 fdac1 fjem0 mgwt0 mjar0 mmdb1 mmdm2 mpdf0 fcmh0 fkms0 mbdg0 mbwm0 mcsh0 fadg0 fdms0 fedw0
mgjf0 mglb0 mrtk0 mtaa0 mtdt0 mthc0 mwjg0 fnmr0 frew0 fsem0 mbns0 mmjr0 mdls0 mdlf0 mdvc0 mers0
fmah0 fdrw0 mrcs0 mrjm4 fcal1 mmwh0 fjsj0 majc0 mjsw0 mreb0 fgjd0 fjmg0 mroa0 mteb0 mjfc0 mrjr0
fmml0 mrws1
"""
CORE_TEST = frozenset(_CORE_TEST.split())
DEVELOPMENT = frozenset(_DEVELOPMENT.split())


def split(train: list[Path], test: list[Path]) -> tuple[list[Path], list[Path], list[Path]]:
    """Splits a tree's audio files into those for training, development and test.

    If the test folder has all speakers of the core test set, the standard sets are used, and the
    94 speakers in neither are left out. Otherwise a random tenth of the training files, always the
    same, is held out for development; the test files are all used.

    Args:
        train: audio files of the training folder, ``.../<speaker>/<sentence>.wav``.
        test: of the test folder.
    """
    if set(map(_speaker, test)) >= CORE_TEST:
        development = [path for path in test if _speaker(path) in DEVELOPMENT]
        return train, development, [path for path in test if _speaker(path) in CORE_TEST]
    order = np.random.default_rng(0).permutation(len(train))
    held_out = set(order[: int(HELD_OUT * len(train))].tolist())
    kept = [path for i, path in enumerate(train) if i not in held_out]
    return kept, [train[i] for i in sorted(held_out)], test


def _speaker(path: Path) -> str:
    return path.parent.name.lower()
