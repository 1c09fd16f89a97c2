"""Workloads that installed packages register: plug-ins."""

import sys

import pytest
from registration import write_metadata

from fathom import FathomError, workloads

SOUND = """
from fathom.autoenc.model import Autoenc

class Sound(Autoenc):
    name = "sound"

class SoundFwd(Sound):
    forward_only = True
"""


def test_asking_for_either_class_of_a_plug_in_checks_both(install):
    text = f"{SOUND}\nSoundFwd.__bases__ = (Autoenc,)\nSoundFwd.name = 'sound'\n"
    text += "Sound.Hyperparameters = object\n"
    install("fathom-sound", {"sound": "sound_half:Sound"}, sound_half=text)
    for forward_only in (False, True):
        with pytest.raises(FathomError, match=r"Sound\.Hyperparameters is not a fathom"):
            workloads.load("sound", forward_only)


def test_a_plug_in_is_known_by_its_metadata_and_imported_where_it_is_asked_for(install):
    install("fathom-sound", {"sound": "sound_module:Sound"}, sound_module=SOUND)
    assert workloads.names()[:8] == list(workloads.EIGHT)
    assert "sound" in workloads.names()
    assert workloads.select("all,sound") == workloads.names()
    assert workloads.select("sound,vgg") == ["sound", "vgg"]
    assert "sound_module" not in sys.modules
    assert workloads.load("sound").__name__ == "Sound"
    assert workloads.load("sound", forward_only=True).forward_only


def test_the_sets_of_workloads_have_names(install):
    install("fathom-more", {"sound": "elsewhere:Sound", "wave": "fathom.modern.wave:Wave"})
    assert workloads.select("eight") == list(workloads.EIGHT)
    modern = workloads.select("modern")
    assert "wave" in modern
    assert "sound" not in modern
    assert {*workloads.EIGHT, *modern, "sound"} <= set(workloads.select("all"))
    with pytest.raises(FathomError, match="unknown workload 'alexnot': did you mean alexnet"):
        workloads.select("modern,alexnot")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("import Autoenc", "import Autoencoder"), "cannot be used: cannot import name 'Autoenc"),
        (("class Sound(", "raise SystemExit\nclass Sound("), "cannot be used: SystemExit"),
        (("class Sound(", "class Other("), "name 'Sound' is not defined"),
        (("class Sound(Autoenc):", "class Sound:"), "is not a subclass of fathom.nn.Neural"),
        (('name = "sound"', 'name = "noise"'), "the name of Sound is not sound"),
        (('name = "sound"', 'name, Hyperparameters = "sound", dict'), "Hyperparameters is not a"),
        (('name = "sound"', 'name, datasets = "sound", ()'), "Sound.datasets does not list cla"),
        (('name = "sound"', 'name, datasets = "sound", (3,)'), "Sound.datasets does not list cla"),
        (
            (
                'name = "sound"',
                'name, datasets = "sound", (type("Waves", (__import__'
                '("fathom.core.data").core.data.DataSet,), {"name": "waves"}),)',
            ),
            "Waves does not define load, synthesize, verify, title, licence, home_page, layout",
        ),
        (
            (
                'name = "sound"',
                'name, Hyperparameters = "sound", __import__'
                '("fathom.options").options.Hyperparameters',
            ),
            "Hyperparameters does not define batch_size",
        ),
        (("SoundFwd(Sound)", "SoundForward(Sound)"), "has no attribute 'SoundFwd'"),
        (("forward_only = True", "pass"), "SoundFwd does not set forward_only"),
        (
            ("(Autoenc)", "(__import__('fathom').NeuralNetworkModel)"),
            "does not define .*build_loss",
        ),
    ],
)
def test_a_plug_in_that_is_no_workload_is_named_in_one_line(change, message, install):
    module = f"sound_{abs(hash(change))}"
    install("fathom-sound", {"sound": f"{module}:Sound"}, **{module: SOUND.replace(*change)})
    assert "sound" in workloads.names()
    with pytest.raises(FathomError, match=message) as error:
        workloads.load("sound")
    assert str(error.value).startswith(f"{module}:Sound of fathom-sound cannot be used: ")
    assert "\n" not in str(error.value)


def test_a_plug_in_whose_descriptor_fails_is_named_in_one_line(install, tmp_path):
    package = tmp_path / "with-package" / "fathom_broken"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "descriptor.py").write_text("raise ValueError('broken')")
    entries = {"broken": "fathom_broken.model:Broken", "worse": "no place"}
    install("fathom-broken", entries, package.parent)
    for name, message in (("broken", "broken"), ("worse", ".*required to perform")):
        with pytest.raises(FathomError, match=f"descriptor defines no DESCRIPTOR: {message}"):
            workloads.descriptor(name)


@pytest.mark.parametrize("text", [b"nothing", b"[fathom.workloads]\nnothing\n", b"\xff\xfe["])
def test_a_package_with_damaged_metadata_stops_no_other(text, install, tmp_path):
    install("fathom-damaged", {})
    (
        tmp_path / "fathom-damaged-installed/fathom_damaged-0.1.dist-info/entry_points.txt"
    ).write_bytes(text)
    install("fathom-sound", {"sound": "sound_module:Sound"})
    assert workloads.names()[:8] == list(workloads.EIGHT)
    assert "sound" in workloads.names()


def test_an_installation_that_another_one_hides_is_not_seen(install, tmp_path):
    write_metadata(tmp_path / "older", "fathom-sound", {"sound": "older:Sound"})
    install("fathom-sound", {"sound": "newer:Sound"})
    sys.path.append(str(tmp_path / "older"))  # monkeypatch puts the path right again
    assert workloads.refused() == {}
    assert "sound" in workloads.names()


def test_two_of_one_name_are_refused(install):
    install("fathom-sound", {"sound": "one:Sound", "vgg": "one:VGG"})
    install("fathom-noise", {"sound": "two:Sound", "all": "two:All", "no-name": "two:No"})
    for name, message in (
        ("sound", "one:Sound of fathom-sound and two:Sound of fathom-noise have the same name"),
        ("all", "two:All of fathom-noise takes a name that is Fathom's own"),
        ("no-name", "two:No of fathom-noise has a name that is not of a-z"),
    ):
        with pytest.raises(FathomError, match=f"{name} is refused: {message}"):
            workloads.load(name)
        assert name not in workloads.names()
    assert "takes a name that is Fathom's own" in workloads.refused()["vgg"]
    assert workloads.load("vgg").__module__ == "fathom.vgg.model"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("gpt", {"top_k": 5}),
        ("moe", {"top_p": 0.5}),
        ("dlrm", {"rows": 100_000_000}),  # more than a tensor has
        ("seq2seq", {"clip_norm": 0}),
        ("memnet", {"clip_norm": 0}),
        ("speech", {"gradient_norm": 0}),
    ],
)
def test_hyperparameters_without_effect_or_of_no_use_are_refused(name, values):
    with pytest.raises(FathomError, match=next(iter(values))):
        workloads.load(name).Hyperparameters(**values)
