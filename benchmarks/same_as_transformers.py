"""Compares gpt, llama, moe and mamba with Hugging Face's transformers, of the same weights.

Writes a folder of random weights as transformers does, loads it with ``--set weights=FOLDER``, and
prints the largest relative differences: of logits, loss, gradients, and the updates by a step of
AdamW; and whether both continue prompts with the same tokens. The loss of moe has the balance of
its experts layer by layer, as in Switch Transformers; transformers' own takes means over layers.
Needs ``pip install torch transformers safetensors`` beside Fathom.

    python benchmarks/same_as_transformers.py
"""

import argparse
import tempfile

import numpy as np
import tensorflow as tf
import torch
import transformers
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

from fathom import workloads
from fathom.shared.language.model import LanguageModel
from fathom.shared.language.weights import Published

WORDS, RATE, BALANCE = 65, 1e-3, 0.01
HEADS = 4
SIZES = {"layers": 3, "width": 64, "context": 48, "vocabulary": WORDS, "batch_size": 12}
NO_END = {"bos_token_id": None, "eos_token_id": None}  # all texts have the same length


def theirs(workload: str) -> torch.nn.Module:
    """Returns the model of transformers, of random weights larger than the initial ones."""
    if workload == "gpt":
        config = transformers.GPT2Config(
            vocab_size=WORDS,
            n_positions=SIZES["context"],
            n_embd=SIZES["width"],
            n_layer=SIZES["layers"],
            n_head=HEADS,
            **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
            **NO_END,
        )
    elif workload == "mamba":
        config = transformers.MambaConfig(
            vocab_size=WORDS,
            hidden_size=SIZES["width"],
            num_hidden_layers=SIZES["layers"],
            **NO_END,
            pad_token_id=None,
        )
    else:
        experts = {"num_local_experts": 8, "num_experts_per_tok": 2, "output_router_logits": True}
        kind = transformers.LlamaConfig if workload == "llama" else transformers.MixtralConfig
        config = kind(
            vocab_size=WORDS,
            hidden_size=SIZES["width"],
            intermediate_size=172,
            num_hidden_layers=SIZES["layers"],
            num_attention_heads=HEADS,
            num_key_value_heads=2,
            max_position_embeddings=SIZES["context"],
            rms_norm_eps=1e-5,
            rope_theta=5e5,
            **({} if workload == "llama" else experts),
            **NO_END,
        )
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return model


def ours(workload: str, folder: str, forward_only: bool = False) -> LanguageModel:
    """Returns Fathom's model with the weights of a folder."""
    own = {"hidden_units": 172, "kv_heads": 2} if workload in ("llama", "moe") else {}
    heads = {} if workload == "mamba" else {"heads": HEADS}
    options = {"learning_rate": RATE, "warmup": 0, "xla": False, "weights": folder}
    kind = workloads.load(workload, forward_only)
    model = kind("cpu", {**SIZES, **heads, **own, **options, "clip_norm": 1e9})
    model.setup()
    return model


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Returns the norm of a difference over that of the second."""
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


def whole(tensors: dict[str, torch.Tensor], weight: Published) -> np.ndarray:
    """Returns the tensors of one of our weights, in our order."""
    names = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    parts = [names[name].detach().numpy() for name in weight.names]
    return np.concatenate([part.T if weight.transposed else part for part in parts], -1)


def by_name(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns tensors of a model by their names in files, where each expert has its own."""
    found = {}
    for name, tensor in tensors.items():
        layer, mixture, part = name.partition(".mlp.")
        prefix = f"{layer}.block_sparse_moe"
        if mixture and part == "gate.weight":
            found[f"{prefix}.{part}"] = tensor
        elif part.startswith("experts."):
            for i, one in enumerate(tensor):
                halves = zip(("w1", "w3"), one.chunk(2), strict=True)
                names = halves if part.endswith("gate_up_proj") else [("w2", one)]
                found |= {f"{prefix}.experts.{i}.{n}.weight": each for n, each in names}
        else:
            found[name] = tensor
    return found


def compare(workload: str) -> None:
    """Prints the differences of a workload."""
    model = theirs(workload)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        own, generator = (ours(workload, folder, forward) for forward in (False, True))
    tokens = np.random.default_rng(0).integers(0, WORDS, (12, SIZES["context"] + 1))
    given, following = tokens[:, :-1], tokens[:, 1:]
    prompts = given[:, : generator.hyperparameters.prompt_tokens]
    new = generator.hyperparameters.new_tokens
    continued = model.generate(torch.tensor(prompts), do_sample=False, max_new_tokens=new)
    own_continued = generator.compiled.step.call(tf.constant(prompts, tf.int32)).numpy()
    same = int(np.sum(own_continued == continued[:, -new:].numpy()))
    outputs = model(torch.tensor(given))
    logits = outputs.logits
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, WORDS), torch.tensor(following).reshape(-1)
    )
    for router in getattr(outputs, "router_logits", ()):
        loss = loss + BALANCE * load_balancing_loss_func((router,), 8, 2)
    loss.backward()
    batch = [tf.constant(each, tf.int32) for each in (given, following)]
    with tf.GradientTape() as tape:
        own_outputs = own.network(batch[0], training=True)
        own_loss = own.build_loss(*batch, own_outputs)
    own_logits = own_outputs[0] if workload == "moe" else own_outputs
    weights = own.published()
    gradients = tape.gradient(own_loss, [each.variable for each in weights])
    parameters = dict(model.named_parameters())
    slopes = by_name({name: each.grad for name, each in parameters.items()})
    expected = by_name(parameters)
    figures = {
        "logits": difference(own_logits.numpy(), logits.detach().numpy()),
        "loss": abs(float(own_loss) / float(loss.detach()) - 1),
        "gradients": max(
            difference(tf.convert_to_tensor(g).numpy(), whole(slopes, w))
            for g, w in zip(gradients, weights, strict=True)
        ),
    }
    chosen = {n: p.dim() > 1 and not n.endswith("A_log") for n, p in parameters.items()}
    decayed = [parameters[name] for name, decays in chosen.items() if decays]
    rest = [parameters[name] for name, decays in chosen.items() if not decays]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    betas = own.hyperparameters.beta_1, own.hyperparameters.beta_2
    epsilon = 1e-8 / np.sqrt(1 - betas[1])  # Fathom's is inside the bias correction
    before = {each.names: each.variable.numpy() for each in weights}
    torch.optim.AdamW(groups, lr=RATE, betas=betas, eps=epsilon).step()
    own.compiled.step.call(*batch)
    figures["step"] = max(
        difference(
            each.variable.numpy() - before[each.names], whole(expected, each) - before[each.names]
        )
        for each in weights
    )
    print(f"{workload}: " + ", ".join(f"{name} {value:.1e}" for name, value in figures.items()))
    print(f"{workload}: {same} of {own_continued.size} generated tokens are the same", flush=True)


def main() -> None:
    """Compares the workloads, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=["gpt", "llama", "moe", "mamba"])
    for workload in parser.parse_args().workloads:
        compare(workload)


if __name__ == "__main__":
    main()
