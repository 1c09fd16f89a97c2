import numpy as np
import pytest
import tensorflow as tf

from fathom.imagenet import synthetic
from fathom.imagenet.ilsvrc import ImageNet


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("imagenet")
    ImageNet.synthesize(directory, seed=3)
    return directory


def test_the_set_is_a_tree_of_ten_classes(directory):
    data = ImageNet.load(directory)
    assert (data.train.size, data.validation.size, data.classes) == (600, 120, 10)
    assert data.class_names == synthetic.WNIDS


def test_the_set_is_small(directory):
    assert sum(path.stat().st_size for path in directory.rglob("*.JPEG")) < 15e6


def test_the_seed_fixes_every_byte(directory, tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "IMAGES_PER_CLASS", {"train": 2, "val": 1})
    ImageNet.synthesize(tmp_path, seed=3)
    written = list(tmp_path.rglob("*.JPEG"))
    assert len(written) == 30
    for path in written:
        assert path.read_bytes() == (directory / path.relative_to(tmp_path)).read_bytes()


def test_another_seed_and_another_split_give_other_images(directory):
    first, other = (synthetic.draw(0, np.random.default_rng(seed)) for seed in (1, 2))
    assert first.shape != other.shape or (first != other).any()
    contents = {path.read_bytes() for path in directory.rglob("*.JPEG")}
    assert len(contents) == 720


def test_sides_vary_in_both_orientations(directory):
    sides = np.array(
        [
            tf.io.extract_jpeg_shape(tf.io.read_file(str(path)))[:2]
            for path in directory.glob("val/*/*.JPEG")
        ]
    )
    heights, widths = sides.T
    assert (heights > widths).any()
    assert (heights < widths).any()
    assert sides.min() >= 260
    assert sides.max() <= 390


def nearest_class_mean_accuracy(describe):
    """Returns how often the nearest class mean in a feature space is the right class."""
    rng = np.random.default_rng(0)
    features = np.array([[describe(synthetic.draw(c, rng)) for _ in range(24)] for c in range(10)])
    features = (features - features.mean((0, 1))) / (features.std((0, 1)) + 1e-9)
    means = features[:, :12].mean(1)
    distances = np.linalg.norm(features[:, 12:, None] - means, axis=-1)
    return (distances.argmin(-1) == np.arange(10)[:, None]).mean()


def test_mean_colour_alone_does_not_tell_the_class():
    assert nearest_class_mean_accuracy(lambda image: image.mean((0, 1))) < 0.35


def spectrum(image):
    """Returns where the energy lies among directions and frequencies, a coarse texture measure."""
    grey = image.mean(-1)[:256, :256]
    power = np.log(np.abs(np.fft.fftshift(np.fft.fft2(grey - grey.mean()))) + 1e-9)
    middle = power[112:145, 112:145]
    return (middle - middle.mean()).reshape(11, 3, 11, 3).mean((1, 3)).ravel()


def test_texture_tells_the_class():
    assert nearest_class_mean_accuracy(spectrum) > 0.7
