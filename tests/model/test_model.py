"""What a model keeps, and for how long."""

import pytest

from fathom import Autoenc, FathomError

SMALL = {"hidden_units": 8, "latents": 2, "batch_size": 20}


@pytest.fixture
def model():
    model = Autoenc("/cpu:0", SMALL)
    model.setup()
    yield model
    model.teardown()


def test_an_evaluation_that_fails_disturbs_no_training_step(model):
    def damaged():
        yield next(iter(model.evaluation_batches()))
        raise FathomError("damaged")

    with pytest.raises(FathomError, match="damaged"):
        model.metrics_of(damaged())
    assert int(model.noise_step) == 0


def test_another_training_begins_without_the_curves_and_notes_of_the_one_before(model):
    model.note("loss", 1.0)
    model.notes.append("left out: two")
    model.setup()
    assert (model.history, model.notes) == ({}, [])


def test_the_same_data_under_another_name_is_no_change(model, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(model.source.directory)
    for folder in (model.source.directory, link):
        again = Autoenc("/cpu:0", SMALL | {"data_dir": str(folder)})
        again.setup({"checkpoint_dir": str(tmp_path), "resume": True})
        again.run(n_steps=1)
        again.teardown()
    assert [note for note in again.notes if "restored" in note or "changed" in note] == [
        f"restored {tmp_path / 'ckpt-1'}, after step 1"
    ]
