"""The papers' update rules, on TensorFlow's fused kernels.

One kernel updates one variable, so that optimisation has its own op types in a profile
(``ResourceApply...``). They work on Keras variables and on ``tf.Variable``, inside a
``tf.function``, also with ``jit_compile=True``.

Every workload has a hyperparameter ``optimizer``, defined by ``choice``; its ``build_train`` calls
``create`` with the paper's settings. A rule takes those that it has.
"""

import functools
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import keras
import tensorflow as tf
from typing_extensions import TypedDict, Unpack

from fathom.core.training import replicas
from fathom.core.training.loss_scale import LossScale
from fathom.core.training.replicas import Gradient
from fathom.errors import FathomError
from fathom.options import Hyperparameters, hyperparameter
from fathom.system import private

Variable: TypeAlias = keras.Variable | tf.Variable
Update: TypeAlias = Callable[[Sequence[Gradient]], None]
Wrap: TypeAlias = Callable[[Sequence[Gradient], Update], None]
Slots: TypeAlias = dict[str, tf.Variable]  # of one variable, by name
Scalars: TypeAlias = dict[str, tf.Tensor]  # constants, by the names of a kernel's arguments

kernels = tf.raw_ops


def is_weight_matrix(variable: Variable) -> bool:
    """Returns whether a variable is a kernel (rank 2 or more), not a bias or a scale."""
    return len(variable.shape) >= 2


class Regularization(TypedDict, total=False):
    """The options of all update rules, as in ``Optimizer``."""

    weight_decay: float
    clip_norm: float | None
    global_clip_norm: float | None
    decayed: Callable[[Variable], bool]


class Settings(Regularization, total=False):
    """The options of all update rules, and the settings that only some of them have."""

    momentum: float
    beta_1: float
    beta_2: float
    epsilon: float
    squared_gradient_momentum: float
    min_squared_gradient: float
    centered: bool


class VariableUpdate(NamedTuple):
    """What the update of one variable needs.

    Attributes:
        target: the variable.
        gradient: clipped, and with weight decay.
        step_size: scalar of ``_step_size``, in the variable's dtype; of Adam not the learning rate.
        scalars: the constants, in the variable's dtype.
        slots: of the variable.
    """

    target: tf.Variable
    gradient: Gradient
    step_size: tf.Tensor
    scalars: Scalars
    slots: Slots


class Optimizer(tf.Module):
    """An update rule with its state: a subclass has kernels, or defines ``_update``.

    ``tf.train.Checkpoint(optimizer=optimizer)`` saves and restores all state exactly. A sparse
    gradient (``tf.IndexedSlices``) updates only its rows and their slots. XLA compiles only the
    sparse kernel of ``GradientDescent``; with any other rule pass
    ``tf.convert_to_tensor(gradient)``.

    Attributes:
        learning_rate: float32 scalar ``tf.Variable``; assign to it to change the rate.
        slots: the variables of each slot by name, one for each trained variable, in order.
        loss_scale: None; set it to a ``LossScale`` before tracing to train in float16.
        wrap: None; or what applies each update, if set before tracing: it is called with the
            gradients of the trained variables and the function to call with these or others.
    """

    _kernels: tuple[Callable[..., tf.Operation], ...]  # for dense and, if any, sparse gradients
    _slot_arguments: Mapping[str, str] = {}  # the kernels' argument for each slot, by its name
    _adds_duplicate_rows = False
    _constants: Mapping[str, float] = {}  # by the names of the kernels' arguments
    _flags: Mapping[str, bool] = {}  # likewise

    def __init__(
        self,
        learning_rate: float,
        *,
        weight_decay: float = 0.0,
        clip_norm: float | None = None,
        global_clip_norm: float | None = None,
        decayed: Callable[[Variable], bool] = is_weight_matrix,
    ) -> None:
        """Sets the rule's constants.

        Args:
            learning_rate: the initial rate.
            weight_decay: L2 coefficient; ``weight_decay * w`` is added to the clipped gradient,
                which makes a sparse gradient dense.
            clip_norm: the largest L2 norm of one variable's gradient; longer ones are scaled down.
            global_clip_norm: the largest global L2 norm of all gradients.
            decayed: selects the variables with weight decay.

        Raises:
            ValueError: both clip norms are given.
        """
        super().__init__()
        if clip_norm is not None and global_clip_norm is not None:
            raise ValueError("give clip_norm or global_clip_norm, not both")
        self.learning_rate = tf.Variable(
            learning_rate, dtype=tf.float32, trainable=False, name="learning_rate"
        )
        self.slots: dict[str, list[tf.Variable]] = {}
        self.loss_scale: LossScale | None = None
        self.wrap: Wrap | None = None
        self._weight_decay = weight_decay
        self._clip_norm = clip_norm
        self._global_clip_norm = global_clip_norm
        self._decayed = decayed
        self._built_for: tuple[weakref.ref, ...] = ()

    def build(self, variables: Sequence[Variable]) -> None:
        """Creates the slots, zero, each on its variable's device. Call it once, before tracing."""
        targets = [_tensorflow_variable(variable) for variable in variables]
        self._built_for = tuple(weakref.ref(target) for target in targets)
        names = self._slot_arguments
        self.slots = {name: [_zeros_like(t, name) for t in targets] for name in names}

    def forget(self) -> None:
        """Forgets all past gradients, for a training that begins anew or has ended."""
        for slot in (slot for slots in self.slots.values() for slot in slots):
            slot.assign(tf.zeros_like(slot))

    def named_variables(self) -> dict[str, tf.Variable]:
        """Returns the state by the names that it has in checkpoints."""
        return {
            f"optimizer-{i}-{variable.name.rpartition(':')[0]}": variable
            for i, variable in enumerate(self.variables)
        }

    def scale(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the float32 loss to differentiate, times the loss scale if there is one."""
        return loss if self.loss_scale is None else loss * self.loss_scale.value

    def apply(self, gradients: Sequence[Gradient], variables: Sequence[Variable]) -> None:
        """Updates the variables, within the graph being traced.

        Args:
            gradients: one for each variable, with its shape and dtype; of the scaled loss if there
                is a loss scale.
            variables: those that the optimizer was built for, in the same order.

        Raises:
            ValueError: a gradient is None, or ``build`` was called for other variables.
        """
        targets = [_tensorflow_variable(variable) for variable in variables]
        if [id(built_for()) for built_for in self._built_for] != [id(t) for t in targets]:
            raise ValueError("call build() first, with the very variables given to apply()")
        for gradient, target in zip(gradients, targets, strict=True):
            if gradient is None:
                raise ValueError(f"the loss does not depend on {target.name}: no gradient")
        update = functools.partial(self._apply, variables)
        # TensorFlow copies a variable to update it while an operation still needs its old value.
        with tf.control_dependencies([tf.group(*gradients)]):
            if self.loss_scale is not None:
                self.loss_scale.guard(gradients, update)
            elif self.wrap is not None:
                self.wrap(gradients, update)
            else:
                update(gradients)

    def _apply(self, variables: Sequence[Variable], gradients: Sequence[Gradient]) -> None:
        rate = self.learning_rate.read_value()
        step_size, scalars_of = self._step_size(rate), functools.cache(self._scalars)
        for i, gradient in enumerate(self._clipped(gradients)):
            target = _tensorflow_variable(variables[i])
            slots = {name: slot[i] for name, slot in self.slots.items()}
            if self._weight_decay and self._decayed(variables[i]):
                gradient = self._add_weight_decay(
                    target, gradient, tf.cast(rate, target.dtype), slots
                )
            step = tf.cast(step_size, target.dtype)
            scalars = scalars_of(target.dtype)
            self._update(VariableUpdate(target, gradient, step, scalars, slots))

    def _scalars(self, dtype: tf.DType) -> Scalars:
        return {name: tf.constant(value, dtype) for name, value in self._constants.items()}

    def _clipped(self, gradients: Sequence[Gradient]) -> list[Gradient]:
        clips = self._clip_norm is not None or self._global_clip_norm is not None
        if clips or not self._adds_duplicate_rows:
            gradients = [_without_duplicate_rows(gradient) for gradient in gradients]
        if self._clip_norm is not None:
            return [tf.clip_by_global_norm([g], self._clip_norm)[0][0] for g in gradients]
        if self._global_clip_norm is not None:
            return tf.clip_by_global_norm(gradients, self._global_clip_norm)[0]
        return list(gradients)

    def _step_size(self, rate: tf.Tensor) -> tf.Tensor:
        """Returns the factor of this step's updates, float32; called once per step.

        It is the learning rate, unless the rule corrects it from step to step.
        """
        return rate

    def _add_weight_decay(
        self, target: tf.Variable, gradient: Gradient, rate: tf.Tensor, slots: Slots
    ) -> tf.Tensor:
        """Applies weight decay, at a rate of the variable's dtype; returns the new gradient."""
        return tf.convert_to_tensor(gradient) + self._weight_decay * target

    def _update(self, update: VariableUpdate) -> None:
        """Updates one variable, with one fused kernel where TensorFlow has one."""
        dense, *sparse = self._kernels
        gradient, slots = update.gradient, update.slots
        arguments = {"var": update.target.handle, "lr": update.step_size, **update.scalars}
        arguments |= {name: slots[slot].handle for slot, name in self._slot_arguments.items()}
        if not sparse or not isinstance(gradient, tf.IndexedSlices):
            dense(grad=tf.convert_to_tensor(gradient), **arguments, **self._flags)
            return
        if private.traces_for_xla():
            raise FathomError(
                "XLA cannot compile this optimizer's update of some rows: use --no-xla, or the "
                "optimizer sgd, adam or adamw"
            )
        values, indices = gradient.values, gradient.indices
        sparse[0](grad=values, indices=indices, **arguments, **self._flags)


class GradientDescent(Optimizer):
    """``w <- w - lr g``."""

    _adds_duplicate_rows = True

    def _update(self, update: VariableUpdate) -> None:
        handle, gradient, rate = update.target.handle, update.gradient, update.step_size
        if isinstance(gradient, tf.IndexedSlices):
            kernels.ResourceScatterSub(
                resource=handle, indices=gradient.indices, updates=rate * gradient.values
            )
        else:
            kernels.ResourceApplyGradientDescent(var=handle, alpha=rate, delta=gradient)


class Momentum(Optimizer):
    """``v <- mu v - lr g; w <- w + v``: Krizhevsky et al. 2012, section 5.

    With ``nesterov`` the stored weights are the look-ahead ones: ``w <- w + mu v - lr g``, with the
    new ``v`` (Sutskever et al. 2013, section 2, as rewritten by Bengio et al. 2013, section 3.5).
    """

    _kernels = (kernels.ResourceApplyKerasMomentum, kernels.ResourceSparseApplyKerasMomentum)
    _slot_arguments: Mapping[str, str] = {"velocity": "accum"}

    def __init__(
        self,
        learning_rate: float,
        momentum: float = 0.9,
        nesterov: bool = False,
        **options: Unpack[Regularization],
    ) -> None:
        super().__init__(learning_rate, **options)
        self._momentum, self._nesterov = momentum, nesterov
        self._constants, self._flags = {"momentum": momentum}, {"use_nesterov": nesterov}

    def _add_weight_decay(
        self, target: tf.Variable, gradient: Gradient, rate: tf.Tensor, slots: Slots
    ) -> tf.Tensor:
        """Subtracts ``lr d w / mu`` from the velocity, which the update multiplies by ``mu``.

        This needs one pass over memory and no temporaries; ``g + d w`` would need two tensors.
        """
        if self._nesterov or not self._momentum:
            return super()._add_weight_decay(target, gradient, rate, slots)
        kernels.ResourceApplyGradientDescent(
            var=slots["velocity"].handle,
            alpha=rate * (self._weight_decay / self._momentum),
            delta=target.read_value(),
        )
        return tf.convert_to_tensor(gradient)


class Adagrad(Optimizer):
    """``s <- s + g^2; w <- w - lr g / (sqrt(s) + epsilon)``: Duchi et al. 2011, figure 1."""

    _kernels = (kernels.ResourceApplyAdagradV2, kernels.ResourceSparseApplyAdagradV2)
    _slot_arguments: Mapping[str, str] = {"squares": "accum"}

    def __init__(
        self, learning_rate: float, epsilon: float = 1e-7, **options: Unpack[Regularization]
    ) -> None:
        super().__init__(learning_rate, **options)
        self._constants = {"epsilon": epsilon}


class Adam(Optimizer):
    """``w <- w - lr_t m / (sqrt(v) + epsilon)``: Kingma & Ba 2015.

    In the reordered form of the paper's section 2, where ``epsilon`` is epsilon-hat: added outside
    the root, without bias correction. There is no sparse kernel: a sparse gradient is made dense,
    and the moments of all rows decay.
    """

    _kernels = (kernels.ResourceApplyAdam,)
    _slot_arguments: Mapping[str, str] = {"mean": "m", "square": "v"}

    def __init__(
        self,
        learning_rate: float,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        **options: Unpack[Regularization],
    ) -> None:
        super().__init__(learning_rate, **options)
        self._beta_1, self._beta_2 = beta_1, beta_2
        # The step size already has the bias correction, in float64.
        powers = {"beta1_power": 0.0, "beta2_power": 0.0}
        self._constants = {"beta1": beta_1, "beta2": beta_2, "epsilon": epsilon, **powers}
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="steps")

    def forget(self) -> None:
        """Forgets all past gradients, and their number."""
        super().forget()
        self.steps.assign(0)

    def _step_size(self, rate: tf.Tensor) -> tf.Tensor:
        """Returns the rate with the bias correction of both moments."""
        step = tf.cast(replicas.add(self.steps, 1), tf.float64)
        correction = tf.sqrt(1 - self._beta_2**step) / (1 - self._beta_1**step)
        return rate * tf.cast(correction, tf.float32)


class AdamW(Adam):
    """Adam with decoupled weight decay: ``w <- w - lr d w``, then Adam's update.

    Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2. The schedule
    multiplies the decay too.
    """

    def _add_weight_decay(
        self, target: tf.Variable, gradient: Gradient, rate: tf.Tensor, slots: Slots
    ) -> tf.Tensor:
        """Shrinks the weights; the gradient stays as it is."""
        kernels.ResourceApplyGradientDescent(
            var=target.handle, alpha=rate * self._weight_decay, delta=target.read_value()
        )
        return tf.convert_to_tensor(gradient)


class RMSProp(Optimizer):
    """``s <- d s + (1-d) g^2; u <- mu u + lr g / sqrt(s + epsilon); w <- w - u``.

    Tieleman & Hinton 2012, lecture 6.5. ``d`` is ``squared_gradient_momentum``, and ``epsilon``,
    which is inside the root, ``min_squared_gradient``. With ``centered`` the square of the running
    mean of ``g`` is subtracted from ``s`` in the root (Graves 2013, equations 38-45), as in Mnih et
    al. 2015.
    """

    _kernels = (kernels.ResourceApplyRMSProp, kernels.ResourceSparseApplyRMSProp)
    _slot_arguments: Mapping[str, str] = {"square": "ms", "update": "mom"}

    def __init__(
        self,
        learning_rate: float,
        squared_gradient_momentum: float = 0.9,
        momentum: float = 0.0,
        min_squared_gradient: float = 1e-7,
        centered: bool = False,
        **options: Unpack[Regularization],
    ) -> None:
        super().__init__(learning_rate, **options)
        self._constants = {
            "rho": squared_gradient_momentum,
            "momentum": momentum,
            "epsilon": min_squared_gradient,
        }
        if centered:
            dense = kernels.ResourceApplyCenteredRMSProp
            self._kernels = (dense, kernels.ResourceSparseApplyCenteredRMSProp)
            self._slot_arguments = {**self._slot_arguments, "mean": "mg"}


class Rule(NamedTuple):
    """An update rule that users can choose.

    Attributes:
        make: returns the optimizer; needs only a learning rate.
        settings: what it takes besides ``Regularization``.
    """

    make: Callable[..., Optimizer]
    settings: tuple[str, ...] = ()


_ADAM = ("beta_1", "beta_2", "epsilon")
_RMSPROP = ("squared_gradient_momentum", "momentum", "min_squared_gradient", "centered")
BY_NAME: dict[str, Rule] = {
    "sgd": Rule(GradientDescent),
    "momentum": Rule(Momentum, ("momentum",)),
    "nesterov": Rule(functools.partial(Momentum, nesterov=True), ("momentum",)),
    "adagrad": Rule(Adagrad, ("epsilon",)),
    "adam": Rule(Adam, _ADAM),
    "adamw": Rule(AdamW, _ADAM),
    "rmsprop": Rule(RMSProp, _RMSPROP),
}
"""Update rules by the names in hyperparameters."""


def choice(default: str, source: str = "") -> str:
    """Declares the hyperparameter ``optimizer``, whose default is the paper's rule."""
    about = "update rule; another needs another learning_rate"
    return hyperparameter(default, about, source=source, choices=tuple(BY_NAME))


def create(name: str, learning_rate: float, **settings: Unpack[Settings]) -> Optimizer:
    """Returns an update rule, with those of the settings that it has.

    Args:
        name: one of ``BY_NAME``.
        learning_rate: the initial rate.
        **settings: of the paper's rule.
    """
    rule = BY_NAME[name]
    taken = {*rule.settings, *Regularization.__annotations__}
    return rule.make(learning_rate, **{n: v for n, v in settings.items() if n in taken})


def refuse_other_settings(hyperparameters: Hyperparameters, given: Collection[str]) -> None:
    """Raises FathomError if a given hyperparameter is a setting that the chosen rule lacks."""
    name = getattr(hyperparameters, "optimizer", None)
    if name not in BY_NAME:
        return
    for setting in given:
        rules = [rule for rule in BY_NAME if setting in BY_NAME[rule].settings]
        if rules and name not in rules:
            raise FathomError(
                f"{setting} has no effect with optimizer {name}: omit it, or choose "
                f"{' or '.join(rules)}"
            )


def _tensorflow_variable(variable: Variable) -> tf.Variable:
    return variable if isinstance(variable, tf.Variable) else variable.value


def _zeros_like(target: tf.Variable, name: str) -> tf.Variable:
    with tf.device(target.device):
        zeros = functools.partial(tf.zeros, target.shape, target.dtype)
        return tf.Variable(zeros, trainable=False, name=name)


def _without_duplicate_rows(gradient: Gradient) -> Gradient:
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, positions = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)
