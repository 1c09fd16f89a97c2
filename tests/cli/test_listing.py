import pytest

from fathom import workloads
from fathom.cli import listing

SUITE = workloads.select("eight,modern")


def test_the_list_has_the_suites_workloads_in_order():
    assert list(listing.entries()) == SUITE


@pytest.mark.parametrize("name", SUITE)
def test_the_list_says_what_the_built_network_does(name, tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    model = workloads.load(name, forward_only=True)("/cpu:0")
    model.build()
    entry, cost = listing.entries()[name], model.cost()
    assert entry.title == model.title
    assert (entry.parameters, entry.forward_macs) == (cost.parameters, cost.forward_macs)


@pytest.mark.parametrize("name", SUITE)
def test_the_list_finds_the_data_where_a_run_does(name):
    def places(datasets):
        return [(each.name, each.nested, each.files, each.packaged()) for each in datasets]

    assert places(listing.entries()[name].datasets) == places(workloads.load(name).datasets)
