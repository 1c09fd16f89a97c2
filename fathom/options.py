"""The options of a run, by name, in Python and on the command line."""

import dataclasses
import difflib
import math
import numbers
import operator
import os
import re
import reprlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_type_hints

from typing_extensions import Self

from fathom.errors import FathomError

Options = TypeVar("Options")
Value = TypeVar("Value", bool, int, float, str)

Mode = Literal["train", "infer"]
DeviceKind = Literal["cpu", "gpu"]
Origin = Literal["given", "environment", "fetched", "packaged", "synthetic"]  # of data
Compiled = Literal["step", "layers", "off"]  # by XLA: the whole step, some layers, or nothing
Microbatches = int | Literal["auto"]  # of a batch; auto: where they are faster
Strategy = Literal["none", "mirrored", "multi-worker"]  # of distributed training
Collectives = Literal["tensorflow", "gloo"]  # what sums the gradients of several workers


@dataclass(frozen=True)
class FixedPoint:
    """A fixed-point format, of the numbers k / 2^fraction with whole k of ``bits`` bits.

    Attributes:
        bits: of a number, with its sign, from 2 to 64.
        fraction: of all tensors, from 0 to ``bits``; None: of each its own, by calibration.
    """

    bits: int
    fraction: int | None = None


@dataclass(frozen=True)
class PrecisionTraits:
    """The properties of a precision; parameters are always float32.

    Attributes:
        value_bytes: size of a computed value.
        policy: Keras' dtype policy.
        scales_loss: gradients underflow without a loss scale.
        tf32: a GPU rounds the factors of float32 products to TF32, of 10 bits of mantissa.
        fixed: values are rounded to this format, and computed with in float32.
    """

    value_bytes: int
    policy: str
    scales_loss: bool = False
    tf32: bool = False
    fixed: FixedPoint | None = None


PRECISIONS: dict[str, PrecisionTraits] = {
    "float32": PrecisionTraits(4, "float32"),
    "tf32": PrecisionTraits(4, "float32", tf32=True),
    "bfloat16": PrecisionTraits(2, "mixed_bfloat16"),
    "float16": PrecisionTraits(2, "mixed_float16", scales_loss=True),
}
FIXED_PATTERN = r"fixed([0-9]{1,9})|fixed:([0-9]{1,9})\.([0-9]{1,9})"  # fixed16, or fixed:16.10
QUANTIZED = ("weights", "activations", "gradients", "updates")
ROUNDINGS = ("nearest", "stochastic")
OVERFLOWS = ("saturate", "wrap")
FIXED_POINT_OPTIONS = ("quantize", "rounding", "overflow")  # of ``Execution``
MODES: tuple[Mode, ...] = get_args(Mode)
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
COLLECTIVES: tuple[Collectives, ...] = get_args(Collectives)
REDUCE_DTYPES = ("float32", "bfloat16")  # of the sums of gradients; the first is the default
DEVICE_KINDS: tuple[DeviceKind, ...] = get_args(DeviceKind)
CHECKPOINT_EVERY = 100  # steps; another checkpoint is written at the end
MAX_THREADS = 1024  # TensorFlow takes seconds to start thousands, and crashes with more
_LARGEST = 2**31 - 1  # largest integer: TensorFlow's shapes are int32

_KNOWN: dict[str, tuple[str, ...]] = {  # values of options of ``Execution``
    **{"rounding": ROUNDINGS, "overflow": OVERFLOWS, "strategy": STRATEGIES},
    **{"collectives": COLLECTIVES, "reduce_dtype": REDUCE_DTYPES},
}
_LIMITS = {  # of a number, by name: the comparison, its sign and its words
    "minimum": (operator.ge, ">=", "at least"),
    "above": (operator.gt, ">", "more than"),
    "maximum": (operator.le, "<=", "at most"),
    "below": (operator.lt, "<", "less than"),
}
_ACCEPTED: dict[type, Any] = {  # also NumPy's numbers, and paths as text
    bool: bool,
    int: numbers.Integral,
    float: numbers.Real,
    str: (str, os.PathLike),
}
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True)
class Allowed:
    """The allowed values of an option.

    Attributes:
        minimum, above, maximum, below: limits of a number, which must be finite; ``above`` replaces
            ``minimum``.
        choices: the only allowed values, if given.
    """

    minimum: float = 0
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    choices: tuple[object, ...] = ()

    def check(self, value: object) -> None:
        """Raises ValueError, which states the allowed values, if the value is not allowed."""
        if self.choices and value not in self.choices:
            choices, found = ", ".join(map(str, self.choices)), " ".join(str(value).split())
            raise ValueError(f"must be one of {choices}, not {found or 'nothing'}")
        if not isinstance(value, (int, float)):
            return
        if not math.isfinite(value):
            raise ValueError(f"must be a finite number, not {value}")
        for name, limit in self._limits().items():
            holds, _, words = _LIMITS[name]
            if not holds(value, limit):
                negative = name == "minimum" and limit == 0
                expected = "not be negative" if negative else f"be {words} {limit}"
                raise ValueError(f"must {expected}, not {value}")

    def describe(self, hint: object) -> str:
        """Returns a short description of the allowed values of a type, as for ``convert``."""
        kinds, words = _alternatives(hint)
        if self.choices:
            return ", ".join(map(str, self.choices))
        if kinds[0] in (bool, str):
            return _KINDS[kinds[0]]
        signs = [f"{_LIMITS[name][1]} {limit}" for name, limit in self._limits().items()]
        number = f"{_KINDS[kinds[0]].removeprefix('a ')} {', '.join(signs)}"
        return " or ".join([number, *words])

    def _limits(self) -> dict[str, float]:
        """Returns the given limits of a number by name."""
        limits = {name: getattr(self, name) for name in _LIMITS}
        if self.above is not None:
            del limits["minimum"]
        return {name: limit for name, limit in limits.items() if limit is not None}


def option(
    default: Value,
    about: str,
    *,
    unit: str = "",
    source: str = "",
    choices: Collection[Value] = (),
    trains: bool = True,
    needs: str = "",
    **limits: float,
) -> Value:
    """Declares an option of a workload: a documented field of a dataclass.

    Args:
        default: the paper's value, or ours.
        about: short description.
        unit: of the value.
        source: of the default, such as a section of the paper.
        choices: the only allowed values.
        trains: it has an effect in training.
        needs: another, without which it has no effect.
        limits: of a number, as in ``Allowed``.
    """
    allowed = Allowed(choices=tuple(choices), **limits)
    texts = {"about": about, "unit": unit, "source": source}
    metadata = {"allowed": allowed, "trains": trains, "needs": needs, **texts}
    return dataclasses.field(default=default, metadata=metadata)


hyperparameter = option  # of the network or its training


@dataclass(frozen=True)
class _Checked:
    """Values that are checked by what ``option`` allows."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            try:
                field.metadata.get("allowed", Allowed()).check(getattr(self, field.name))
            except ValueError as error:
                raise FathomError(f"{field.name} {error}") from None


@dataclass(frozen=True)
class Hyperparameters(_Checked):
    """The hyperparameters of a workload; each workload's subclass adds those of its paper.

    Attributes:
        SIZES: other defaults by the value of a hyperparameter ``size``.

    Raises:
        FathomError: a value is out of range.
    """

    SIZES: ClassVar[Mapping[str, Mapping[str, object]]] = {}

    batch_size: int  # examples per step

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Returns the hyperparameters; given values replace the defaults, those of ``size`` too.

        Raises:
            FathomError: an unknown name, a value of the wrong type or out of range, or one that has
                no effect beside the others.
        """
        built = build(cls, {**cls.SIZES.get(str(values.get("size")), {}), **values})
        for each in dataclasses.fields(cls):
            needed = each.metadata.get("needs")
            changed = each.name in values and getattr(built, each.name) != each.default
            if needed and changed and not (switch := getattr(built, needed)):
                without = f"{needed}={str(switch).lower()}"
                raise FathomError(f"{each.name} has no effect with {without}: omit it")
        return built

    @classmethod
    def defaults(cls, size: object) -> dict[str, Any]:
        """Returns the default of each hyperparameter where ``size`` has a value."""
        usual = {each.name: each.default for each in dataclasses.fields(cls)}
        return {**usual, **cls.SIZES.get(str(size), {})}

    @property
    def has_default_size(self) -> bool:
        """Whether ``size`` has its default; True without such a hyperparameter."""
        return getattr(self, "size", None) == getattr(type(self), "size", None)

    def remedy_for_divergence(self) -> str:
        """Returns what to try where a training diverges.

        A rate that suits large batches is too high for small ones: the linear scaling rule, Goyal
        et al. 2017, "Accurate, Large Minibatch SGD", section 2.1.
        """
        usual = self.defaults(getattr(self, "size", None))
        rate, share = usual.get("learning_rate"), self.batch_size / usual["batch_size"]
        if rate is None or rate != getattr(self, "learning_rate", None) or share >= 1:
            return "lower the learning rate, or look at the data"
        return (
            f"the default learning rate is for batches of {usual['batch_size']}: for "
            f"{self.batch_size}, try --set learning_rate={rate * share:.2g} (linear scaling rule)"
        )


@dataclass(frozen=True)
class RunOptions(_Checked):
    """How a workload is run or evaluated; each workload's subclass adds its own.

    They change neither the network nor its training, and belong to no checkpoint.
    """

    def check_training(self) -> None:
        """Raises FathomError if one is given that is of inference alone."""
        for each in dataclasses.fields(self):
            if not each.metadata.get("trains", True) and getattr(self, each.name) != each.default:
                raise FathomError(f"{each.name} has no effect in training: omit it")


@dataclass(frozen=True)
class Characterization:
    """How ``fathom characterize`` measures a workload.

    Attributes:
        steps, quick_steps: of a timing; where steps take milliseconds there are more, so that the
            clock can tell them apart.
        quick_batch_size: of a quick characterization; None: the workload's own.
        quick_setting, profile_setting: ``NAME=VALUE`` as of ``--set`` in all runs of a quick
            characterization, and in profiles; None: as it is.
        inference_setting: the same in all inference runs.
    """

    steps: int = 20
    quick_steps: int = 8
    quick_batch_size: int | None = None
    quick_setting: str | None = None
    profile_setting: str | None = None
    inference_setting: str | None = None


@dataclass(frozen=True)
class Execution:
    """How a network is executed; the same for every workload.

    Raises:
        FathomError: a value is out of range.
    """

    seed: int = 0  # of initialisation, shuffling, augmentation, noise and synthetic data
    dataset: str | None = None  # one of the workload's, by name; None: the first available
    data_dir: str | None = None  # the data set's folder; None: see fathom.core.data.find
    precision: str = "float32"  # of the computation; parameters are always float32
    xla: bool | None = None  # compile the step or nothing; None: the workload's default
    threads: int | None = None  # of the run; None: one per core
    inter_op_threads: int | None = None  # operations at once; None: two, or one on one thread
    microbatches: Microbatches = "auto"  # of a step on a CPU; 1: whole batches
    quantize: str | None = None  # what a fixed-point precision rounds; None: all of QUANTIZED
    rounding: str | None = None  # of fixed-point numbers; None: the first of ROUNDINGS
    overflow: str | None = None  # of fixed-point numbers; None: the first of OVERFLOWS
    strategy: str = "none"  # of distributed training
    replicas: int | None = None  # devices of the strategy mirrored; None: all GPUs
    collectives: str = "tensorflow"  # of the strategy multi-worker: what sums its gradients
    reduce_dtype: str = REDUCE_DTYPES[0]  # in which gloo sums gradients

    def __post_init__(self) -> None:
        fixed = precision_traits(self.precision).fixed
        if fixed and fixed.bits > 24 and self.overflow == "wrap":  # float32 has 24 bits
            raise FathomError(f"overflow wrap needs at most 24 bits, not {fixed.bits}")
        for name, known in _KNOWN.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                raise unknown_option(name, value, known)
        self._check_fixed_point(fixed is not None)
        if self.collectives != COLLECTIVES[0] and self.strategy != "multi-worker":
            raise FathomError("--collectives is for --strategy multi-worker")
        if self.reduce_dtype != REDUCE_DTYPES[0] and self.collectives != "gloo":
            raise FathomError("--reduce-dtype is for --collectives gloo")
        if self.replicas is not None and self.strategy != "mirrored":
            raise FathomError("--replicas is for --strategy mirrored")
        for name in ("threads", "inter_op_threads", "replicas"):
            number = getattr(self, name)
            if number is not None and not 1 <= number <= MAX_THREADS:
                raise FathomError(f"{name} must be from 1 to {MAX_THREADS}, not {number}")
        if (self.inter_op_threads or 1) > (self.threads or MAX_THREADS):
            raise FathomError(
                f"inter_op_threads={self.inter_op_threads} exceeds threads={self.threads}: lower "
                "inter_op_threads, or raise threads"
            )
        if self.microbatches != "auto" and self.microbatches < 1:
            raise FathomError(f"microbatches must be at least 1, not {self.microbatches}")
        if not 0 <= self.seed <= _LARGEST:
            raise FathomError(f"seed must be from 0 to {_LARGEST}, not {self.seed}")

    def _check_fixed_point(self, is_fixed: bool) -> None:
        for kind in self.quantized:
            if kind not in QUANTIZED:
                raise unknown_option("kind of tensor to quantize", kind, QUANTIZED)
        for name in FIXED_POINT_OPTIONS:
            if getattr(self, name) is not None and not is_fixed:
                raise FathomError(
                    f"{name} has no effect in {self.precision}: omit it, or choose a fixed-point "
                    "precision such as fixed16"
                )

    @property
    def quantized(self) -> tuple[str, ...]:
        """What a fixed-point precision rounds."""
        return QUANTIZED if self.quantize is None else tuple(self.quantize.split(","))

    @property
    def computed_in(self) -> str:
        """The precision, with what a fixed-point one rounds unless that is all."""
        kinds = [kind for kind in QUANTIZED if kind in self.quantized]
        return self.precision + ("" if len(kinds) == len(QUANTIZED) else f" of {','.join(kinds)}")

    @property
    def rounding_rule(self) -> str:
        """How fixed-point numbers are rounded."""
        return self.rounding or ROUNDINGS[0]

    @property
    def overflow_rule(self) -> str:
        """What becomes of fixed-point numbers that overflow."""
        return self.overflow or OVERFLOWS[0]


def precision_traits(name: str) -> PrecisionTraits:
    """Returns the properties of a precision: of ``PRECISIONS``, ``fixed16`` or ``fixed:16.10``.

    Raises:
        FathomError: there is no such precision or format.
    """
    if name in PRECISIONS:
        return PRECISIONS[name]
    found = re.fullmatch(FIXED_PATTERN, name)
    if found is None:
        known = ", ".join([*PRECISIONS, "fixed16", "fixed32", "fixed:BITS.FRACTION"])
        raise FathomError(f"precision must be one of {known}, not {_shown(name)}")
    bits = int(found[1] or found[2])
    fraction = None if found[3] is None else int(found[3])
    if not 2 <= bits <= 64:
        raise FathomError(f"a fixed-point number has from 2 to 64 bits, not {bits}")
    if fraction is not None and fraction > bits:
        raise FathomError(f"{name} has {fraction} fraction bits, more than its {bits} bits")
    return PrecisionTraits(4, "float32", fixed=FixedPoint(bits, fraction))


@dataclass(frozen=True)
class Setup:
    """The options of ``setup``.

    Raises:
        FathomError: a value is out of range, or no checkpoint folder is given.
    """

    checkpoint_dir: str | None = None  # folder of the checkpoints; None: write none
    checkpoint_every: int | None = None  # steps between checkpoints; None: CHECKPOINT_EVERY
    resume: bool = False  # continue from the newest checkpoint, if any

    def __post_init__(self) -> None:
        if self.checkpoint_dir is None:
            if self.resume:
                raise FathomError("--resume needs --checkpoint-dir, the folder to resume from")
            if self.checkpoint_every is not None:
                raise FathomError("--checkpoint-every needs --checkpoint-dir, a folder to write to")
        elif not self.checkpoint_dir:
            raise FathomError("--checkpoint-dir is empty: name a folder, such as . for this one")
        if self.checkpoint_every is not None and self.checkpoint_every < 1:
            raise FathomError(f"checkpoint_every must be at least 1, not {self.checkpoint_every}")


def field_names(*option_types: type) -> list[str]:
    """Returns the names of all fields of the dataclasses, in order."""
    return [field.name for kind in option_types for field in dataclasses.fields(kind)]


def unknown_option(kind: str, name: str, known: Iterable[str]) -> FathomError:
    """Returns the error for a name not in ``known``; it suggests the nearest one."""
    known = list(known)
    near = difflib.get_close_matches(name, known, 1)
    suggestion = f"did you mean {near[0]}? " if near else ""
    listed = f"Known are {', '.join(known)}" if known else "there are none"
    return FathomError(f"unknown {kind} {name!r}: {suggestion}{listed}")


def build(option_type: type[Options], values: Mapping[str, object] | None) -> Options:
    """Builds a dataclass from values by name; converts text to the fields' types.

    Raises:
        FathomError: an unknown name, or a value of the wrong type.
    """
    (values,) = sort(values, option_type)
    hints = get_type_hints(option_type)
    converted = {}
    for name, value in values.items():
        try:
            converted[name] = convert(value, hints[name])
        except ValueError as error:
            raise FathomError(f"{name} {error}") from None
    return option_type(**converted)


def sort(values: Mapping[str, object] | None, *option_types: type) -> list[dict[str, object]]:
    """Splits values by name into those of each dataclass.

    Raises:
        FathomError: not a mapping, or a name is not a field of any.
    """
    values = {} if values is None else values
    if not isinstance(values, Mapping):
        raise FathomError(f"options must be a dictionary of values by name, not {_shown(values)}")
    known = field_names(*option_types)
    for name in values:
        if not isinstance(name, str):
            raise FathomError(f"an option's name must be text, not {_shown(name)}")
        if name not in known:
            raise unknown_option("option", name, known)
    return [
        {name: value for name, value in values.items() if name in field_names(kind)}
        for kind in option_types
    ]


def convert(value: object, hint: object) -> Any:
    """Returns ``value`` as the hinted type.

    Args:
        value: to convert, often text.
        hint: bool, int, float or str, optionally ``| None`` or ``| Literal[...]`` of words.

    Raises:
        ValueError: it has the wrong type; the message states the right one.
    """
    kinds, words = _alternatives(hint)
    if value is None and type(None) in kinds:
        return None
    if isinstance(value, str) and value in words:
        return value
    kind = kinds[0]
    wanted = " or ".join([_KINDS[kind], *words])
    expected = ValueError(f"must be {wanted}, not {_shown(value)}")
    if kind is bool and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if kind in (int, float) and isinstance(value, str):
        try:
            value = kind(value)
        except ValueError:
            raise expected from None
    if not isinstance(value, _ACCEPTED[kind]) or isinstance(value, bool) != (kind is bool):
        raise expected
    if kind is int and value > _LARGEST:
        raise ValueError(f"must be at most {_LARGEST}, not {_shown(value)}")
    try:
        return kind(value)
    except OverflowError:
        raise expected from None


def _alternatives(hint: object) -> tuple[tuple[Any, ...], list[str]]:
    """Returns the types of a hint, and the words of its ``Literal`` if it has one."""
    kinds = get_args(hint) or (hint,)
    return kinds, [word for kind in kinds for word in get_args(kind)]


def _shown(value: object) -> str:
    """Returns a value for a message, in one short line."""
    return " ".join(reprlib.repr(value).split())
