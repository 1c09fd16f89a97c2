"""Trains diffusion on MNIST and asks what its samples are worth.

A classifier that is trained here on MNIST's training images says which digits 1,000 samples show.
Their distances to each other tell whether few images come again and again, those to the nearest
training image whether they are copies; both are held against MNIST's test images. The folder also
gets checkpoints: a command that was interrupted goes on, and one that ended samples again.

    FATHOM_DATA_DIR=DATA python benchmarks/diffusion_quality.py --out FOLDER
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from fathom.cli.parser import Parser
from fathom.cli.terminal import import_tensorflow, run_command

STAGES = 6  # rows of the picture of samples over training
COUNT = 1000  # samples, a tenth of each class
BATCH = 100  # samples at once
EPOCHS = 2  # of the classifier


def main() -> None:
    """Reads the command line, trains and measures."""
    parser = Parser(description="Trains diffusion on MNIST and measures its samples.")
    parser.add_argument("--steps", type=int, default=2000, help="training steps; default: 2000")
    parser.add_argument("--seed", type=int, default=0, help="of everything random; default: 0")
    parser.add_argument("--threads", type=int, default=1, help="default: 1")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="as of run"
    )
    parser.add_argument(
        "--guidance", nargs="+", default=["2"], metavar="SCALE", help="of the samples; default: 2"
    )
    parser.add_argument("--out", type=Path, required=True, help="existing folder for the pictures")
    args = parser.parse_args()
    run_command("diffusion_quality", lambda: measure(args))


def measure(args: Any) -> None:
    """Prints what was found, and writes the pictures."""
    import_tensorflow()
    import keras

    from fathom.modern.diffusion import Diffusion
    from fathom.shared.pictures import save_sheet

    chosen = dict(pair.split("=", 1) for pair in args.set)
    chosen |= {"seed": args.seed, "threads": args.threads}
    kept = {"checkpoint_dir": str(args.out / "checkpoints"), "resume": True}
    model = Diffusion("/cpu:0", chosen)
    model.setup(kept)
    mnist: Any = model.dataset.load(model.source.directory)
    keras.utils.set_random_seed(args.seed)
    train, test = (
        (images[..., None] / np.float32(127.5) - 1, labels)
        for images, labels in (
            (mnist.train_images, mnist.train_labels),
            (mnist.test_images, mnist.test_labels),
        )
    )
    rng = np.random.default_rng(args.seed)
    noise = rng.standard_normal((COUNT, *train[0].shape[1:]), np.float32)
    classes = np.arange(COUNT, dtype=np.int32) % 10
    stages, start = [], time.process_time()
    for done in np.unique(np.geomspace(args.steps / 32, args.steps, STAGES).astype(int)):
        if done <= model.steps_done:
            continue
        result = model.run(n_steps=int(done) - model.steps_done)
        stages.append(model.sample(noise[:10], classes[:10])[-1])
        loss = np.mean(result.steps.loss[-100:])
        print(f"{done} steps, {time.process_time() - start:.0f} s, loss {loss:.4f}", flush=True)
    if stages:
        shown = (np.stack(stages)[..., 0] + 1) / 2
        save_sheet(shown, "Samples over training", args.out / "diffusion-training.png")
    print(f"loss of the test images: {model.evaluate()['loss']:.4f}")
    classifier = classifier_of(train)
    print(f"classifier: {agreement(classifier, *test)[0]:.2%} of the test images", flush=True)
    for scale in args.guidance:
        guided = Diffusion("/cpu:0", chosen | {"guidance": scale})
        guided.setup(kept)
        parts = [
            guided.sample(noise[i : i + BATCH], classes[i : i + BATCH])
            for i in range(0, COUNT, BATCH)
        ]
        samples = np.concatenate([each[-1] for each in parts])
        way = parts[0][np.linspace(0, len(parts[0]) - 1, 10).astype(int), :10, ..., 0]
        path = args.out / f"diffusion-trajectory-{scale}.png"
        save_sheet((way + 1) / 2, "From noise to images", path)
        sheet = samples[:100, ..., 0].reshape(10, 10, *samples.shape[1:3])
        title = f"After {model.steps_done} steps, guidance {scale}"
        save_sheet((sheet + 1) / 2, title, args.out / f"diffusion-samples-{scale}.png")
        share, found = agreement(classifier, samples, classes)
        print(f"guidance {scale}: {share:.1%} show the digit that was asked for", end="; ")
        print(f"shown: {found.tolist()}", flush=True)
        print_distances(train[0], *test, samples, classes)


def classifier_of(train: tuple[np.ndarray, np.ndarray]) -> Any:
    """Returns a convolutional network that knows the digits."""
    import keras

    layers = keras.layers
    network = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(keras.optimizers.Adam(), loss)
    network.fit(*train, batch_size=128, epochs=EPOCHS, verbose=0)
    return network


def agreement(classifier: Any, images: np.ndarray, classes: np.ndarray) -> tuple[float, np.ndarray]:
    """Returns the share of images that show their class, and how many show each."""
    found = classifier.predict(images, verbose=0).argmax(1)
    return float((found == classes).mean()), np.bincount(found, minlength=10)


def print_distances(
    train: np.ndarray,
    test: np.ndarray,
    digits: np.ndarray,
    samples: np.ndarray,
    classes: np.ndarray,
) -> None:
    """Prints nearest training images and the spread within a class, of samples and test images."""
    known = train.reshape(len(train), -1)
    few = np.concatenate([np.flatnonzero(digits == digit)[: COUNT // 10] for digit in range(10)])
    for name, images, shown in (
        ("samples", samples, classes),
        ("test images", test[few], digits[few]),
    ):
        flat = images.reshape(len(images), -1)
        nearest = np.sqrt(squared(flat, known).min(1))
        spread = []
        for digit in range(10):
            between = squared(flat[shown == digit], flat[shown == digit])
            spread.append(np.median(np.sqrt(between[np.triu_indices(len(between), 1)])))
        print(
            f"{name}: to the nearest training image {np.median(nearest):.2f} "
            f"({np.quantile(nearest, 0.01):.2f} to {np.quantile(nearest, 0.99):.2f}); "
            f"within a class {np.median(spread):.2f}, least {min(spread):.2f}"
        )


def squared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns the squared distances of all rows, float32 [len(a), len(b)]."""
    products: np.ndarray = (a**2).sum(1)[:, None] - 2 * a @ b.T + (b**2).sum(1)
    return np.maximum(products, 0)


if __name__ == "__main__":
    main()
