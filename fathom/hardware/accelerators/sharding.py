"""What tensor and expert parallelism share of a step, and what the nodes exchange for it.

Walking along the edges, each result is known to be on every node (``whole``), shared by features or
patches (``split``), shared by heads or examples (``heads``), or a part of a sum on each node
(``partial``). A product with weights takes a whole input to split results, and a split input to
partial ones: the layers' columns and rows alternate as in Megatron-LM (Shoeybi et al. 2019), in
the gradients too. Partial results are summed over the nodes when an operation needs them that is
no sum itself.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from fathom.results.description import PRODUCTS, Description, Operation

State = Literal["whole", "split", "heads", "partial"]
Kind = Literal["all-reduce", "all-gather", "all-to-all", "halo"]
_SUMS = ("AddN", "AddV2", "Add")
_SHRINKING = ("Sum", "Mean")
_LOSSES = ("SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits")
_OF_WEIGHTS = ("data movement", "elementwise")
_OF_FEATURES = ("Split", "SplitV", "Slice", "StridedSlice", "ConcatV2")  # as SwiGLU's halves
_GRADIENTS = "weight gradient"
_OF_MATRICES = re.compile("MatMul|Einsum|dot_general")  # in types of any format


@dataclass(frozen=True)
class Exchange:
    """A collective of the nodes that share an operation."""

    kind: Kind  # of the collective; ``halo``: borders of patches to the neighbours
    row: Operation  # whose results are exchanged
    size_bytes: float  # of the whole tensors in a step, in the description's precision
    once: bool = False  # once a step, not for each part of the batch
    of_input: bool = False  # before the operation, of what it reads


@dataclass(frozen=True)
class Sharding:
    """The sharing of a step's operations."""

    shared: frozenset[str]  # names of the operations of which each node computes a part
    exchanges: tuple[Exchange, ...]  # in the order of the step
    experts: tuple[Exchange, ...]  # exchanges of the nodes that share experts
    states: Mapping[str, State]  # of the results, by the operation's name, before they are summed


def of(description: Description, tensor: int) -> Sharding:
    """Returns the sharing of a step by a number of nodes."""
    walk = _Walk(description, tensor)
    for row in description.operations:
        walk.visit(row)
    experts = tuple(_to_experts(description.operations))
    return Sharding(frozenset(walk.shared), tuple(walk.exchanges), experts, walk.computed)


def is_of_experts(row: Operation) -> bool:
    """Says whether an operation multiplies groups of rows by a matrix of weights for each.

    The directions of an LSTM and the groups of a convolution are no experts.
    """
    if row.type.startswith("RaggedMatMul"):
        return True
    of_matrices = row.kind in PRODUCTS and _OF_MATRICES.search(row.type)
    return bool(of_matrices) and row.bounds.get("batch", 1) > 1 and row.weight_bytes > 0


def layers_of_convolutions(description: Description) -> set[str]:
    """Returns the layers whose weights each node has."""
    return {row.layer for row in description.operations if row.kind == "convolution"}


class _Walk:
    """The states of the results, in the order of the graph."""

    def __init__(self, description: Description, tensor: int) -> None:
        self._nodes = tensor
        self._rows = {row.name: row for row in description.operations}
        self._states: dict[str, State] = {}
        self.computed: dict[str, State] = {}
        self._weights: set[str] = set()  # slices of weights and the like
        self._logits = 0  # rows of the last product
        self._recurrent = _recurrent(self._rows)
        self.shared: set[str] = set()
        self.exchanges: list[Exchange] = []

    def visit(self, row: Operation) -> None:
        if row.phase == "update":
            return
        if row.weight_bytes and row.kind in _OF_WEIGHTS and self._weights.issuperset(row.producers):
            self._weights.add(row.name)
            self.shared.add(row.name)
            return
        known = [name for name in row.producers if name in self._states]
        partial = [name for name in known if self._states[name] == "partial"]
        if partial and len(partial) == len(known) and self._keeps_sums(row):
            self._states[row.name] = "partial"
            return
        for name in partial:
            self._sum(name)
        inputs = {self._states[name] for name in known} - {"partial", "whole"}
        state = self._state(row, inputs)
        self._states[row.name] = self.computed[row.name] = state
        if row.kind in PRODUCTS or state in ("split", "heads") or inputs:
            self.shared.add(row.name)

    def _state(self, row: Operation, inputs: set[State]) -> State:
        if row.kind == "convolution":
            return self._convolution(row)
        if row.phase == _GRADIENTS and row.kind in PRODUCTS:
            return "split"
        if row.type == "TopKV2" and inputs:  # each node needs all scores to route its rows
            self._exchange("all-gather", row, row.input_bytes)
            return "whole"
        if row.kind == "look-up" and row.weight_bytes and row.phase == "forward":
            self.shared.add(row.name)  # each node looks up the rows that it has
            return "partial"
        if row.kind in PRODUCTS:
            return self._product(row, inputs)
        if row.type in _LOSSES and inputs:  # the largest, the sum and the label's value of each
            self._exchange("all-reduce", row, 3 * 4 * self._logits)
        if row.type in _SHRINKING and inputs == {"split"} and row.phase != _GRADIENTS:
            over_features = "width" not in row.bounds and 2 * row.output_bytes < row.input_bytes
            return "partial" if over_features else "split"
        if row.phase == _GRADIENTS or not inputs:
            return "split" if inputs else "whole"
        return "heads" if "heads" in inputs else "split"

    def _product(self, row: Operation, inputs: set[State]) -> State:
        if row.name in self._recurrent:
            self._exchange("all-gather", row, row.output_bytes)
            return "whole"
        if row.weight_bytes or not self._weights.isdisjoint(row.producers):
            self._logits = row.macs // (row.bounds["N"] * row.bounds["K"])
            return "partial" if inputs else "split"
        if inputs:
            return "heads"
        self._exchange("all-gather", row, row.output_bytes)
        return "whole"

    def _convolution(self, row: Operation) -> State:
        if row.phase == _GRADIENTS:
            self._exchange("all-reduce", row, row.output_bytes, once=True)
            return "whole"
        if border := _border(row, self._nodes):
            self._exchange("halo", row, border)
        return "split"

    def _keeps_sums(self, row: Operation) -> bool:
        moves = row.kind == "data movement" and row.type != "Cast"
        return row.type in _SUMS or (moves and row.output_bytes <= row.input_bytes)

    def _sum(self, name: str) -> None:
        row = self._rows[name]
        self._states[name] = "whole"
        self._exchange("all-reduce", row, row.output_bytes)

    def _exchange(self, kind: Kind, row: Operation, size: float, once: bool = False) -> None:
        self.exchanges.append(Exchange(kind, row, size, once))


def _recurrent(rows: dict[str, Operation]) -> set[str]:
    """Returns the products in loops that read their own results without another in between."""
    weighted = {
        name for name, row in rows.items() if row.kind == "recurrent product" and row.weight_bytes
    }
    found = set()
    for name in weighted:
        seen: set[str] = set()
        left = list(rows[name].producers)
        while left and name not in seen:
            each = left.pop()
            if each in rows and each not in seen:
                seen.add(each)
                stops = each in weighted or rows[each].kind == "look-up"
                left += () if stops else rows[each].producers
        if name in seen:
            found.add(name)
    return found


def _to_experts(rows: Iterable[Operation]) -> Iterable[Exchange]:
    """Yields what moves to the nodes that have the experts, and back."""
    at_experts: dict[str, bool] = {}
    by_name: dict[str, Operation] = {}
    returned: set[str] = set()
    for row in rows:
        by_name[row.name] = row
        from_there = [name for name in row.producers if at_experts.get(name)]
        if is_of_experts(row) and row.phase != _GRADIENTS:
            if not from_there:
                yield Exchange("all-to-all", row, row.input_bytes, of_input=True)
            at_experts[row.name] = True
        elif row.phase == _GRADIENTS:
            continue
        elif from_there and (row.kind == "elementwise" or row.type in _OF_FEATURES):
            at_experts[row.name] = True
        else:
            for name in from_there:
                if name not in returned:
                    returned.add(name)
                    yield Exchange("all-to-all", by_name[name], by_name[name].output_bytes)


def _border(row: Operation, nodes: int) -> float:
    """Returns the bytes of a convolution's results that a node sends to its neighbours.

    The maps are cut into patches, as Coates et al. cut their network.
    """
    bounds = row.bounds
    pixels = bounds["P"] * bounds["Q"]
    border = 4 * math.sqrt(pixels / nodes) * (max(bounds["R"], bounds["S"]) // 2)
    return row.output_bytes * min(border / pixels, 1 / nodes)
