"""A node's part of a step: the operations and weights that it has under a plan of parallelism."""

import itertools
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property

from fathom.errors import FathomError
from fathom.hardware.accelerators import sharding
from fathom.hardware.accelerators.fusion import Fusion, fused
from fathom.hardware.accelerators.plan import Plan
from fathom.hardware.accelerators.roofline import bits
from fathom.hardware.description.memory import batch_bytes, peak_bytes
from fathom.results.description import PRODUCTS, Description, Operation
from fathom.system.words import counted

MASTER_BYTES = 4  # of a weight that is trained, and of its gradient


@dataclass(frozen=True)
class Work:
    """A step as the nodes of a plan share it.

    Raises:
        FathomError: the nodes, or the parts of the batch, are more than the examples; there are no
            experts to share, or fewer than nodes; an inference cannot have what the plan says.
    """

    description: Description  # of the whole step
    plan: Plan  # of parallelism
    fusion: Fusion | None = None  # of the operations of a layer

    def __post_init__(self) -> None:
        plan, examples = self.plan, self.description.batch_size
        if plan.data * plan.microbatches > examples:
            each = f" of {plan.microbatches} parts" if plan.microbatches > 1 else ""
            raise FathomError(
                f"{plan.data} nodes{each} cannot share {counted(examples, 'example')}: raise the "
                "batch size, or use fewer nodes"
            )
        sparse = any(row.kind == "sparse product" for row in self.description.operations)
        if plan.data * plan.microbatches > 1 and sparse:
            raise FathomError("each part of the batch would compute the whole graph: use one node")
        if self.description.mode == "infer" and (plan.recompute or plan.sharded in (1, 2)):
            name = "recompute" if plan.recompute else f"sharded={plan.sharded}"
            raise FathomError(f"{name} is of training: omit it")
        if plan.expert > 1 and not self._experts:
            raise FathomError(f"{self.description.workload} has no experts: omit expert=N")
        if plan.expert > 1 and plan.expert > (experts := self._experts_of_a_layer):
            shared = f"{plan.expert} nodes cannot share {counted(experts, 'expert')}"
            raise FathomError(f"{shared}: use fewer")

    @property
    def most_examples(self) -> float:
        """The share of the batch that the node with the most examples has."""
        examples = self.description.batch_size
        return -(-examples // self.plan.data) / examples

    @cached_property
    def sharding(self) -> sharding.Sharding:
        """What the nodes of ``tensor`` share, and exchange."""
        return sharding.of(self.description, self.plan.tensor)

    @cached_property
    def stages(self) -> dict[str, int]:
        """The stage of the pipeline of each layer."""
        return {layer: bisect_left(self._cuts, i) for i, layer in enumerate(self._macs)}

    @cached_property
    def _macs(self) -> Counter[str]:
        """The multiply-accumulates of the layers' forward passes, in order."""
        macs: Counter[str] = Counter()
        for row in self.description.operations:
            if row.phase == "forward":
                macs[row.layer] += row.macs
        return macs

    @cached_property
    def _cuts(self) -> list[int]:
        """The number of each stage's last layer, but for the last stage.

        Stages have equal parts of the multiply-accumulates. Among the layers without any, the cut
        is where the fewest bytes cross.

        Raises:
            FathomError: there are more stages, or parts of them, than layers with some.
        """
        parts, interleaved, before = self.plan.pipeline, self.plan.interleaved, 0
        working = []
        for number, macs in enumerate(self._macs.values()):
            if macs:
                stage = int(parts * (before + macs / 2) / self._macs.total())
                working.append((number, min(parts - 1, stage)))
            before += macs
        if len({stage for _, stage in working} or {0}) < parts:
            raise FathomError(f"the layers cannot be divided into {parts} stages: use fewer")
        if interleaved > 1 and len(working) < parts * interleaved:
            raise FathomError(
                f"{len(working)} layers cannot be divided into {parts} stages of {interleaved} "
                "parts: use fewer"
            )
        return [
            min(range(last, first), key=self._crossing.__getitem__)
            for (last, one), (first, other) in itertools.pairwise(working)
            if one != other
        ]

    def stage(self, row: Operation) -> int:
        """Returns an operation's stage; what has no layer is the last one's."""
        return self.stages.get(row.layer, self.plan.pipeline - 1)

    @cached_property
    def parameters(self) -> dict[str, float]:
        """The number of weights of each layer, by what its products read; the rest is embedded."""
        width = bits(self.description.precision) / 8
        found: dict[str, float] = defaultdict(float)
        tables = []
        for row in self.description.operations:
            if row.phase == "forward" and row.kind in PRODUCTS:
                found[row.layer] += row.weight_bytes / row.repeats / width
            elif row.phase == "forward" and row.kind == "look-up" and row.weight_bytes:
                tables.append(row.layer)
        rest = self.description.parameters - sum(found.values())
        if not self.description.parameters:  # of a format that does not tell them
            return dict(found)
        if rest >= 0:
            found[(tables or [*found, ""])[0]] += rest
            return dict(found)
        many = self.description.parameters / sum(found.values())  # a tied matrix counts twice
        return {layer: many * count for layer, count in found.items()}

    def own_parameters(
        self, stage: int, experts: bool | None = None, sharded: bool = False
    ) -> float:
        """Returns the number of weights of a node; of experts alone, or of all others.

        All nodes of ``tensor`` have the weights of convolutions. With ``sharded``, those of
        ``data`` share all weights, among them those of experts, which fewer have otherwise.
        """
        patched = sharding.layers_of_convolutions(self.description)
        total = 0.0
        for layer, count in self.parameters.items():
            if self.stages.get(layer, 0) != stage:
                continue
            of_experts = layer in self._experts
            if experts is not None and of_experts != experts:
                continue
            parts = self.plan.data if sharded else self.plan.expert if of_experts else 1
            total += count / parts / (1 if layer in patched else self.plan.tensor)
        return total

    def update_share(self, stage: int) -> float:
        """Returns the share of the step's update that a node does."""
        own = self.own_parameters(stage, sharded=self.plan.sharded > 0)
        return own / max(1.0, sum(self.parameters.values()))

    @cached_property
    def _experts(self) -> set[str]:
        rows = self.description.operations
        return {row.layer for row in rows if sharding.is_of_experts(row) and row.phase == "forward"}

    @property
    def _experts_of_a_layer(self) -> int:
        """The number of matrices of a product; of a ragged one, of those that its rows need."""
        width = bits(self.description.precision) / 8
        counts = []
        for row in self.description.operations:
            if sharding.is_of_experts(row) and row.phase == "forward":
                matrix = row.repeats * row.bounds["N"] * row.bounds["K"] * width
                ragged = row.bounds["batch"] == 1
                counts.append(round(row.weight_bytes / matrix) if ragged else row.bounds["batch"])
        return min(counts)

    def share(self, stage: int, place: tuple[int, int] | None = None) -> Description:
        """Returns the operations of a node, in all parts of the batch.

        Args:
            stage: of the node.
            place: its indices along data and tensor; None: those with the largest parts.
        """
        data, tensor = place or (self.plan.data - 1, self.plan.tensor - 1)
        rows = [
            self._part(row, data, tensor)
            for row in self.description.operations
            if row.phase != "update" and self.stage(row) == stage
        ]
        names = {row.name for row in rows}
        kept = tuple(
            row.model_copy(update={"producers": tuple(n for n in row.producers if n in names)})
            for row in rows
        )
        return self.description.model_copy(update={"operations": kept})

    def kernels(self, stage: int, update: bool = False) -> Description:
        """Returns the operations of a node of a stage, fused, perhaps with the update."""
        share = self._with_update(self.share(stage), stage) if update else self.share(stage)
        return fused(share, self.fusion) if self.fusion else share

    def _part(self, row: Operation, data: int, tensor: int) -> Operation:
        """Returns a node's part of an operation; each part of the batch reads the weights."""
        plan = self.plan
        shared = row.name in self.sharding.shared
        whole = plan.tensor == 1 or (not shared and not plan.sequence)
        each, index = (1, 0) if whole else (plan.tensor, tensor)
        examples = self.description.batch_size
        first, end = (number * examples // plan.data for number in (data, data + 1))
        low, parts = first * each + index * (end - first), examples * each
        high = low + end - first
        rows = row.kind == "look-up"  # whose weights are those that the examples ask for
        divided = ["macs", "flops", "input_bytes"] + ["weight_bytes"] * rows
        if row.phase != "weight gradient":
            divided += ["output_bytes", "result_bytes"]
        found = {
            name: high * getattr(row, name) // parts - low * getattr(row, name) // parts
            for name in divided
        }
        split = plan.tensor if shared and row.kind != "convolution" else 1
        split *= plan.expert if sharding.is_of_experts(row) else 1
        if not rows:
            found["weight_bytes"] = -(-row.weight_bytes // split) * plan.microbatches
        if row.phase == "weight gradient":
            found["output_bytes"] = -(-row.output_bytes // split) * plan.microbatches
            fewer = plan.expert if sharding.is_of_experts(row) else 1  # have a group of experts
            over = plan.data // fewer if plan.sharded >= 2 else 1
            found["result_bytes"] = -(-row.result_bytes // (split * over))
        return row.model_copy(update=found)

    @property
    def crossing_bytes(self) -> list[int]:
        """Bytes of forward results that go from each stage to the next, of the whole batch."""
        return [self._crossing[cut] for cut in self._cuts]

    @cached_property
    def _crossing(self) -> list[int]:
        """Bytes of forward results that layers after each layer read of it and those before."""
        rows = {row.name: row for row in self.description.operations if row.phase == "forward"}
        number = {layer: i for i, layer in enumerate(self._macs)}
        found = [0] * len(number)
        last: dict[str, int] = defaultdict(int)
        for row in rows.values():
            for name in row.producers:
                if name in rows:
                    last[name] = max(last[name], number[row.layer])
        for name, end in last.items():
            for layer in range(number[rows[name].layer], end):
                found[layer] += rows[name].output_bytes
        return found

    def memory_bytes(self, precision: str | None) -> int | None:
        """Returns the most that a node holds at once; None if an older file does not tell.

        In training, the first stage holds the results of as many parts of the batch as there are
        stages. What is computed again needs what each layer is given, or what the stage is,
        whichever is less. All gradients of weights take as much as the weights, at most.
        """
        if self.description.held_bytes is None:
            return None
        return round(max(self._stage_bytes(each, precision) for each in range(self.plan.pipeline)))

    def _stage_bytes(self, stage: int, precision: str | None) -> float:
        plan, step = self.plan, self.description
        training = step.mode == "train"
        scale = bits(precision) / bits(step.precision) if precision else 1.0
        batch = batch_bytes(step)
        variables = float(step.held_bytes or 0) - batch
        weights = float(MASTER_BYTES * step.parameters) if training else variables
        state = max(0.0, variables - weights)
        held = self._weight_share(stage, plan.sharded == 3) * weights * (1 if training else scale)
        held += self._weight_share(stage, plan.sharded > 0) * state + self.most_examples * batch
        if plan.microbatches == 1 and not plan.recompute:
            one = self.kernels(stage, update=True).model_copy(update={"held_bytes": 0})
            return held + scale * (peak_bytes(one) or 0)
        one = self.kernels(stage).model_copy(update={"held_bytes": 0})
        parts = min(plan.microbatches, plan.pipeline - stage) if training else 1
        if plan.recompute:
            layers: Counter[str] = Counter()
            for row in one.operations:
                if row.phase == "forward":
                    layers[row.layer] += row.result_bytes
            by_layer = self._kept(one) * parts + max(layers.values(), default=0)
            results = min(by_layer, self._given_bytes(stage) * parts + layers.total())
        else:
            rows = tuple(
                row.model_copy(update={"result_bytes": 0})
                if row.phase == "weight gradient"
                else row
                for row in one.operations
            )
            results = parts * (peak_bytes(one.model_copy(update={"operations": rows})) or 0)
        gradients = sum(
            row.result_bytes
            for row in one.operations
            if row.phase == "weight gradient" and row.repeats == 1
        )
        own = MASTER_BYTES * self.own_parameters(stage, sharded=plan.sharded >= 2)
        return held + scale * (results / plan.microbatches + min(gradients, own))

    def _weight_share(self, stage: int, sharded: bool) -> float:
        """Returns the share of all weights that a node has."""
        if whole := sum(self.parameters.values()):
            return self.own_parameters(stage, sharded=sharded) / whole
        plan = self.plan
        return 1 / (plan.tensor * plan.pipeline * (plan.data if sharded else 1))

    def _with_update(self, share: Description, stage: int) -> Description:
        """Returns a node's operations with its part of the update behind them."""
        part = self.update_share(stage)
        update = (
            row.model_copy(update={"result_bytes": round(part * row.result_bytes)})
            for row in self.description.operations
            if row.phase == "update"
        )
        return share.model_copy(update={"operations": (*share.operations, *update)})

    def _given_bytes(self, stage: int) -> float:
        """Returns the bytes that a node receives from the stage before, in a step."""
        if not stage:
            return 0.0
        shared = self.plan.tensor if self.plan.sequence else 1
        return self.crossing_bytes[stage - 1] * self.most_examples / shared

    @staticmethod
    def _kept(share: Description) -> int:
        """Returns the bytes of results that a layer reads of another."""
        rows = {row.name: row for row in share.operations if row.phase == "forward"}
        read = {
            name
            for row in rows.values()
            for name in row.producers
            if name in rows and rows[name].layer != row.layer
        }
        return sum(rows[name].result_bytes for name in read)
