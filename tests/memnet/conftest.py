import pytest

from fathom.memnet.babi import Babi


@pytest.fixture(scope="session")
def stories(tmp_path_factory):
    """Gives a folder with few stories of the synthetic tasks."""
    directory = tmp_path_factory.mktemp("babi")
    Babi.synthesize(directory, 0, train_size=60, test_size=30)
    return str(directory)
