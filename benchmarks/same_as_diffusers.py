"""Compares diffusion with the network and the samplers of Hugging Face's diffusers.

Draws random weights, gives them to ``DiTTransformer2DModel`` too, and prints the largest relative
differences: of the noise that is found, loss, gradients, weights after a step of AdamW, and images
sampled by ``DDIMScheduler``, whose shares are computed in float64 as here. In diffusers each block
has its own copy of the embedding of time and class: their gradients are added up. It divides the
exponents of the time's frequencies by 127, not by 128 as DiT's code; here it is told to do so too.
Needs ``pip install torch diffusers`` beside Fathom.

    python benchmarks/same_as_diffusers.py
"""

import numpy as np
import tensorflow as tf
import torch
from diffusers import DDIMScheduler, DDPMScheduler, DiTTransformer2DModel

from fathom.modern.diffusion.model import Diffusion, DiffusionFwd
from fathom.modern.diffusion.process import signal, steps_back

LAYERS, WIDTH, HEADS, PATCH, RATE = 3, 64, 4, 4, 1e-3
OPTIONS = {"layers": LAYERS, "width": WIDTH, "heads": HEADS, "patch": PATCH, "batch_size": 8}
BETAS = {"beta_start": 1e-4, "beta_end": 0.02, "beta_schedule": "linear"}


def theirs() -> DiTTransformer2DModel:
    """Returns the model of diffusers."""
    model = DiTTransformer2DModel(
        num_attention_heads=HEADS,
        attention_head_dim=WIDTH // HEADS,
        in_channels=1,
        out_channels=1,
        num_layers=LAYERS,
        sample_size=28,
        patch_size=PATCH,
        num_embeds_ada_norm=10,
    )
    for block in model.transformer_blocks:
        block.norm1.emb.time_proj.downscale_freq_shift = 0  # as in DiT's code
    return model.eval()  # classes are not dropped


def places() -> dict[str, tuple[str, ...]]:
    """Returns the names of our weights' counterparts; several are side by side, or copies."""
    found: dict[str, tuple[str, ...]] = {
        "patches/": ("pos_embed.proj",),
        "modulation/": ("proj_out_1",),
        "pixels/": ("proj_out_2",),
    }
    every = [f"transformer_blocks.{i}.norm1.emb" for i in range(LAYERS)]
    found["time/"] = tuple(f"{each}.timestep_embedder.linear_1" for each in every)
    found["condition/"] = tuple(f"{each}.timestep_embedder.linear_2" for each in every)
    found["condition/classes"] = tuple(
        f"{each}.class_embedder.embedding_table.weight" for each in every
    )
    for i in range(LAYERS):
        block, name = f"transformer_blocks.{i}", f"block{i + 1}"
        found[f"{name}_modulation/"] = (f"{block}.norm1.linear",)
        found[f"{name}_attention/"] = tuple(f"{block}.attn1.to_{each}" for each in "qkv")
        found[f"{name}_attention/projection_"] = (f"{block}.attn1.to_out.0",)
        found[f"{name}_feed_forward/"] = (f"{block}.ff.net.0.proj",)
        found[f"{name}_feed_forward/projection_"] = (f"{block}.ff.net.2",)
    return found


def names(path: str) -> list[str]:
    """Returns the names of the parameters of diffusers for one of our weights."""
    table = places()
    if path in table:
        return list(table[path])
    ending = "bias" if path.endswith("bias") else "kernel"
    kind = "bias" if ending == "bias" else "weight"
    return [f"{each}.{kind}" for each in table[path.removesuffix(ending)]]


def as_ours(path: str, tensors: list[np.ndarray], shape: tuple, gradients: bool) -> np.ndarray:
    """Returns tensors of diffusers in the form of one of our weights."""
    if path == "patches/kernel":
        return tensors[0].transpose(2, 3, 1, 0).reshape(shape)
    if path == "condition/classes" or (
        path.startswith(("time/", "condition/")) and path.endswith("bias")
    ):
        return sum(tensors) if gradients else tensors[0]
    if path.startswith(("time/", "condition/")):
        return (sum(tensors) if gradients else tensors[0]).T
    return np.concatenate([each.T for each in tensors], -1)


def give(model: DiTTransformer2DModel, ours: Diffusion) -> None:
    """Gives our weights to the model of diffusers."""
    parameters = dict(model.named_parameters())
    for variable in ours.network.trainable_variables:
        value, targets = variable.numpy(), [parameters[each] for each in names(variable.path)]
        copies = variable.path.startswith(("time/", "condition/")) or len(targets) == 1
        parts = [value] * len(targets) if copies else np.split(value, len(targets), -1)
        for target, part in zip(targets, parts, strict=True):
            if variable.path == "patches/kernel":
                part = part.reshape(PATCH, PATCH, 1, WIDTH).transpose(3, 2, 0, 1)
            elif part.ndim == 2 and variable.path != "condition/classes":
                part = part.T
            target.data.copy_(torch.tensor(np.ascontiguousarray(part)))


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Returns the norm of a difference over that of the second."""
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


def swapped(images: np.ndarray) -> torch.Tensor:
    """Returns images [n, side, side, channels] with the channels second."""
    return torch.tensor(np.ascontiguousarray(np.moveaxis(images, 3, 1)))


def sampled(
    model: DiTTransformer2DModel, x: torch.Tensor, classes: torch.Tensor, guidance: float
) -> np.ndarray:
    """Returns images sampled by diffusers in 50 steps."""
    scheduler = DDIMScheduler(**BETAS)  # clips what it takes for the image, as here
    scheduler.alphas_cumprod = torch.tensor(signal())  # its own are a product in float32
    scheduler.set_timesteps(50)
    unknown = torch.full_like(classes, 10)
    for time in scheduler.timesteps:
        times = time.repeat(len(x))
        given, without = (
            model(x, timestep=times, class_labels=each).sample for each in (classes, unknown)
        )
        noise = without + guidance * (given - without)
        x = scheduler.step(noise, time, x, use_clipped_model_output=True).prev_sample
    return np.moveaxis(x.numpy(), 1, 3)


def ddpm_difference() -> float:
    """Returns the largest difference of a step of DDPM from that of diffusers, without noise."""
    scheduler, worst = DDPMScheduler(**BETAS), 0.0
    scheduler.alphas_cumprod = torch.tensor(signal())
    scheduler.set_timesteps(1000)
    times, factors = steps_back("ddpm", 1000)
    rng = np.random.default_rng(2)
    x, e = rng.normal(size=(2, 1, 1, 4, 4)).astype(np.float32)
    for i in (0, 300, 700, 998, 999):
        time, state = int(times[i]), torch.manual_seed(0)
        expected = scheduler.step(torch.tensor(e), time, torch.tensor(x), state).prev_sample
        z = torch.randn(x.shape, generator=torch.manual_seed(0)).numpy()
        share = float(scheduler.alphas_cumprod[time])
        image = np.clip((x - np.sqrt(1 - share) * e) / np.sqrt(share), -1, 1)
        a, b, c, s = factors[i]
        worst = max(worst, difference(a * image + b * x + c * e + s * z, expected.numpy()))
    return worst


def main() -> None:
    """Prints the differences."""
    ours = Diffusion("cpu", {**OPTIONS, "learning_rate": RATE, "class_dropout": 0.0})
    twin = DiffusionFwd("cpu", OPTIONS)
    ours.setup()
    twin.setup()
    rng = np.random.default_rng(0)
    pairs = zip(ours.network.trainable_variables, twin.network.trainable_variables, strict=True)
    for variable, same in pairs:
        variable.assign(variable + rng.normal(0, 0.05, variable.shape))
        same.assign(variable)
    model, variables = theirs(), ours.network.trainable_variables
    give(model, ours)
    images, classes = next(ours.training_batches(0))
    with tf.GradientTape() as tape:
        noisy, times, noise = ours.noising(images)
        found = ours.dit(noisy, times, classes)
        loss = ours.build_loss((images, classes), (), (found, noise))
    gradients = tape.gradient(loss, variables)
    labels = torch.tensor(classes.numpy().astype(np.int64))
    noised = DDPMScheduler(**BETAS).add_noise(
        swapped(images.numpy()), swapped(noise.numpy()), torch.tensor(times.numpy())
    )
    expected = model(noised, timestep=torch.tensor(times.numpy()), class_labels=labels).sample
    expected_loss = torch.nn.functional.mse_loss(expected, swapped(noise.numpy()))
    expected_loss.backward()
    parameters = dict(model.named_parameters())

    def in_our_form(variable: object, of: str) -> np.ndarray:
        tensors = [parameters[each] for each in names(variable.path)]
        arrays = [(t.grad if of == "grad" else t.detach()).numpy() for t in tensors]
        return as_ours(variable.path, arrays, tuple(variable.shape), of == "grad")

    figures = {
        "noised images": difference(noisy.numpy(), np.moveaxis(noised.numpy(), 1, 3)),
        "output": difference(found.numpy(), np.moveaxis(expected.detach().numpy(), 1, 3)),
        "loss": abs(float(loss) / float(expected_loss.detach()) - 1),
    }
    slopes = [in_our_form(each, "grad") for each in variables]
    pairs = [(tf.convert_to_tensor(g).numpy(), s) for g, s in zip(gradients, slopes, strict=True)]
    flat = [np.concatenate([each.ravel() for each in side]) for side in zip(*pairs, strict=True)]
    figures["all gradients"] = difference(*flat)
    figures["a weight's gradient"] = max(difference(*pair) for pair in pairs)
    with torch.no_grad():
        start, asked = next(twin.inference_batches())
        own = twin.compiled.step.call(start, asked).numpy()
        asked = torch.tensor(asked.numpy().astype(np.int64))
        images = sampled(model, swapped(start.numpy()), asked, twin.run_options.guidance)
    figures["sampled images"] = difference(own, images)
    # Copies of one weight would each take a step of their own: the sums go to one of them.
    chosen = [torch.nn.Parameter(torch.tensor(each.numpy())) for each in variables]
    for parameter, slope in zip(chosen, slopes, strict=True):
        parameter.grad = torch.tensor(np.ascontiguousarray(slope))
    epsilon = 1e-8 / np.sqrt(1 - 0.999)  # Fathom's is inside the bias correction
    torch.optim.AdamW(chosen, lr=RATE, weight_decay=0.0, eps=epsilon).step()
    assert ours.optimizer is not None
    ours.optimizer.apply(gradients, variables)
    figures["weights after a step"] = max(
        difference(v.numpy(), p.detach().numpy()) for v, p in zip(variables, chosen, strict=True)
    )
    figures["steps of DDPM"] = ddpm_difference()
    print(", ".join(f"{name} {value:.1e}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
