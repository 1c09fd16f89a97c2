import copy
import json

import pytest
import synthetic_folder
from synthetic_folder import paper_profile, result, run

from fathom import workloads
from fathom.errors import FathomError
from fathom.measure.atlas.bundle import submit
from fathom.measure.atlas.site import _frame, _relative, site
from fathom.results.atlas import Bundle
from fathom.system.environment import source

LOSS = 2.5


def timing(name, mode, repeat=0, seconds=0.1, loss=LOSS, parameters=None):
    """A timing with the counts that the workload's descriptor publishes."""
    published = workloads.descriptor(name)
    found = result(seconds + 0.001 * repeat, mode, cpu_seconds=4.0, source=source())
    found["steps"] = copy.deepcopy(found["steps"])
    found["steps"]["loss"] = [loss if mode == "train" else None] * len(found["steps"]["seconds"])
    found["cost"] |= {
        "parameters": parameters or published.parameters,
        "forward_macs_per_example": published.macs,
    }
    return run(
        name,
        ("modes",) if repeat == 0 else ("repeats",),
        mode=mode,
        repeat=repeat,
        result=found,
        argv=("python", "-m", "fathom", "run", name, f"--{mode}"),
    )


def suite(**changes):
    """The runs of a characterization of the eight that can be submitted."""
    runs = {}
    for name in workloads.EIGHT:
        for mode in ("train", "infer"):
            runs[name, mode, 0] = timing(name, mode)
        runs[name, "train", 1] = timing(name, "train", repeat=1)
        profile = paper_profile(name, 1)
        about = profile.environment.model_copy(update={"source": source()})
        profile = profile.model_copy(update={"environment": about})
        runs[name, "profile", 0] = run(name, ("profile",), profile=profile)
    return runs


def disturbed_profile(name):
    """A profile whose steps had half of the processor."""
    used = {"cpu_seconds": 1.0, "wall_seconds": 2.0, "involuntary_switches": 7}
    about = paper_profile(name, 1).environment.model_copy(
        update={"source": source(), "intra_op_threads": 1}
    )
    return paper_profile(name, 1, processor=used, environment=about)


def written(path, runs):
    return synthetic_folder.write(path, [each for each in runs.values() if each])


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """The bundle of a machine."""
    return submit(written(tmp_path_factory.mktemp("one"), suite()))


def row_of(bundle, workload, mode):
    (row,) = [row for row in bundle.rows if (row.workload, row.mode) == (workload, mode)]
    return row


def changed(bundle, **functions):
    """The bundle with fields of its rows that are functions of these."""
    rows = [
        row.model_copy(update={name: function(row) for name, function in functions.items()})
        for row in bundle.rows
    ]
    return bundle.model_copy(update={"rows": tuple(rows)})


def test_a_row_has_the_processes_of_a_case_and_its_command(one):
    assert len(one.rows) == 2 * len(workloads.EIGHT)
    row = row_of(one, "memnet", "train")
    assert row.step_seconds == pytest.approx([0.1, 0.101], rel=1e-3)
    assert row.low < 0.1005 < row.high
    assert row.command == "python -m fathom run memnet --train"
    assert row.first_loss == LOSS
    assert 0.9 < sum(row.op_shares.values()) <= 1
    alone = row_of(one, "memnet", "infer")
    assert alone.first_loss is None
    assert not alone.op_shares
    assert alone.low <= alone.step_seconds[0] <= alone.high


def test_a_single_process_of_few_steps_has_no_interval(tmp_path):
    runs = suite()
    few = runs["vgg", "infer", 0].result.to_plain()
    few["steps"] = {name: few["steps"][name][:4] for name in ("seconds", "input_wait", "loss")}
    few["steps"] |= {"first": 0, "warmup": 1}
    runs["vgg", "infer", 0] = run("vgg", mode="infer", result=few)
    bundle = submit(written(tmp_path, runs))
    row = row_of(bundle, "vgg", "infer")
    assert (row.low, row.high) == (None, None)
    assert "vgg" in site([bundle])


def test_a_process_of_warm_up_steps_alone_is_refused(tmp_path):
    runs = suite()
    few = runs["vgg", "infer", 0].result.to_plain()
    few["steps"] = {name: few["steps"][name] for name in ("first", "seconds", "input_wait", "loss")}
    few["steps"]["warmup"] = len(few["steps"]["seconds"])
    few["throughput"] = {"example": "image", "flops_per_second": None}
    runs["vgg", "infer", 0] = run("vgg", mode="infer", result=few)
    with pytest.raises(FathomError, match="no step after its warm-up"):
        submit(written(tmp_path, runs))


def test_a_bundle_has_no_folder_and_no_command_line(tmp_path):
    text = submit(written(tmp_path / "somebody", suite())).to_json()
    assert "somebody" not in text
    assert json.loads(text)["environment"]["command"] == ""
    assert "directory" not in text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({("vgg", "infer", 0): None}, "vgg --infer was not timed"),
        ({("vgg", "profile", 0): None}, "vgg was not profiled"),
        ({("deepq", "train", 1): timing("deepq", "train", 1, loss=9.0)}, "different losses"),
        ({("deepq", "train", 0): timing("deepq", "train", parameters=5)}, "are published"),
        (
            {("vgg", "train", 2): run("vgg", repeat=2, status="failed", reason="no memory")},
            "failed",
        ),
        (
            {("vgg", "train", 0): run("vgg", result=result(0.3, cpu_seconds=1.0, source=source()))},
            "was disturbed by other processes",
        ),
        (
            {("vgg", "infer", 0): run("vgg", mode="infer", result=result(0.1, "infer"))},
            "another source of Fathom",
        ),
        (
            {("vgg", "profile", 0): run("vgg", ("profile",), profile=disturbed_profile("vgg"))},
            "vgg-train-profile-1-4-0-cpu0 was disturbed by other processes",
        ),
    ],
)
def test_what_cannot_be_trusted_is_refused(tmp_path, change, problem):
    with pytest.raises(FathomError, match=problem) as error:
        submit(written(tmp_path, suite() | change))
    assert "\n" not in str(error.value)


def test_the_page_has_machines_side_by_side_and_refers_to_no_host(one):
    faster = changed(one, examples_per_second=lambda row: 3 * row.examples_per_second)
    about = one.environment.model_copy(update={"cpu_model": "Other CPU"})
    page = site([one, faster.model_copy(update={"environment": about})])
    assert "Other CPU, 4 cores" in page
    assert "the same within 1 %" in page
    assert "3.00" in page or ">3<" in page
    assert "python -m fathom run memnet --train" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


@pytest.mark.parametrize(("machines", "times"), [(3, 1.2), (2, 1.015)])
def test_the_page_names_a_loss_that_its_seed_does_not_give(one, machines, times):
    def loss(row):
        off = (row.workload, row.mode) == ("vgg", "train")
        return times * row.first_loss if off else row.first_loss

    page = site([*[one] * (machines - 1), changed(one, first_loss=loss)])
    assert f"more than 1 %: vgg on Test CPU, 4 cores ({machines})." in page


def on_gpu(bundle, rates):
    """The bundle with GPU rows of the training of some workloads, at these rates."""
    rows = [row for row in bundle.rows if row.mode == "train" and row.workload in rates]
    gpu = [
        row.model_copy(
            update={
                "device": "/gpu:0",
                "op_shares": {},
                "examples_per_second": rates[row.workload] * row.examples_per_second,
            }
        )
        for row in rows
    ]
    return bundle.model_copy(update={"rows": (*bundle.rows, *gpu)})


def test_rates_are_compared_on_the_same_device(one):
    both = [on_gpu(one, {"vgg": 10}), on_gpu(one, {"vgg": 40})]
    frame = _frame(both, ["a", "b"])
    relative = _relative(frame[frame["mode"] == "train"], ["a", "b"])
    assert relative.b["vgg"] == pytest.approx(1)
    assert relative.b["vgg, GPU"] == pytest.approx(4)
    assert len(relative) == len(workloads.EIGHT) + 1


@pytest.mark.filterwarnings("error")
def test_machines_without_a_common_case_have_no_relative_rates(one):
    other = changed(one, batch_size=lambda row: 2 * row.batch_size)
    page = site([one, other])
    assert "relative rates" not in page
    assert "Relative rates" not in page
    assert page.count("<svg") == 0


def test_steps_of_other_settings_are_not_compared(one):
    def command(row):
        return f"{row.command} --set=sampling_steps=5" if row.workload == "vgg" else row.command

    other = changed(one, command=command, first_loss=lambda row: row.first_loss and 9.0)
    frame = _frame([one, other], ["a", "b"])
    relative = _relative(frame[frame["mode"] == "train"], ["a", "b"])
    assert set(relative.index) == {*workloads.EIGHT} - {"vgg"}
    page = site([one, other])
    assert "sampling_steps=5" in page
    far = page.partition("differs from the other machines")[2].partition("</p>")[0]
    assert "speech" in far
    assert "vgg" not in far


def test_two_devices_of_a_machine_are_not_two_machines(one):
    assert "No two machines trained the same workload" in site([on_gpu(one, {"vgg": 10})])


def test_a_gpu_row_has_no_op_shares_of_the_cpu(tmp_path):
    runs = suite()
    fast = timing("vgg", "train").result.to_plain()
    fast["environment"]["device"] = "/gpu:0"
    runs["vgg", "gpu", 0] = run("vgg", device="/gpu:0", result=fast)
    rows = submit(written(tmp_path, runs)).rows
    shares = {
        row.device: row.op_shares for row in rows if (row.workload, row.mode) == ("vgg", "train")
    }
    assert shares["/cpu:0"]
    assert shares["/gpu:0"] == {}


def test_the_interval_of_a_single_process_is_of_its_calls(tmp_path):
    runs = suite()
    few = runs["vgg", "infer", 0].result.to_plain()
    call = [0] + [1] * 3 + [4] * 3 + [7] * 3
    few["steps"] = synthetic_folder.steps([0.1] * 4 + [0.2] * 3 + [0.3] * 3, call=call)
    few["steps"]["loss"] = [None] * 10
    runs["vgg", "infer", 0] = run("vgg", mode="infer", result=few)
    bundle = submit(written(tmp_path, runs))
    row = row_of(bundle, "vgg", "infer")
    assert (row.low, row.high) == (None, None)


def test_a_damaged_bundle_is_refused_in_a_line(one, tmp_path):
    path = tmp_path / "bundle.json"
    one.write(path)
    assert Bundle.read(path).rows
    path.write_text(path.read_text().replace('"rows"', '"columns"'))
    with pytest.raises(FathomError, match=r"rows is missing.*make it again with fathom submit"):
        Bundle.read(path)
