import pytest
import tensorflow as tf

from fathom import FathomError
from fathom.training.checkpoint import Checkpoints, described


@pytest.fixture
def weights():
    return {"weights": tf.Variable([1.0, 2.0])}


def open_in(directory, variables, workload="net", **settings):
    return Checkpoints(directory, workload, settings, variables)


def test_the_newest_three_are_kept(tmp_path, weights):
    checkpoints = open_in(tmp_path, weights)
    for step in range(1, 6):
        checkpoints.save(step)
    kept = sorted(path.name for path in tmp_path.glob("*.index"))
    assert kept == ["ckpt-3.index", "ckpt-4.index", "ckpt-5.index"]


def test_what_was_saved_is_restored_and_changed_settings_are_named(tmp_path, weights):
    open_in(tmp_path, weights, rate=0.1, size=3).save(7)
    weights["weights"].assign([0.0, 0.0])
    changes = open_in(tmp_path, weights, rate=0.2, size=3).restore()
    assert weights["weights"].numpy().tolist() == [1.0, 2.0]
    assert changes == {"rate": (0.1, 0.2)}
    assert described(changes) == ["rate 0.1 -> 0.2"]


def test_a_folder_can_be_moved(tmp_path, weights):
    open_in(tmp_path / "here", weights).save(1)
    (tmp_path / "here").rename(tmp_path / "there")
    open_in(tmp_path / "there", weights).restore()


def test_values_that_are_not_finite_are_not_saved_over_good_ones(tmp_path, weights):
    checkpoints = open_in(tmp_path, weights)
    checkpoints.save(1)
    weights["weights"].assign([1.0, float("nan")])
    with pytest.raises(FathomError, match=r"diverged.*ckpt-1"):
        checkpoints.save(2)
    assert checkpoints.latest.endswith("ckpt-1")


def test_a_full_disk_is_named_and_the_last_checkpoint_kept(tmp_path, weights, monkeypatch):
    checkpoints = open_in(tmp_path, weights)
    checkpoints.save(1)

    def full(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.train.CheckpointManager, "save", full)
    with pytest.raises(FathomError, match=r"No space left on device; the last good .*ckpt-1"):
        checkpoints.save(2)
    open_in(tmp_path, weights).restore()


def test_a_damaged_checkpoint_is_named(tmp_path, weights):
    open_in(tmp_path, weights).save(1)
    (tmp_path / "ckpt-1.index").write_bytes(b"not an index")
    with pytest.raises(FathomError, match="ckpt-1"):
        open_in(tmp_path, weights).restore()


@pytest.mark.parametrize("damage", ["lost", "empty"])
def test_checkpoints_are_found_without_the_file_that_names_the_newest(tmp_path, weights, damage):
    open_in(tmp_path, weights).save(1)
    (tmp_path / "checkpoint").unlink() if damage == "lost" else (
        tmp_path / "checkpoint"
    ).write_text("")
    again = open_in(tmp_path, weights)
    with pytest.raises(FathomError, match="already holds checkpoints"):
        again.refuse_other_training()
    again.restore()


def test_after_a_damaged_checkpoint_the_one_before_is_named_and_can_be_restored(tmp_path, weights):
    checkpoints = open_in(tmp_path, weights)
    checkpoints.save(1)
    weights["weights"].assign([3.0, 4.0])
    checkpoints.save(2)
    data = tmp_path / "ckpt-2.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(FathomError, match=r"ckpt-2 is damaged.*delete ckpt-2\.\* .* from ckpt-1"):
        open_in(tmp_path, weights).restore()
    for path in tmp_path.glob("ckpt-2.*"):
        path.unlink()
    open_in(tmp_path, weights).restore()
    assert weights["weights"].numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("content", ["[1]", "{", '{"workload": "net", "settings": 3}'])
def test_a_damaged_description_is_named(tmp_path, weights, content):
    open_in(tmp_path, weights).save(1)
    (tmp_path / "fathom.json").write_text(content)
    with pytest.raises(FathomError, match=r"fathom\.json cannot be read"):
        open_in(tmp_path, weights).restore()


def test_an_empty_folder_has_nothing_to_resume(tmp_path, weights):
    with pytest.raises(FathomError, match="holds no checkpoint"):
        open_in(tmp_path, weights).restore()


def test_a_missing_description_is_named(tmp_path, weights):
    open_in(tmp_path, weights).save(1)
    (tmp_path / "fathom.json").unlink()
    with pytest.raises(FathomError, match=r"fathom\.json"):
        open_in(tmp_path, weights).restore()


def test_variables_that_the_checkpoint_lacks_are_named(tmp_path, weights):
    open_in(tmp_path, weights, precision="float32").save(1)
    more = {**weights, "bias": tf.Variable(0.0)}
    with pytest.raises(FathomError, match=r"has no bias.*precision float32 -> float16"):
        open_in(tmp_path, more, precision="float16").restore()


def test_a_folder_that_cannot_be_made_is_named(tmp_path, weights):
    (tmp_path / "file").write_text("")
    with pytest.raises(FathomError, match="cannot make"):
        open_in(tmp_path / "file" / "folder", weights)
