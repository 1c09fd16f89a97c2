import pytest
from legibility import assert_legible
from synthetic_folder import ENVIRONMENT, folder, run

from fathom.measure.report.figures import m_quality
from fathom.results.quality import Point, Quality, Training
from fathom.results.records import Environment


def training(size, steps, seconds, reached=True, seed=0):
    start = Point(epoch=0, steps=0, seconds=0, value=0.1)
    end = Point(epoch=2, steps=steps, seconds=seconds, value=0.9)
    return Training(
        seed=seed,
        batch_size=size,
        learning_rate=0.01,
        reached=reached,
        failure="",
        curve=[start, end],
    )


def quality(target, *trainings):
    return Quality(
        workload="autoenc",
        metric="accuracy",
        target=target,
        higher_is_better=True,
        most_epochs=20,
        seed=0,
        environment=ENVIRONMENT,
        trainings=list(trainings),
    )


@pytest.fixture
def trained(tmp_path):
    """Gives a folder with the trainings of one workload."""
    each = training(8, 100, 9), training(64, 20, 4), training(512, 9, 2, reached=False)
    (tmp_path / "quality").mkdir()
    quality(0.8, *each).write(tmp_path / "quality" / "autoenc.json")
    return folder([run()], path=tmp_path)


def test_examples_and_time_have_their_own_best_batch_sizes(trained):
    findings = m_quality.FIGURE.analyse(trained)
    assert findings.summary == (
        "autoenc (accuracy 0.8): fewest examples with batches of 8, least time with 64."
    )
    assert findings.tables["trainings"].examples.tolist() == pytest.approx([700, 1120, 4608])


def test_each_target_has_its_own_best_batch_size_by_the_median_seed(trained):
    hard = [training(8, 400, 36, seed=seed) for seed in range(3)]
    lucky = [training(64, steps, 90, seed=seed) for seed, steps in enumerate((10, 90, 90))]
    quality(0.85, *hard, *lucky).write(trained.path / "quality" / "hard.json")
    findings = m_quality.FIGURE.analyse(trained)
    assert findings.summary == (
        "autoenc (accuracy 0.8): fewest examples with batches of 8, least time with 64; "
        "autoenc (accuracy 0.85): fewest examples with batches of 8, least time with 8."
    )
    assert [axes.get_title() for axes in findings.plot.axes] == [
        f"autoenc (accuracy {target}): {quantity}"
        for target in (0.8, 0.85)
        for quantity in ("examples", "seconds")
    ]
    assert [len(axes.lines[0].get_xdata()) for axes in findings.plot.axes] == [2] * 4
    assert_legible(findings.plot)


def test_numbers_of_replicas_have_their_own_best_batch_sizes(trained):
    two = [training(8, 50, 1), training(64, 5, 3)]
    two = [each.model_copy(update={"replicas": 2}) for each in two]
    one = [training(8, 100, 9), training(64, 20, 4)]
    table = m_quality.trainings([quality(0.8, *one, *two)])
    assert m_quality.summary(table) == (
        "autoenc (accuracy 0.8), 1 replica: fewest examples with batches of 8, least time with "
        "64; autoenc (accuracy 0.8), 2 replicas: fewest examples with batches of 64, least time "
        "with 8."
    )


def test_a_seed_without_the_target_counts_as_infinite(trained):
    lucky = [training(64, 9, 2, reached=seed < 1, seed=seed) for seed in range(3)]
    steady = [training(8, 400, 36, reached=seed > 0, seed=seed) for seed in range(3)]
    quality(0.8, *steady, *lucky).write(trained.path / "quality" / "autoenc.json")
    findings = m_quality.FIGURE.analyse(trained)
    assert findings.summary == (
        "autoenc (accuracy 0.8): fewest examples with batches of 8, least time with 8."
    )
    assert findings.data["batch size"].tolist() == [8]


def test_what_reached_the_target_is_drawn(trained):
    findings = m_quality.FIGURE.analyse(trained)
    assert findings.data["batch size"].tolist() == [8, 64]
    assert_legible(findings.plot)


def test_trainings_on_other_threads_are_apart(trained):
    environment = ENVIRONMENT | {"threads": 1}
    ours = quality(0.8, training(8, 100, 9))
    other = ours.model_copy(update={"environment": Environment(**environment)})
    names = m_quality.trainings([ours, other]).workload.tolist()
    assert names == ["autoenc, threads 4", "autoenc, threads 1"]


def test_trainings_with_other_settings_are_apart(trained):
    other = quality(0.8, training(8, 10, 90)).model_copy(update={"settings": {"rule": "adam"}})
    ours = quality(0.8, training(8, 100, 9)).model_copy(update={"settings": {"rule": "sgd"}})
    older = quality(0.8, training(8, 70, 5))
    for name, each in (("autoenc", ours), ("older", older), ("other", other)):
        each.write(trained.path / "quality" / f"{name}.json")
    findings = m_quality.FIGURE.analyse(trained)
    assert findings.tables["trainings"].workload.tolist() == [
        *("autoenc", "autoenc, rule sgd", "autoenc, rule adam")
    ]
    assert len(findings.plot.axes) == 6
    assert_legible(findings.plot)
