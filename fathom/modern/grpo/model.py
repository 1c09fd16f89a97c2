"""Group relative policy optimisation: Shao et al. 2024 (arXiv:2402.03300).

"DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models"; section,
equation and algorithm numbers are the paper's. The policy is a Llama.
"""

import contextlib
import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import tensorflow as tf

from fathom.core.data.pipeline import DataLoader, Sampler, Tensors
from fathom.core.training.schedules import warmed_cosine
from fathom.errors import FathomError
from fathom.modern.grpo import objective
from fathom.modern.grpo.descriptor import DESCRIPTOR
from fathom.modern.grpo.hyperparameters import GRPOHyperparameters
from fathom.modern.grpo.sums import END, Sums
from fathom.options import Characterization
from fathom.shared.language.generation import phases
from fathom.shared.language.model import Generator
from fathom.shared.language.rotary_decoder import RotaryModel
from fathom.shared.language.text import save_samples
from fathom.system.device import CPU
from fathom.system.precision import computing_in

SECTIONS = ("rollout", "reward", "log_probabilities")  # before an update
_SHOWN = 12  # answers


class GRPO(RotaryModel):
    """A policy that answers questions, and learns from its answers.

    A training step is one update. The first ``supervised_steps`` are of right answers; then the
    weights are kept as the reference policy, and before each update, or each ``updates`` of them,
    the policy answers questions, a group of answers to each.
    """

    descriptor = DESCRIPTOR
    model_type = "llama"
    Hyperparameters = GRPOHyperparameters
    hyperparameters: GRPOHyperparameters
    text: Sums
    divides_batches = True
    undistributable = "its answers are sampled between updates, by one policy"
    example = "answers"
    default_steps = 10_300
    characterization = Characterization(
        steps=50,
        quick_steps=20,
        quick_setting="supervised_steps=0",
        profile_setting="supervised_steps=0",
    )

    # ---------------------------------------------------------------- data

    def load_data(self) -> None:
        """Reads the sums: int32 [sums, context] of each part.

        Raises:
            FathomError: as ``LanguageModel``, or they have other lengths than the hyperparameters.
        """
        super().load_data()
        question, length = self.text.question, self.text.sequence
        wanted = {"prompt_tokens": question, "new_tokens": length - question, "context": length}
        if any(getattr(self.hyperparameters, name) != number for name, number in wanted.items()):
            options = " ".join(f"--set {name}={number}" for name, number in wanted.items())
            raise FathomError(f"the sums of {self.source.directory} need {options}")
        with CPU.placement():
            self._training, self._validation = (
                tf.reshape(part, [-1, length]) for part in (self._training, self._validation)
            )
        self._end = int(self.vocabulary.encode(END)[0])
        self._seconds = dict.fromkeys(SECTIONS, 0.0)
        self._sampled: Tensors = ()

    def _right_answers(self, first: int) -> Iterator[Tensors]:
        """Returns the endless stream of right answers to learn, from a batch on."""
        hyperparameters = self.hyperparameters
        size, prompt = hyperparameters.batch_size, hyperparameters.prompt_tokens

        def load(rows: tf.Tensor, seeds: tf.Tensor) -> Tensors:
            sums = tf.gather(self._training, rows)
            answers = objective.finished(sums[:, prompt:], self._end)
            following = objective.targets(sums[:, :prompt], *answers)
            none = tf.zeros(sums.shape)
            return sums, following, tf.zeros(size, tf.bool), tf.zeros(size), none, none

        return DataLoader(self._order, load, first)

    @property
    def _order(self) -> Sampler:
        size = self.hyperparameters.batch_size
        return Sampler(len(self._training), size, self.execution.seed)

    def training_batches(self, first_step: int) -> Iterator[Tensors]:
        """Returns the endless stream of right answers, and then of sampled ones."""
        hyperparameters, supervised = self.hyperparameters, self.hyperparameters.supervised_steps
        self._seconds = dict.fromkeys(SECTIONS, 0.0)
        if first_step < supervised:
            right = self._right_answers(first_step)
            yield from itertools.islice(right, supervised - first_step)
        first = max(0, first_step - supervised)
        begins = first == 0 or not self._begun  # supervised_steps may have changed since
        if begins:
            self._begin()
        order = dataclasses.replace(
            self._order, batch_size=hyperparameters.batch_size // hyperparameters.group
        )
        sums = DataLoader(
            order,
            lambda rows, seeds: (tf.gather(self._training, rows),),
            (first if begins else first + hyperparameters.updates - 1) // hyperparameters.updates,
        )
        for update in itertools.count(first):
            if update % hyperparameters.updates == 0 or (begins and update == first):
                self._sampled = self._roll_out(*next(sums))
            yield self._sampled

    def inference_batches(self) -> Iterator[Tensors]:
        """Returns an endless stream of held-out questions, in turn."""
        questions = self._validation[:, : self.hyperparameters.prompt_tokens]
        size, seed = self.hyperparameters.batch_size, self.execution.seed
        order = Sampler(len(questions), size, seed, shuffle=False)
        return DataLoader(order, lambda rows, seeds: (tf.gather(questions, rows),))

    def evaluation_batches(self) -> Iterator[Tensors]:
        """Returns the held-out sums once."""
        size = self.hyperparameters.batch_size
        for first in range(0, len(self._validation), size):
            yield (self._validation[first : first + size],)

    def describe_data(self) -> dict[str, object]:
        """Returns the numbers of sums."""
        return {"training_sums": len(self._training), "held_out_sums": len(self._validation)}

    # ---------------------------------------------------------------- policies

    def build_state(self) -> None:
        """Forgets the reference policy of another network; a description needs none."""
        self._reference: keras.Model | None = None
        self._noise = self.new_noise()
        self._saved: dict[str, tf.Variable] = {}  # the sampled answers, for checkpoints
        with CPU.placement():
            self._begun = tf.Variable(False, name="begun")
            if not self.forward_only and self.hyperparameters.updates > 1:
                self._saved = {
                    f"sampled-{spec.name}": tf.Variable(tf.zeros(spec.shape, spec.dtype))
                    for spec in self.signatures()[0]
                }

    @property
    def reference(self) -> keras.Model:
        """The reference policy: the one before the first update by sampled answers."""
        if self._reference is None:
            with self.device.placement(), computing_in(self.execution.precision):
                self._reference = keras.models.clone_model(self.network)
                self._reference.set_weights(self.network.get_weights())
        return self._reference

    def _begin(self) -> None:
        """Makes the policy the reference, and forgets how it was trained (algorithm 1)."""
        self.reference.set_weights(self.network.get_weights())
        optimizer = self.built.optimizer
        assert optimizer is not None
        optimizer.forget()
        self._begun.assign(True)

    def compile_functions(self) -> None:
        """Compiles how the policy answers, and the log-probabilities of answers.

        Raises:
            FathomError: a batch is not of whole groups, or a temperature is given to a training.
        """
        self._answer = self._answering(temperature=0.0)
        if self.forward_only:
            return
        size, group = self.hyperparameters.batch_size, self.hyperparameters.group
        if size % group:
            raise FathomError(f"batch_size {size} is not a multiple of group {group}")
        if self.hyperparameters.temperature:
            raise FathomError("temperature has no effect in training, which samples at 1: omit it")
        compiled = {"autograph": False, "jit_compile": self.xla_beside_steps == "step"}
        self._sample = tf.function(self._answering(temperature=1.0), **compiled)
        self._log_probabilities = {
            name: tf.function(functools.partial(_log_probabilities, policy), **compiled)
            for name, policy in (("old", self.network), ("reference", self.reference))
        }

    def _answering(self, temperature: float) -> Callable[[tf.Tensor], tf.Tensor]:
        """Returns the function from questions [batch, prompt] to answers, int32 [batch, new]."""
        draft = 0 if temperature else self.hyperparameters.draft_layers
        hyperparameters = dataclasses.replace(
            self.hyperparameters, temperature=temperature, top_k=0, top_p=1.0, draft_layers=draft
        )
        with self.device.placement(), computing_in(self.execution.precision):
            questions = keras.Input((hyperparameters.prompt_tokens,), dtype="int32")
            prefill, decode = phases(self.decoder, hyperparameters, questions, self._noise)
        return lambda questions: decode(*prefill(questions, training=False))

    # ---------------------------------------------------------------- before an update

    def _roll_out(self, sums: tf.Tensor) -> Tensors:
        """Returns a batch of sampled answers, a group to each question (algorithm 1)."""
        hyperparameters, group = self.hyperparameters, self.hyperparameters.group
        prompt = hyperparameters.prompt_tokens
        questions, right = tf.split(tf.repeat(sums, group, 0), [prompt, -1], 1)
        with self._timed("rollout"):
            answers = self._sample(questions)
        with self._timed("reward"):
            answers, counted = objective.finished(answers, self._end)
            rewards = objective.rewards(answers, right)
            advantages = objective.advantages(rewards, group)
        tokens = tf.concat([questions, answers], 1)
        following = objective.targets(questions, answers, counted)
        with self._timed("log_probabilities"):
            old, reference = (
                self._log_probabilities[policy](tokens, following)
                for policy in ("old", "reference")
            )
        away = objective.mean_of_answers(objective.divergence(old, reference), following)
        self.note("reward", float(tf.reduce_mean(rewards)))
        self.note("length", float(tf.reduce_sum(tf.cast(counted, tf.float32)) / len(tokens)))
        self.note("divergence", float(away))
        return tokens, following, tf.ones(len(tokens), tf.bool), advantages, old, reference

    @contextlib.contextmanager
    def _timed(self, section: str) -> Iterator[None]:
        started = time.perf_counter()
        with self.device.placement():
            yield
        self.device.synchronize()
        self._seconds[section] += time.perf_counter() - started

    def section_times(self) -> dict[str, float]:
        """Returns the seconds of rollouts, rewards, log-probabilities, and of both updates."""
        if self.forward_only:
            return {}
        supervised = max(0, self.hyperparameters.supervised_steps - self.steps.first)
        seconds = self.steps.seconds
        parts = {"supervised": sum(seconds[:supervised]), "update": sum(seconds[supervised:])}
        return self._seconds | parts

    # ---------------------------------------------------------------- an update

    def build_labels(self) -> tuple[keras.KerasTensor, ...]:
        """Returns what is known of answers.

        The tokens that follow, int32 [batch, context], and ``NONE`` where there is no answer;
        whether the policy has sampled it, bool [batch], or it is a right one; its advantage,
        float32 [batch]; and the log-probabilities by the policy that has sampled it and by the
        reference, float32 [batch, context]. The last three count in sampled answers.
        """
        context = (self.hyperparameters.context,)
        return (
            keras.Input(context, dtype="int32", name="next"),
            keras.Input((), dtype="bool", name="sampled"),
            keras.Input((), name="advantage"),
            keras.Input(context, name="old"),
            keras.Input(context, name="reference"),
        )

    def build_loss(
        self, tokens: tf.Tensor, labels: tuple[tf.Tensor, ...], logits: tf.Tensor
    ) -> tf.Tensor:
        """Returns the objective with its sign changed; the cross-entropy of right answers."""
        following, sampled, advantages, *others = labels
        new = objective.log_probabilities(following, logits)
        chosen = sampled[:, None]
        old, reference = (tf.where(chosen, other, tf.stop_gradient(new)) for other in others)
        factors = self.hyperparameters.clip, self.hyperparameters.penalty
        aim = objective.objective(new, old, reference, advantages, *factors)
        gained = tf.where(chosen, aim, new)
        return -objective.mean_of_answers(gained, following)

    def scheduled_rate(self, step: int) -> float:
        """Returns that of a step: after a warm-up constant, and of updates falling by a cosine."""
        hyperparameters, update = self.hyperparameters, step - self.hyperparameters.supervised_steps
        warmup = hyperparameters.warmup
        if update < 0:
            return hyperparameters.supervised_rate * min(1, (step + 1) / (warmup + 1))
        return warmed_cosine(
            update, hyperparameters.learning_rate, warmup, hyperparameters.decay_steps
        )

    # ---------------------------------------------------------------- checkpoints

    def state(self) -> dict[str, tf.Variable]:
        """Returns the reference policy, and the answers that further updates use."""
        state = super().state()
        if self.forward_only:
            return state
        for variable in self.reference.variables:
            state["reference-" + variable.path.replace("/", "-")] = variable.value
        return state | self._saved | {"begun": self._begun}

    def save_state(self) -> None:
        """Keeps the answers."""
        for variable, tensor in zip(self._saved.values(), self._sampled, strict=False):
            variable.assign(tensor)

    def restore_state(self) -> None:
        """Takes the answers up again; refuses another vocabulary as ``LanguageModel``."""
        super().restore_state()
        self._sampled = tuple(variable.read_value() for variable in self._saved.values())

    # ---------------------------------------------------------------- evaluation

    def evaluation_outputs(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns the most probable answers to questions, int32 [batch, new]."""
        return self._answer(tokens[:, : self.hyperparameters.prompt_tokens])

    def build_evaluation(
        self, tokens: tf.Tensor, labels: tuple[()], answers: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns whether each answer is exactly right, and its length with its end."""
        answers, counted = objective.finished(answers, self._end)
        return {
            "accuracy": objective.rewards(answers, tokens[:, -answers.shape[1] :]),
            "length": tf.reduce_sum(tf.cast(counted, tf.float32), 1),
        }

    def total_metrics(self, sums: dict[str, float], examples: int) -> dict[str, float]:
        """Returns means."""
        return {name: total / examples for name, total in sums.items()}

    def save_pictures(self, directory: Path) -> list[Path]:
        """Writes answers to held-out questions, and curves of the training."""
        from fathom.modern.grpo import pictures  # Matplotlib is slow to import

        prompt, decode = self.hyperparameters.prompt_tokens, self.vocabulary.decode
        questions = self._validation[:_SHOWN, :prompt]
        with self.device.placement():
            answers = tf.function(self._answer, autograph=False)(questions)
        answers = objective.finished(answers, self._end)[0].numpy()
        rows = zip(questions.numpy(), answers, strict=True)
        path = directory / "grpo-answers.txt"
        save_samples(path, [(decode(given), decode(row).strip()) for given, row in rows])
        if "reward" not in self.history:
            return [path]
        seconds = {name: self.sections[name] for name in (*SECTIONS, "supervised", "update")}
        return [path, pictures.save(directory, self.history, seconds)]


class GRPOFwd(Generator, GRPO):
    """Answers questions: the rollout alone, by default with the most probable answers."""

    evaluation_outputs = GRPO.evaluation_outputs


def _log_probabilities(policy: keras.Model, tokens: tf.Tensor, following: tf.Tensor) -> tf.Tensor:
    """Returns a policy's log-probabilities of the tokens that follow, float32 [batch, time]."""
    return objective.log_probabilities(following, policy(tokens, training=False))
