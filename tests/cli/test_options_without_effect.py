"""An option that would do nothing is refused in one line that says what to do."""

import pytest
from commands import refusal, run

from fathom.__main__ import main

ROOFLINE = "roofline autoenc --machine p100 --description step.json"
SCALING = "characterize --workers=1,2 --batch-size=8"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{ROOFLINE} --infer", "--infer has no effect with --description"),
        (f"{ROOFLINE} --train", "--train has no effect with --description"),
        (f"{ROOFLINE} --batch-size=2", "--batch-size has no effect with --description"),
        (f"{ROOFLINE} --set latents=3", "--set has no effect with --description"),
        (f"{ROOFLINE} --dataset=mnist", "--dataset has no effect with --description"),
        (f"{ROOFLINE} --length=3", "--length has no effect with --description"),
        (f"{ROOFLINE} --dim batch=3", "--dim has no effect with --description"),
        ("explore --machine=p100 --layers=a.csv --dim batch=3", "--dim has no effect with layers"),
        ("export autoenc --infer --to=keras --dim batch=3", "--dim is of a network's file"),
        ("formats autoenc --checkpoint-dir=x", "--checkpoint-dir is for --infer"),
        ("formats autoenc --infer --steps=5", "--steps is of training: omit it"),
        ("formats autoenc --formats=tf32 --rounding=nearest", "--rounding is of fixed point"),
        ("sparsity autoenc --checkpoint-dir=x", "--checkpoint-dir is for --infer"),
        ("profile . --steps=5", "--steps has no effect on a profile that exists"),
        ("profile . --infer", "--infer has no effect on a profile that exists"),
        ("profile . --out=x", "--out has no effect: the profile is in . already"),
        (
            "quality autoenc --target=loss=1 --batches=1,2 --set batch_size=3",
            "--batches names the batch sizes",
        ),
        ("describe gpt --train --set phase=decode", "phase has no effect in training: omit it"),
        ("run seq2seq --set decoding=teacher-forced", "decoding has no effect in training"),
        ("launch -n 2 --hosts=a,b --out=x -- vgg", "--out has no effect with --hosts"),
        ("launch -n 2 -- vgg --strategy=none", "sets --strategy multi-worker: omit --strategy"),
        ("export autoenc --to=keras --profile=x", "keras holds no times: omit --profile"),
        ("export autoenc --to=json --profile=x", "json holds no times: omit --profile"),
        (f"{SCALING} --modes=train", "--modes has no effect with --workers"),
        (f"{SCALING} --devices=cpu", "--devices has no effect with --workers"),
        ("characterize --batches --warmup-runs=1", "--warmup-runs has no effect with --batches"),
        ("characterize --batches --profile-repeats=1", "--profile-repeats has no effect"),
    ],
)
def test_an_option_without_effect_is_refused(command, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(capsys, run(main, command.split()))
    assert list(tmp_path.iterdir()) == []
