"""Folders of data sets that may not be read: an error that names them, and no smaller data set."""

import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from fathom.autoenc.mnist import Mnist
from fathom.core.data.dataset import DataSource
from fathom.core.data.files import folders_below
from fathom.errors import FathomError
from fathom.imagenet.ilsvrc import ImageNet
from fathom.memnet.babi import Babi
from fathom.modern.gcn import synthetic as graphs
from fathom.modern.gcn.cora import Cora
from fathom.shared.translation.multi30k import Multi30k
from fathom.speech.timit import Timit

_OTHER = 65534  # a user without files: root reads all
_GRAPH = graphs.Size(200, 400, 30, 5, 7, 20, 30)
_SETS = {
    Mnist: lambda folder: Mnist.synthesize(_made(folder / "MNIST" / "raw"), 0, 20, 10),
    Babi: lambda folder: Babi.synthesize(folder, 0, 20, 10),
    Cora: lambda folder: graphs.write(folder, "cora", _GRAPH, 0),
    Multi30k: lambda folder: Multi30k.synthesize(_made(folder / "text"), 0, 20, 10),
    Timit: lambda folder: _one_in(4, Timit, folder),
    ImageNet: lambda folder: _one_in(99, ImageNet, folder),
}


def _made(folder):
    folder.mkdir(parents=True)
    return folder


def _one_in(many, dataset, folder):
    """Writes one utterance or image in so many of each folder of a data set."""
    dataset.synthesize(folder, 0)
    for parent in {path.parent for path in folder.rglob("*") if path.is_file()}:
        stems = sorted({path.stem for path in parent.iterdir() if path.is_file()})
        for path in parent.iterdir():
            if path.is_file() and stems.index(path.stem) % many:
                path.unlink()


@pytest.fixture
def folder():
    """A folder of its own that belongs to another user where the tests run as root."""
    path = Path(tempfile.mkdtemp())
    yield path
    os.seteuid(os.getuid())
    for each in [path, *path.rglob("*")]:
        each.chmod(0o700)
    shutil.rmtree(path)


def become_its_user(folder):
    """Gives a folder to another user, and reads as that user from now on, if this one is root."""
    if os.getuid() == 0:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, _OTHER, _OTHER)
        os.seteuid(_OTHER)


@pytest.mark.parametrize(
    "dataset",
    [pytest.param(each, marks=[pytest.mark.slow] * (each is ImageNet)) for each in _SETS],
    ids=lambda each: each.name,
)
def test_a_folder_without_permission_is_named_and_nothing_is_left_out(dataset, folder):
    _SETS[dataset](folder)
    sound = _read(dataset, folder)
    below = [path for path in folder.rglob("*") if path.is_dir()]
    become_its_user(folder)
    wrong = []
    for path in (folder, *sorted(below)[:9]):
        before = stat.S_IMODE(path.stat().st_mode)
        for mode in (0, 0o444, 0o111):
            path.chmod(mode)
            try:
                seen = _read(dataset, folder)
            except FathomError as error:
                seen = str(error)
            path.chmod(before)
            names_it = str(folder) in str(seen) and re.search("read|Permission denied", str(seen))
            if seen != sound and not names_it:
                wrong.append((path, mode, seen))
    assert not wrong


def _read(dataset, folder):
    if dataset is Mnist:  # which verifies that it is the released one
        return len(Mnist.load(folder).train_labels)
    return dataset.verify(folder, dataset.Options(), everything=True)


def test_what_is_sought_is_found_beside_a_folder_without_permission(folder):
    Babi.synthesize(folder, 0, 20, 10)
    hidden = folder / "lost+found"
    hidden.mkdir()
    become_its_user(folder)
    hidden.chmod(0)
    assert "5 tasks" in Babi.verify(folder, Babi.Options(), everything=True)
    with pytest.raises(FathomError, match=r"cannot read .*lost\+found: Permission denied"):
        list(folders_below(folder, 1))
    assert len(DataSource(folder, "given").fingerprint()) == 12
