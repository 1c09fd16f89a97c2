"""The phones of TIMIT, and the 39 classes in which phone errors are counted."""

import numpy as np

_NAMES = """
    aa ae ah ao aw ax ax-h axr ay b bcl ch d dcl dh dx eh el em en eng epi er ey f g gcl h# hh hv
    ih ix iy jh k kcl l m n ng nx ow oy p pau pcl q r s sh t tcl th uh uw ux v w y z zh
"""
PHONES = tuple(_NAMES.split())
INDEX = {phone: index for index, phone in enumerate(PHONES)}
BLANK = len(PHONES)  # the network's last output: no phone

# Lee and Hon 1989, table 3: the classes with several phones; q is in none of them.
SILENCE = "sil"
_CLASSES = {
    **{"aa": "aa ao", "ah": "ah ax ax-h", "er": "er axr", "hh": "hh hv", "ih": "ih ix"},
    **{"l": "l el", "m": "m em", "n": "n en nx", "ng": "ng eng", "sh": "sh zh", "uw": "uw ux"},
    SILENCE: "pcl tcl kcl bcl dcl gcl h# pau epi",
}
DELETED = "q"  # the glottal stop
_CLASS_OF = {phone: name for name, members in _CLASSES.items() for phone in members.split()}

FOLDED = tuple(sorted({_CLASS_OF.get(phone, phone) for phone in PHONES if phone != DELETED}))


def folding() -> np.ndarray:
    """Returns the class of each phone: int32 [61], an index of ``FOLDED``; -1 for a deleted one."""
    return np.array(
        [-1 if phone == DELETED else FOLDED.index(_CLASS_OF.get(phone, phone)) for phone in PHONES],
        np.int32,
    )
