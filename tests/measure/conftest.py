import pytest
import synthetic_folder

from fathom.measure.report import report


@pytest.fixture(scope="session")
def all_workloads():
    """A folder of the eight workloads, measured in every way that a CPU allows."""
    return synthetic_folder.folder(synthetic_folder.suite())


@pytest.fixture(scope="session")
def small_report(tmp_path_factory):
    """Where the report of two workloads is, measured in every way that a CPU allows."""
    out = tmp_path_factory.mktemp("small")
    report.write(synthetic_folder.folder(synthetic_folder.suite(["memnet", "vgg"])), out)
    return out
