import pytest
from legibility import assert_legible
from synthetic_folder import folder, run

from fathom.measure.report.figures import nearest
from fathom.results.nearest import Archetype, Nearest

ADDS, PRODUCTS = "elementwise operations at 1 FLOP/byte or less", "matrix products"
ARCHETYPES = {"vgg": {PRODUCTS: 1.0}, "memnet": {ADDS: 0.9, PRODUCTS: 0.1}}


def found(network, distances, mode="infer", work=None):
    return Nearest(
        **{"network": network, "mode": mode, "batch_size": 4, "work": work or {ADDS: 1.0}},
        archetypes=tuple(
            Archetype(workload=name, batch_size=8, distance=distance, work=ARCHETYPES[name])
            for name, distance in distances.items()
        ),
    )


@pytest.fixture
def characterized(tmp_path):
    """Gives a folder with a network's result, and one of a network whose name is long."""
    (tmp_path / "nearest").mkdir()
    found("mine", {"memnet": 0.01, "vgg": 1.0}).write(tmp_path / "nearest" / "a.json")
    other = found("yours" * 20, {"vgg": 0.2, "memnet": 0.3}, work={PRODUCTS: 1.0})
    other.write(tmp_path / "nearest" / "b.json")
    return folder([run()], path=tmp_path)


def test_each_network_is_placed_among_the_archetypes(characterized):
    findings = nearest.FIGURE.analyse(characterized)
    assert findings.summary.startswith("mine is nearest to memnet (distance 0.01) and vgg")
    assert findings.data["cosine distance"].tolist() == [0.01, 1.0, 0.2, 0.3]
    assert findings.tables["work"].network.tolist()[:3] == ["memnet", "vgg", "mine (yours)"]
    first = findings.tables["merges"]["workloads together"][0]
    assert first.startswith("vgg yours")


def test_the_map_marks_the_networks(characterized):
    plot = nearest.FIGURE.analyse(characterized).plot
    assert_legible(plot)
    marked = {text.get_text(): text.get_fontweight() for text in plot.axes[0].get_yticklabels()}
    assert marked["mine (yours)"] == "bold"
    assert marked["vgg"] == "normal"
    assert plot.axes[1].lines[1].get_xdata().tolist() == [0.3, 0.2]


def test_archetypes_of_two_modes_are_apart():
    rows = nearest.work([found("a", {"vgg": 0.2}), found("b", {"vgg": 0.2}, mode="train")])
    assert rows.index.tolist() == ["vgg, infer", "vgg, train", "a (yours)", "b (yours)"]


def test_networks_of_one_name_are_told_apart_by_mode_and_batch_size():
    one = found("mine", {"vgg": 0.1}), found("mine", {"vgg": 0.2}, mode="train")
    assert [*nearest.work(one).index][-2:] == ["mine, infer (yours)", "mine, train (yours)"]
    two = one[0], one[0].model_copy(update={"batch_size": 32})
    names = ["mine, infer, batch 4 (yours)", "mine, infer, batch 32 (yours)"]
    assert [*nearest.work(two).index][-2:] == names


def test_networks_that_nothing_tells_apart_are_numbered():
    name = "a_network_whose_name_is_long_"
    both = found(f"{name}small", {"vgg": 0.1}), found(f"{name}large", {"vgg": 0.2})
    names = [f"a_network_whose_name_is…, infer, batch 4, {n} (yours)" for n in (1, 2)]
    assert [*nearest.work(both).index][-2:] == names


def test_archetypes_that_the_first_network_lacks_are_drawn():
    nearest.draw([found(f"n{i}", {"vgg": 0.1 * i}) for i in range(10)])  # more than colours
    plot = nearest.draw([found("a", {"vgg": 0.2}), found("b", {"vgg": 0.3, "memnet": 0.1})])
    assert plot.axes[1].lines[1].get_xdata().tolist() == [0.3, 0.1]
