import json

import pytest
import synthetic_folder
from test_profiles import small_profile

from fathom.errors import FathomError
from fathom.measure.runs.folder import Folder, write_run
from fathom.results.characterization import Machine

ENVIRONMENT = synthetic_folder.ENVIRONMENT | {"tensorflow": "2.20.0", "cores_available": 2}


def result(**environment):
    return synthetic_folder.result(**ENVIRONMENT | environment)


def timing(**changes):
    fields = {
        "id": "autoenc-train-cpu0-timing",
        "purpose": ("modes", "cores"),
        "cores": 2,
        "argv": ("python", "-m", "fathom.autoenc"),
        "result": result(),
    }
    return synthetic_folder.run(**fields | changes)


def changed(**changes):
    """The file of a timing run with the id ``a`` of which some fields were changed."""
    return json.dumps(timing(id="a").to_plain() | changes)


@pytest.fixture
def out(tmp_path):
    (tmp_path / "runs").mkdir()
    machine = Machine(environment=ENVIRONMENT, gemm_flops_per_second={"1": 1e11})
    machine.write(tmp_path / "machine.json")
    return tmp_path


def test_a_folder_gives_back_what_was_written(out):
    profile = timing(
        id="autoenc-train-cpu0-profile",
        purpose=("profile",),
        result=None,
        profile=small_profile(environment=ENVIRONMENT),
    )
    failed = timing(id="vgg-train-cpu0-timing", status="failed", reason="no memory")
    for run in (timing(), profile, failed):
        write_run(run, out)
    folder = Folder.read(out)
    assert [run.id for run in folder.runs] == sorted(run.id for run in (timing(), profile, failed))
    assert folder.machine.gemm_flops_per_second == {"1": 1e11}
    assert folder.select("modes") == [timing()]
    (again,) = folder.select("profile")
    assert again.to_plain() == profile.to_plain()
    assert again.environment.to_plain() == ENVIRONMENT


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(FathomError, match=r"machine\.json is missing"):
        Folder.read(tmp_path)
    with pytest.raises(FathomError, match=r"machine\.json is missing"):
        Folder.read(tmp_path / "absent")


def test_a_folder_without_runs_is_refused(out):
    with pytest.raises(FathomError, match="holds no runs yet"):
        Folder.read(out)


def test_a_run_that_is_being_written_is_no_run_yet(out):
    write_run(timing(), out)
    (out / "runs" / ".other.json.17.tmp").write_text("{")
    assert len(Folder.read(out).runs) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"schema": 1, "id": "a', "damaged"),
        ("", "damaged"),
        ("[]", r"all of it is \[\], not an object"),
        ('{"schema": 2}', "a newer schema"),
        ('{"schema": 1}', "damaged"),
        ("[" * 100_000, "damaged"),
        (changed(id="other"), "its id is 'other'"),
        (changed(result=None), "a timing that is done has no result"),
        (changed(kind="profile"), "a profile that is done has no result or profile, or that"),
        (changed(status="running"), "status is \"running\", not 'done' or 'failed'"),
        (changed(status="failed"), "a failed run has a reason"),
        (changed(kind="guess"), "kind is \"guess\", not 'timing' or 'profile'"),
        (changed(result=[1]), r"result is \[1\], not an object"),
        (changed(result={}), "result.workload is missing"),
        (changed(workload="vgg"), "workload is 'vgg', but what it holds is of 'autoenc'"),
        (changed(mode="infer"), "mode is 'infer', but what it holds is of 'train'"),
        (changed(kind="profile", profile={"environment": 3}), "profile.workload is missing"),
    ],
)
def test_a_damaged_run_is_refused_in_one_line(out, text, reason):
    (out / "runs" / "a.json").write_text(text)
    with pytest.raises(FathomError, match=reason) as error:
        Folder.read(out)
    assert "a.json" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 7}', '{"schema": 1, "environment": 3}'])
def test_a_damaged_machine_is_refused(out, text):
    (out / "machine.json").write_text(text)
    with pytest.raises(FathomError, match=r"machine\.json"):
        Folder.read(out)


@pytest.mark.parametrize(
    "other",
    [
        *({"cpu_model": "another"}, {"cores_available": 64}, {"memory_bytes": 1}),
        *({"tensorflow": "2.19.0"}, {"git_commit": "1234567"}, {"git_commit": "1", "source": "2"}),
    ],
)
def test_two_machines_in_one_folder_are_refused(out, other):
    write_run(timing(result=result(**other)), out)
    with pytest.raises(FathomError, match="another machine") as error:
        Folder.read(out)
    assert "autoenc-train-cpu0-timing.json" in str(error.value)


def test_a_commit_that_changes_no_source_may_come_between_the_runs(out):
    machine = json.loads((out / "machine.json").read_text())
    machine["environment"] |= {"source": "a", "git_commit": "1"}
    (out / "machine.json").write_text(json.dumps(machine))
    write_run(timing(result=result(source="a", git_commit="2")), out)
    assert len(Folder.read(out).runs) == 1


def test_installed_versions_are_told_apart_by_their_source(out):
    write_run(timing(result=result(source="a", git_commit=None)), out)
    machine = json.loads((out / "machine.json").read_text())
    for source in ("a", "b"):
        machine["environment"] |= {"source": source, "git_commit": None}
        (out / "machine.json").write_text(json.dumps(machine))
        if source == "a":
            assert len(Folder.read(out).runs) == 1
    with pytest.raises(FathomError, match="source: 'a', not 'b'"):
        Folder.read(out)


def test_a_run_on_fewer_cores_is_of_the_same_machine(out):
    write_run(timing(result=result(cores_available=1), cores=1), out)
    assert len(Folder.read(out).runs) == 1


def test_a_run_that_had_fewer_cores_than_it_says_is_refused(out):
    write_run(timing(result=result(cores_available=1), cores=2), out)
    with pytest.raises(FathomError, match="had 1 of the 2 cores"):
        Folder.read(out)


def test_two_gpus_of_one_name_are_refused(out):
    for name, gpu in (("a", "A100"), ("b", "P100")):
        write_run(timing(id=name, device="/gpu:0", result=result(gpu=gpu)), out)
    with pytest.raises(FathomError, match=r"/gpu:0: 'P100', not 'A100'"):
        Folder.read(out)
