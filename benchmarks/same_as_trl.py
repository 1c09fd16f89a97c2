"""Compares grpo with trl's ``GRPOTrainer`` on transformers' Llama, of the same weights.

Three policies with random weights, the updated one, the one that has sampled and the reference, are
written as transformers does and loaded by Fathom. Both give the same answers to the same questions
log-probabilities, advantages, the loss and its gradients; the largest relative differences are
printed. The loss and the log-probabilities are computed by methods of the trainer; its formula of
the advantages is written out, as it has no method for it. Needs ``pip install trl torch
transformers safetensors`` beside Fathom.

    python benchmarks/same_as_trl.py
"""

import argparse
import copy
import tempfile
from pathlib import Path

import datasets
import numpy as np
import tensorflow as tf
import tokenizers
import torch
import transformers
import trl
from same_as_transformers import difference, whole

from fathom import workloads
from fathom.modern.grpo import objective
from fathom.modern.grpo.model import GRPO
from fathom.shared.language import weights

QUESTIONS, WORDS, NOISE = 8, 13, 0.01
POLICIES = ("new", "old", "reference")


def policies(folder: Path) -> dict[str, torch.nn.Module]:
    """Returns models of transformers with random weights that differ a little, and saves them."""
    config = transformers.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=64,
        intermediate_size=172,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=10,
        rms_norm_eps=1e-5,
        rope_theta=5e5,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=None,
    )
    torch.manual_seed(0)
    models = {name: transformers.AutoModelForCausalLM.from_config(config) for name in POLICIES}
    start = models["new"].state_dict()
    for name, tensor in start.items():
        common = tensor + 0.1 * torch.randn_like(tensor)
        for model in models.values():
            own = NOISE * torch.randn_like(tensor)
            model.state_dict()[name].copy_(common + own)
    for name, model in models.items():
        model.save_pretrained(folder / name)
    kind = transformers.AutoModelForCausalLM
    return {name: kind.from_pretrained(folder / name).eval() for name in POLICIES}


def trainer(model: torch.nn.Module, ours: GRPO, folder: Path) -> trl.GRPOTrainer:
    """Returns trl's trainer of a model with our settings."""
    sizes = ours.hyperparameters
    words = {character: i for i, character in enumerate("\n+0123456789=")}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="\n"))
    settings = trl.GRPOConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        report_to=[],
        loss_type="grpo",
        scale_rewards="group",
        beta=sizes.penalty,
        use_bias_correction_kl=False,  # of DeepSeek-V3.2, later than the paper
        epsilon=sizes.clip,
        num_generations=sizes.group,
        per_device_train_batch_size=sizes.batch_size,
        max_completion_length=sizes.new_tokens,
    )
    return trl.GRPOTrainer(
        model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=settings,
        train_dataset=datasets.Dataset.from_dict({"prompt": ["1+1="] * sizes.batch_size}),
        processing_class=transformers.PreTrainedTokenizerFast(
            tokenizer_object=plain, pad_token="\n", eos_token="\n"
        ),
    )


def answers_of(ours: GRPO) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns questions, answers of which some are right, what counts of them, and rewards."""
    rng = np.random.default_rng(0)
    sizes = ours.hyperparameters
    sums = np.repeat(next(ours._right_answers(0))[0].numpy()[:QUESTIONS], sizes.group, 0)
    questions, right = np.split(sums, [sizes.prompt_tokens], 1)
    guesses = rng.integers(0, WORDS, right.shape)
    chosen = np.where(rng.random((len(right), 1)) < 0.4, right, guesses).astype(np.int32)
    answers, counted = objective.finished(tf.constant(chosen), 0)
    return tf.constant(questions), answers, counted, objective.rewards(answers, right)


def main() -> None:
    """Compares."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    ours = workloads.load("grpo")("cpu", {"batch_size": 8 * QUESTIONS, "xla": False})
    ours.setup()
    questions, answers, counted, rewards = answers_of(ours)
    tokens = tf.concat([questions, answers], 1)
    following = objective.targets(questions, answers, counted)
    ids = [torch.tensor(each.numpy(), dtype=torch.int64) for each in (questions, answers)]
    masks = [torch.ones_like(ids[0]), torch.tensor(counted.numpy(), dtype=torch.int64)]
    names = ("prompt_ids", "completion_ids", "prompt_mask", "completion_mask")
    inputs = dict(zip(names, ids + masks, strict=True))
    own_log, their_log = {}, {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        models = policies(folder)
        theirs = models["new"]  # the trainer changes how it computes
        models["new"] = copy.deepcopy(theirs)
        reinforcing = trainer(theirs, ours, folder)
        for name in reversed(POLICIES):  # the last is the one that is updated
            weights.load(folder / name, ours.published(), ours.published_settings())
            own_log[name] = ours._log_probabilities["old"](tokens, following)
            theirs.load_state_dict(models[name].state_dict())
            with torch.no_grad():
                found = reinforcing._get_per_token_logps_and_entropies(
                    theirs, torch.cat(ids, 1), torch.cat(masks, 1), answers.shape[1]
                )
            their_log[name] = found[0]
    grouped = torch.tensor(rewards.numpy()).view(QUESTIONS, -1)
    centred = grouped - grouped.mean(1, keepdim=True)
    their_advantages = (centred / (grouped.std(1, keepdim=True) + 1e-4)).flatten()
    inputs |= {
        "advantages": their_advantages,
        "old_per_token_logps": their_log["old"],
        "ref_per_token_logps": their_log["reference"],
        "num_items_in_batch": masks[1].sum(),
    }
    reinforcing.current_gradient_accumulation_steps = 1
    loss = reinforcing._compute_loss(theirs.train(), inputs)
    loss.backward()

    advantages = objective.advantages(rewards, ours.hyperparameters.group)
    sampled = tf.ones(len(tokens), tf.bool)
    labels = following, sampled, advantages, own_log["old"], own_log["reference"]
    with tf.GradientTape() as tape:
        own_loss = ours.build_loss(tokens, labels, ours.network(tokens, training=True))
    published = ours.published()
    gradients = tape.gradient(own_loss, [each.variable for each in published])
    slopes = {name: each.grad for name, each in theirs.named_parameters()}

    prompt, mask = questions.shape[1], counted.numpy()
    ratio = np.exp(own_log["new"] - own_log["old"])[:, prompt - 1 : -1][mask]
    clipped = np.mean(np.abs(ratio - 1) > ours.hyperparameters.clip)
    print(f"{mask.sum()} tokens, {rewards.numpy().mean():.0%} of the answers right, ratios from")
    print(f"{ratio.min():.2f} to {ratio.max():.2f}, {clipped:.0%} beyond the clip")
    figures = {
        f"log-probabilities ({name})": difference(
            own_log[name].numpy()[:, prompt - 1 : -1][mask], their_log[name].numpy()[mask]
        )
        for name in POLICIES
    }
    figures |= {
        "advantages": difference(advantages.numpy(), their_advantages.numpy()),
        "loss": abs(float(own_loss) / float(loss.detach()) - 1),
        "gradients": max(
            difference(tf.convert_to_tensor(gradient).numpy(), whole(slopes, each))
            for gradient, each in zip(gradients, published, strict=True)
        ),
    }
    print("\n".join(f"{name} {value:.1e}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
