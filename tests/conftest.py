import os
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

REAL_DATA = os.environ.get("FATHOM_DATA_DIR")


@pytest.fixture(scope="session", autouse=True)
def _own_data(tmp_path_factory):
    """Makes synthetic data the default, in a cache of the tests' own."""
    os.environ.pop("FATHOM_DATA_DIR", None)
    os.environ["FATHOM_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def real_data():
    """Gives the folder with the real data sets; the test is skipped without it."""
    if REAL_DATA is None:
        pytest.skip("FATHOM_DATA_DIR is not set: no real data")
    return Path(REAL_DATA).resolve()
