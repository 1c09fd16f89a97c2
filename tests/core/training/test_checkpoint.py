import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from fathom import Autoenc, FathomError
from fathom.core.training.checkpoint import Checkpoints


@pytest.fixture
def weights():
    return {"weights": tf.Variable([1.0, 2.0])}


def open_in(directory, variables, workload="net", **settings):
    return Checkpoints(Path(directory), workload, settings, variables)


def training_in(directory, variables, *steps, **settings):
    """Opens a folder for writing, and saves the weights [step, step] after each step."""
    checkpoints = open_in(directory, variables, **settings)
    checkpoints.open_for_writing()
    for step in steps:
        variables["weights"].assign([step, step])
        checkpoints.save(step)
    return checkpoints


def restored(directory, variables, **settings):
    """Restores in a new object; returns the weights and the notes."""
    variables["weights"].assign([0.0, 0.0])
    notes = open_in(directory, variables, **settings).restore().notes
    return variables["weights"].numpy().tolist(), notes


def resumed_in(directory, variables, *steps, **settings):
    """Resumes a training as ``training_in`` begins one; returns what was restored."""
    checkpoints = open_in(directory, variables, **settings)
    outcome = checkpoints.begin(resume=True, writes=True)
    for step in steps:
        variables["weights"].assign([step, step])
        checkpoints.save(step)
    return outcome


def described(directory):
    """Returns the settings in the description, by step."""
    return json.loads((Path(directory) / "fathom.json").read_text())["steps"]


def full(*_, **__):
    raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")


def killed(*_, **__):
    raise KeyboardInterrupt


def cut(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 20])


def flip(path):
    content = bytearray(path.read_bytes())
    content[1] ^= 64
    path.write_bytes(content)


def pipe(path):
    path.unlink()
    os.mkfifo(path)


DAMAGES = {
    "data a pipe": lambda folder, name: pipe(folder / f"{name}.data-00000-of-00001"),
    "index a pipe": lambda folder, name: pipe(folder / f"{name}.index"),
    "data cut": lambda folder, name: cut(folder / f"{name}.data-00000-of-00001"),
    "data empty": lambda folder, name: (folder / f"{name}.data-00000-of-00001").write_bytes(b""),
    "data lost": lambda folder, name: (folder / f"{name}.data-00000-of-00001").unlink(),
    "data flipped": lambda folder, name: flip(folder / f"{name}.data-00000-of-00001"),
    "index cut": lambda folder, name: cut(folder / f"{name}.index"),
    "index empty": lambda folder, name: (folder / f"{name}.index").write_bytes(b""),
    "index junk": lambda folder, name: (folder / f"{name}.index").write_bytes(b"not an index"),
    "index flipped": lambda folder, name: flip(folder / f"{name}.index"),
}


@pytest.fixture(params=["absolute", "relative"])
def folder(request, tmp_path, monkeypatch):
    """A folder for checkpoints, as a user may write its path."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run" if request.param == "absolute" else Path("run")


def test_the_newest_three_are_kept(folder, weights):
    training_in(folder, weights, *range(1, 6))
    kept = sorted(path.name for path in folder.glob("ckpt-*.index"))
    assert kept == ["ckpt-3.index", "ckpt-4.index", "ckpt-5.index"]
    assert len(list(folder.glob("ckpt-*.data-*"))) == 3


def test_what_was_saved_is_restored_and_changed_settings_are_named(folder, weights):
    training_in(folder, weights, 7, rate=0.1, size=3)
    result = open_in(folder, weights, rate=0.2, size=3, stride=2).restore()
    assert weights["weights"].numpy().tolist() == [7.0, 7.0]
    assert result.changes == {"rate": (0.1, 0.2), "stride": (None, 2)}
    assert result.notes == [
        f"restored {folder.absolute() / 'ckpt-7'}, after step 7",
        "changed since then: rate 0.1 -> 0.2",
        "changed since then: stride unknown -> 2",
    ]


def test_tensorflow_finds_the_newest_too(folder, weights):
    training_in(folder, weights, 1, 2, 3, 4)
    assert tf.train.latest_checkpoint(folder).endswith("ckpt-4")
    tf.train.Checkpoint(variables=weights).read(str(folder / "ckpt-3")).assert_consumed()
    assert weights["weights"].numpy().tolist() == [3.0, 3.0]


def test_checkpoints_of_tensorflows_own_manager_are_restored(tmp_path, weights):
    checkpoint = tf.train.Checkpoint(variables=weights)
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), max_to_keep=3)
    manager.save(checkpoint_number=10)
    (tmp_path / "fathom.json").write_text('{"workload": "net", "settings": {"rate": 0.1}}')
    values, notes = restored(tmp_path, weights, rate=0.1)
    assert values == [1.0, 2.0]
    assert len(notes) == 1
    training_in(tmp_path, weights, 20, 30, 40)
    assert not (tmp_path / "ckpt-10.index").exists()


def test_a_folder_can_be_moved(tmp_path, weights):
    training_in(tmp_path / "here", weights, 1)
    (tmp_path / "here").rename(tmp_path / "there")
    assert restored(tmp_path / "there", weights)[0] == [1.0, 1.0]


def test_a_training_keeps_its_folder_when_the_working_directory_changes(
    tmp_path, weights, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    checkpoints = training_in("run", weights, 1)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    checkpoints.save(2)
    assert checkpoints.latest == tmp_path / "run" / "ckpt-2"
    assert (tmp_path / "run" / "ckpt-2.index").exists()


@pytest.mark.parametrize("name", ["run[1]", "back\\slash", "a*b?", "[", "with space ü"])
def test_any_name_of_a_folder_will_do(name, tmp_path, weights):
    training_in(tmp_path / name, weights, 1, 2, 3, 4)
    assert restored(tmp_path / name, weights)[0] == [4.0, 4.0]
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


def test_a_name_that_tensorflow_cannot_write_is_refused_before_the_training(tmp_path, weights):
    with pytest.raises(FathomError, match="not UTF-8"):
        training_in(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"), weights)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_values_that_are_not_finite_are_not_saved_over_good_ones(tmp_path, weights, value):
    checkpoints = training_in(tmp_path, weights, 1)
    weights["weights"].assign([1.0, value])
    with pytest.raises(FathomError, match=r"diverged.*ckpt-1"):
        checkpoints.save(2)
    assert checkpoints.latest == tmp_path / "ckpt-1"


def test_a_full_disk_is_named_and_the_last_checkpoint_kept(tmp_path, weights, monkeypatch):
    checkpoints = training_in(tmp_path, weights, 1)
    monkeypatch.setattr(tf.train.Checkpoint, "write", full)
    with pytest.raises(FathomError, match=r"No space left on device; the last good .*ckpt-1"):
        checkpoints.save(2)
    assert restored(tmp_path, weights)[0] == [1.0, 1.0]


def test_a_run_killed_in_its_first_checkpoint_starts_from_scratch(tmp_path, weights, monkeypatch):
    def killed(_, prefix):
        Path(f"{prefix}.index").write_bytes(b"begun")
        raise KeyboardInterrupt

    monkeypatch.setattr(tf.train.Checkpoint, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        training_in(tmp_path, weights, 1)
    monkeypatch.undo()
    assert "starting from scratch" in open_in(tmp_path, weights).begin(True, True).notes[0]
    training_in(tmp_path, weights, 1)
    assert restored(tmp_path, weights)[0] == [1.0, 1.0]


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_named_and_the_one_before_restored(folder, weights, damage):
    training_in(folder, weights, 1, 2, 3)
    damage(folder, "ckpt-3")
    values, notes = restored(folder, weights)
    assert values == [2.0, 2.0]
    assert notes[0].startswith("ckpt-3 is damaged (")
    assert notes[0].endswith("): continuing from ckpt-2")
    assert notes[1].endswith("ckpt-2, after step 2")
    damage(folder, "ckpt-2")
    assert restored(folder, weights)[0] == [1.0, 1.0]
    damage(folder, "ckpt-1")
    with pytest.raises(FathomError, match=r"all checkpoints in .* are damaged \(ckpt-3: .+ckpt-1"):
        restored(folder, weights)


def test_a_training_resumed_before_damaged_checkpoints_keeps_its_own(tmp_path, weights):
    training_in(tmp_path, weights, 100, 200, 300, 301)
    for step in (300, 301):
        DAMAGES["data cut"](tmp_path, f"ckpt-{step}")
    assert restored(tmp_path, weights)[0] == [200.0, 200.0]
    training_in(tmp_path, weights, 210, 220, 230, 240)
    assert restored(tmp_path, weights)[0] == [240.0, 240.0]
    assert tf.train.latest_checkpoint(tmp_path).endswith("ckpt-240")
    training_in(tmp_path, weights, 300)  # takes the damaged one's place
    assert restored(tmp_path, weights)[0] == [300.0, 300.0]


@pytest.mark.parametrize("content", [None, "", "junk", 'model_checkpoint_path: "/no/ckpt-9"'])
def test_the_file_in_which_tensorflow_names_the_newest_is_not_needed(folder, weights, content):
    training_in(folder, weights, 1, 2)
    state = folder / "checkpoint"
    state.unlink() if content is None else state.write_text(content)
    with pytest.raises(FathomError, match="already holds checkpoints"):
        open_in(folder, weights).begin(resume=False, writes=True)
    assert restored(folder, weights)[0] == [2.0, 2.0]
    training_in(folder, weights, 3)
    assert tf.train.latest_checkpoint(folder).endswith("ckpt-3")


@pytest.mark.parametrize(
    "content",
    [
        *(None, "[1]", "{", '{"workload": "net", "settings": 3}'),
        *('{"workload": "net", "steps": 3}', '{"workload": "net", "steps": {"1": 3}}'),
    ],
)
def test_a_missing_or_damaged_description_is_named(tmp_path, weights, content):
    training_in(tmp_path, weights, 1)
    description = tmp_path / "fathom.json"
    description.unlink() if content is None else description.write_text(content)
    with pytest.raises(FathomError, match=r"fathom\.json cannot be read"):
        open_in(tmp_path, weights).restore()


@pytest.mark.parametrize("name", ["fathom.json", "checkpoint"])
def test_a_pipe_in_the_place_of_a_description_is_refused_and_not_waited_for(
    name, tmp_path, weights
):
    os.mkfifo(tmp_path / name)
    with pytest.raises(FathomError, match=f"{name} is not a regular file"):
        open_in(tmp_path, weights).open_for_writing()
    (tmp_path / name).unlink()
    training_in(tmp_path, weights, 1)
    pipe(tmp_path / "fathom.json")
    with pytest.raises(FathomError, match=r"fathom\.json is not a regular file"):
        open_in(tmp_path, weights).restore()


def test_what_killed_runs_left_is_removed_by_the_next_training(tmp_path, weights):
    training_in(tmp_path, weights, 1)
    good = {path.name for path in tmp_path.iterdir()}
    (tmp_path / "ckpt-890_temp").mkdir()
    for name in (
        "ckpt-890_temp/part-00000-of-00001.data-00000-of-00001",
        "ckpt-890.data-00000-of-00001",
        "ckpt-890.index.tempstate4711",
        ".fathom.json.123.tmp",
        ".checkpoint.123.tmp",
        "notes.txt",
    ):
        (tmp_path / name).write_text("")
    open_in(tmp_path, weights).restore()
    assert len(list(tmp_path.iterdir())) == len(good) + 6  # reading changes nothing
    training_in(tmp_path, weights)
    assert {path.name for path in tmp_path.iterdir()} == good | {"notes.txt"}


# ---------------------------------------------------------------- settings of each checkpoint


@pytest.mark.parametrize(("fails", "error"), [(full, FathomError), (killed, KeyboardInterrupt)])
@pytest.mark.parametrize("method", ["write", "replace"])
def test_a_checkpoint_keeps_its_settings_where_the_next_one_is_not_written(
    tmp_path, weights, monkeypatch, fails, error, method
):
    training_in(tmp_path, weights, 100, rate=0.1)
    if method == "write":
        monkeypatch.setattr(tf.train.Checkpoint, "write", fails)
    else:  # the data is in its place, the index is not
        replace = Path.replace
        monkeypatch.setattr(
            Path, "replace", lambda p, to: fails() if p.suffix == ".index" else replace(p, to)
        )
    with pytest.raises(error):
        resumed_in(tmp_path, weights, 200, rate=0.01)
    monkeypatch.undo()
    assert resumed_in(tmp_path, weights, rate=0.01).changes == {"rate": (0.1, 0.01)}
    assert resumed_in(tmp_path, weights, rate=0.1).changes == {}


def test_changes_are_those_since_the_checkpoint_before_a_damaged_one(tmp_path, weights):
    training_in(tmp_path, weights, 200, rate=0.1)
    resumed_in(tmp_path, weights, 300, rate=0.01)
    DAMAGES["data cut"](tmp_path, "ckpt-300")
    result = resumed_in(tmp_path, weights, rate=0.01)
    assert result.changes == {"rate": (0.1, 0.01)}
    assert result.notes[-1] == "changed since then: rate 0.1 -> 0.01"
    result = resumed_in(tmp_path, weights, rate=0.1)
    assert result.changes == {}
    assert result.notes[-1].endswith("ckpt-200, after step 200")


@pytest.mark.parametrize("ends", ["damaged", "not written"])
def test_formats_are_not_asked_of_a_checkpoint_of_another_precision(
    tmp_path, weights, monkeypatch, ends
):
    training_in(tmp_path, weights, 200, precision="float32")
    scale = tf.Variable(3.0)
    settings, variables = {"precision": "fixed16"}, {**weights, "scale": scale}

    def resume():
        checkpoints = Checkpoints(tmp_path, "net", settings, variables, formats=["scale"])
        return checkpoints, checkpoints.begin(resume=True, writes=True)

    with monkeypatch.context() as patch:
        if ends == "not written":
            patch.setattr(tf.train.Checkpoint, "write", full)
            with pytest.raises(FathomError, match="No space"):
                resume()[0].save(300)
        else:
            resume()[0].save(300)
            DAMAGES["data cut"](tmp_path, "ckpt-300")
    scale.assign(5.0)
    assert resume()[1].changes == {"precision": ("float32", "fixed16")}
    assert float(scale) == 5.0


def test_settings_are_kept_as_long_as_their_checkpoints(tmp_path, weights):
    training_in(tmp_path, weights, 1, 2, rate=0.1)
    resumed_in(tmp_path, weights, 3, rate=0.2)
    assert described(tmp_path) == {"1": {"rate": 0.1}, "2": {"rate": 0.1}, "3": {"rate": 0.2}}
    resumed_in(tmp_path, weights, 4, rate=0.3)
    assert described(tmp_path) == {"2": {"rate": 0.1}, "3": {"rate": 0.2}, "4": {"rate": 0.3}}
    DAMAGES["index empty"](tmp_path, "ckpt-4")
    resumed_in(tmp_path, weights, 5, rate=0.4)
    assert list(described(tmp_path)) == ["3", "4", "5"]


def test_a_description_with_the_settings_of_the_newest_alone_is_read(tmp_path, weights):
    training_in(tmp_path, weights, 1, 2, rate=0.1)
    old = {"workload": "net", "settings": {"rate": 0.1}}  # as Fathom wrote it before
    (tmp_path / "fathom.json").write_text(json.dumps(old))
    assert resumed_in(tmp_path, weights, rate=0.1).changes == {}
    assert resumed_in(tmp_path, weights, 3, rate=0.2).changes == {"rate": (0.1, 0.2)}
    assert described(tmp_path) == {"1": {"rate": 0.1}, "2": {"rate": 0.1}, "3": {"rate": 0.2}}
    DAMAGES["data cut"](tmp_path, "ckpt-3")
    assert resumed_in(tmp_path, weights, rate=0.2).changes == {"rate": (0.1, 0.2)}


@pytest.mark.parametrize("ends", ["damaged", "not written"])
def test_a_workload_trains_on_at_the_rate_asked_for(tmp_path, monkeypatch, ends):
    def resume(rate):
        model = Autoenc(
            "/cpu:0", {"batch_size": 20, "hidden_units": 4, "latents": 2, "learning_rate": rate}
        )
        model.setup({"checkpoint_dir": str(tmp_path), "resume": True})
        return model

    resume(0.1).run(n_steps=2)
    with monkeypatch.context() as patch:
        if ends == "not written":
            patch.setattr(tf.train.Checkpoint, "write", full)
            with pytest.raises(FathomError, match="No space"):
                resume(0.01).run(n_steps=1)
        else:
            resume(0.01).run(n_steps=1)
            DAMAGES["data cut"](tmp_path, "ckpt-3")
    for rate in (0.01, 0.1):
        model = resume(rate)
        assert model.steps_done == 2
        assert float(model.optimizer.learning_rate) == pytest.approx(rate)


# ---------------------------------------------------------------- refusals


def test_a_folder_without_checkpoints_has_nothing_to_restore_and_none_is_created(tmp_path, weights):
    for folder in (tmp_path, tmp_path / "run"):
        with pytest.raises(FathomError, match="holds no checkpoint"):
            open_in(folder, weights).restore()
    assert not (tmp_path / "run").exists()


def test_variables_that_the_checkpoint_lacks_are_named(tmp_path, weights):
    training_in(tmp_path, weights, 1, precision="float32")
    more = {**weights, "bias": tf.Variable(0.0)}
    with pytest.raises(FathomError, match=r"has no bias.*precision float32 -> float16"):
        open_in(tmp_path, more, precision="float16").restore()


def test_a_variable_of_another_shape_is_named(tmp_path, weights):
    training_in(tmp_path, weights, 1)
    with pytest.raises(FathomError, match=r"has weights of shape \[2\], the network \[3\]"):
        open_in(tmp_path, {"weights": tf.Variable([1.0, 2.0, 3.0])}).restore()


def test_insufficient_memory_is_not_reported_as_damage(tmp_path, weights, monkeypatch):
    training_in(tmp_path, weights, 1)

    def exhaust(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM")

    monkeypatch.setattr(Checkpoints, "_read", exhaust)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        open_in(tmp_path, weights).restore()


def test_a_folder_that_another_process_writes_to_is_refused_and_can_be_read(tmp_path, weights):
    training_in(tmp_path / "run", weights, 1)
    shutil.copytree(tmp_path / "run", tmp_path / "other")  # which this process has not locked
    hold = "import fcntl, time; fcntl.flock(0, fcntl.LOCK_EX); print(flush=True); time.sleep(60)"
    with (
        (tmp_path / "other" / ".lock").open() as lock,
        subprocess.Popen([sys.executable, "-c", hold], stdin=lock, stdout=subprocess.PIPE) as other,
    ):
        other.stdout.readline()
        with pytest.raises(FathomError, match=r"another process is writing to .*other"):
            training_in(tmp_path / "other", weights)
        assert restored(tmp_path / "other", weights)[0] == [1.0, 1.0]
        other.kill()
    training_in(tmp_path / "other", weights, 2)


def test_a_folder_that_cannot_be_made_is_named(tmp_path, weights):
    (tmp_path / "file").write_text("")
    with pytest.raises(FathomError, match=r"cannot write checkpoints in .*: Not a directory; use"):
        training_in(tmp_path / "file" / "folder", weights)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc on this system")
def test_a_folder_that_cannot_be_written_is_noticed_before_the_training(weights):
    with pytest.raises(FathomError, match=r"cannot write checkpoints in /proc: "):
        training_in("/proc", weights)


def test_a_read_only_folder_with_an_older_lock_is_noticed_before_the_training(tmp_path, weights):
    training_in(tmp_path, weights, 1)
    tmp_path.chmod(0o500)
    try:
        if os.access(tmp_path, os.W_OK):
            pytest.skip("this user may write everywhere")
        with pytest.raises(FathomError, match="Permission denied"):
            training_in(tmp_path, weights)
    finally:
        tmp_path.chmod(0o700)
