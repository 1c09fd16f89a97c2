from fathom.speech.phones import BLANK, DELETED, FOLDED, INDEX, PHONES, folding

# Lee and Hon 1989, the classes as they are usually listed.
CLASSES = """
iy | ih ix | eh | ae | ax ah ax-h | uw ux | uh | ao aa | ey | ay | oy | aw | ow | l el | r | y | w |
er axr | m em | n en nx | ng eng | ch | jh | dh | b | d | dx | g | p | t | k | z | zh sh | v | f |
th | s | hh hv | pcl tcl kcl bcl dcl gcl h# pau epi
"""


def test_there_are_61_phones_and_the_blank_comes_after_them():
    assert len(PHONES) == len(set(PHONES)) == BLANK == 61
    assert all(PHONES[index] == phone for phone, index in INDEX.items())


def test_they_fold_to_the_39_classes_and_the_glottal_stop_is_deleted():
    classes = [set(line.split()) for line in CLASSES.replace("\n", " ").split("|")]
    assert len(classes) == len(FOLDED) == 39
    fold = dict(zip(PHONES, folding(), strict=True))
    for members in classes:
        assert len({fold[phone] for phone in members}) == 1, members
    assert len({fold[min(members)] for members in classes}) == 39
    assert [phone for phone in PHONES if fold[phone] < 0] == [DELETED] == ["q"]
    assert set().union(*classes) | {"q"} == set(PHONES)
