"""Attributes ops of a profile to layers and phases.

An op's name identifies its layer: Keras runs each layer in a name scope, and a gradient's name
repeats the scope of the op that it differentiates. Ops between and around the layers have no scope.
They are attributed by the traced graph, which holds the ops in creation order: the forward pass,
the loss, the gradients, the update.
"""

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import keras
import tensorflow as tf

from fathom.core.training.compilation import Nest
from fathom.core.training.optimizers import Optimizer

_GRADIENT = "gradient_tape/"
_COUNTER = re.compile(r"_\d+$")
_FUSED = re.compile(r"Fused(Conv2D|DepthwiseConv2d|BatchMatMul|MatMul|BatchNorm)")
_FUSED_OPS = 8  # maximum number of ops that a fused op replaces
_REWRITTEN = re.compile(r"(ArithmeticOptimizer/[A-Za-z]+_|ConstantFolding/)")

Place = tuple[str, str]  # layer or role, phase


@contextlib.contextmanager
def scoped_gradients() -> Iterator[None]:
    """Makes steps traced in the block name all gradients after their layers.

    TensorFlow runs its own gradients in the scope ``gradient_tape/`` and that of the op which they
    differentiate, but those of ``tf.custom_gradient`` in none. Only the names change.
    """
    original = tf.custom_gradient

    def custom_gradient(function: Callable[..., Nest]) -> Callable[..., Nest]:
        @functools.wraps(function)
        def scoped(*arguments: Nest, **options: Nest) -> tuple[Nest, Callable[..., Nest]]:
            scope = tf.get_current_name_scope()
            value, gradient = function(*arguments, **options)

            @functools.wraps(gradient)
            def scoped_gradient(*upstream: Nest, **variables: Nest) -> Nest:
                with tf.name_scope(f"{_GRADIENT}{scope}/"):
                    return gradient(*upstream, **variables)

            return value, scoped_gradient

        return original(scoped)

    tf.custom_gradient = custom_gradient
    try:
        yield
    finally:
        tf.custom_gradient = original


class Attribution:
    """Tells layer and phase of the ops of one traced step.

    Roles of ops outside every layer: ``input`` (before the network's first layer), ``network``
    (between layers), ``loss`` (after the last one, in training; with its gradients), ``output``
    (after the last one, in inference), ``optimizer`` (after the gradients: the counters of steps,
    and what serves the update of several layers, such as a global norm), ``unknown`` (not in the
    graph at all). An op that serves the update of one layer's variables alone belongs to that
    layer, in the phase ``optimizer``.

    Args:
        graph: the step as it was traced, within ``scoped_gradients``.
        network: whose layers are meant; one that another calls counts as itself.
        optimizer: that of a training step; None in inference.
    """

    def __init__(
        self, graph: tf.Graph, network: keras.Model, optimizer: Optimizer | None = None
    ) -> None:
        self._network = network.name
        self._layers = {layer.name for layer in network.layers}
        self._places: dict[str, Place] = {}
        self._operations = {op.name: op for op in graph.get_operations()}
        self._place_all(graph.get_operations(), _layers_of_captures(graph, network, optimizer))

    def place(self, name: str, op_type: str = "") -> Place:
        """Returns layer (or role) and phase of the op of this name in a profile.

        The graph is optimised before it runs: functions and loops are put in the place of the op
        that called them, under its name, and ops are rewritten under names of their own. A fused op
        has the name of the last op that it stands for; it belongs to the layer of the convolution,
        the product or the normalisation in it, whose weights it reads.
        """
        fused = _FUSED.search(op_type)
        if fused and name in self._operations:
            name = self._fused_kernel(name, fused[1])
        known = _REWRITTEN.sub("", name)
        called = ""  # the rest of the name, in the function or loop that an op calls
        while known:
            if known in self._places:
                layer, phase = self._places[known]
                return self._named_layer(called) or layer, phase
            known, _, part = known.rpartition("/")
            called = f"{part}/{called}"
        named = self._layer(name)
        if named is None:
            return "unknown", "other"
        return named, "backward" if _GRADIENT in name else "forward"

    def _fused_kernel(self, name: str, kernel: str) -> str:
        """Returns the nearest op up to and including this one that has the kernel's type."""
        nearest = [self._operations[name]]
        for _ in range(_FUSED_OPS):
            for op in nearest:
                if kernel in op.type:
                    return op.name
            nearest = [tensor.op for op in nearest for tensor in op.inputs]
        return name

    def _place_all(self, operations: list[tf.Operation], captures: dict[str, str]) -> None:
        gradients = [i for i, op in enumerate(operations) if op.name.startswith(_GRADIENT)]
        network = [i for i, op in enumerate(operations) if self._in_network(op.name)]
        end = len(operations)
        first_gradient, last_gradient = (gradients[0], gradients[-1]) if gradients else (end, end)
        first_layer = network[0] if network else end
        after = "loss" if gradients else "output"
        for i, op in enumerate(operations):
            layer = self._layer(op.name)
            if i < first_gradient:
                place = (layer or ("input" if i < first_layer else after), "forward")
            elif i <= last_gradient:
                place = (layer or self._served_layer(op) or "loss", "backward")
            else:
                place = (layer or "optimizer", "optimizer")
            self._places[op.name] = place
        self._place_updates(operations[last_gradient + 1 :], captures)

    def _place_updates(self, operations: list[tf.Operation], captures: dict[str, str]) -> None:
        """Attributes ops used only to update one layer's variables to that layer."""
        served: dict[str, set[str]] = {}
        for op in reversed(operations):
            layers = {captures[t.op.name] for t in op.inputs if t.op.name in captures}
            for tensor in op.outputs:
                for reader in tensor.consumers():
                    layers |= served.get(reader.name, set())
            served[op.name] = layers
            if len(layers) == 1:
                self._places[op.name] = (next(iter(layers)), "optimizer")

    def _in_network(self, name: str) -> bool:
        return self._network in map(self._base, name.split("/")[:-1])

    def _layer(self, name: str) -> str | None:
        """Returns the innermost layer whose scope contains an op, or ``network`` between layers."""
        return self._named_layer(name) or ("network" if self._in_network(name) else None)

    def _named_layer(self, name: str) -> str | None:
        parts = map(self._base, reversed(name.split("/")[:-1]))
        return next((part for part in parts if part in self._layers), None)

    def _base(self, part: str) -> str:
        """Returns a scope without the number that distinguishes a layer's calls."""
        base = _COUNTER.sub("", part)
        return base if base in self._layers or part not in self._layers else part

    def _served_layer(self, op: tf.Operation) -> str | None:
        """Returns the layer of an op without scope in the backward pass.

        A sum of gradients belongs to one of the layers whose gradients it adds; the gradient of an
        unscoped function belongs to the layer that read the same values.
        """
        if op.name.startswith(_GRADIENT):
            return None
        read = [tensor for tensor in op.inputs if self._phase(tensor.op) == "forward"]
        readers = [reader for tensor in read for reader in tensor.consumers()]
        forward = [reader for reader in readers if self._phase(reader) == "forward"]
        producers = [tensor.op for tensor in op.inputs if self._phase(tensor.op) == "backward"]
        return self._commonest(forward) or self._commonest(producers)

    def _phase(self, op: tf.Operation) -> str | None:
        return self._places.get(op.name, (None, None))[1]

    def _commonest(self, ops: Iterable[tf.Operation]) -> str | None:
        """Returns the most frequent layer of these ops, ignoring roles."""
        placed = Counter(self._places[op.name][0] for op in ops)
        return next((layer for layer, _ in placed.most_common() if layer in self._layers), None)


def _layers_of_captures(
    graph: tf.Graph, network: keras.Model, optimizer: Optimizer | None
) -> dict[str, str]:
    """Returns the layers of variables and their slots by placeholder name."""
    layers = {
        id(variable.value.handle): layer.name
        for layer in network.layers
        for variable in layer.variables
    }
    for slots in optimizer.slots.values() if optimizer else ():
        for slot, variable in zip(slots, network.trainable_variables, strict=True):
            layers[id(slot.handle)] = layers[id(variable.value.handle)]
    return {
        placeholder.op.name: layers[id(handle)]
        for handle, placeholder in graph.captures
        if id(handle) in layers
    }
