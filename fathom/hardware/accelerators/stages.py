"""The times of a node's computation and messages, by the stages of a plan's pipeline."""

from collections.abc import Callable, Sequence

from fathom.hardware.accelerators import network, roofline
from fathom.hardware.accelerators.machine import Machine
from fathom.hardware.accelerators.network import Transfer
from fathom.hardware.accelerators.rank import MASTER_BYTES, Work
from fathom.hardware.accelerators.roofline import bits
from fathom.hardware.accelerators.sharding import Exchange
from fathom.results.description import PRODUCTS, Description

_COLLECTIVES = {
    "all-reduce": network.all_reduce,
    "all-gather": network.all_gather,
    "all-to-all": network.all_to_all,
    "halo": network.send,
}


class Step:
    """The times of the stages of a plan."""

    def __init__(self, work: Work, machine: Machine, precision: str | None) -> None:
        self.work, self._machine, self._precision = work, machine, precision
        plan, given = work.plan, work.description.precision
        self._scale = bits(precision) / bits(given) if precision else 1.0
        self._width = bits(precision or given) / 8
        self._tensor = network.group(machine, plan.tensor)
        self._experts = network.group(machine, plan.expert, plan.tensor)
        self._next = network.group(machine, plan.pipeline, plan.tensor * plan.data)
        self._passes = 2 if work.description.mode == "train" else 1

    def stage(self, stage: int) -> tuple[float, dict[str, Transfer]]:
        """Returns the seconds of a stage's computation, and what stops it, in all parts."""
        plan = self.work.plan
        share = self.work.kernels(stage)
        compute = self._compute(share, again=plan.recompute, parts=plan.microbatches)
        waits = {
            "tensor": self._exchanged(self.work.sharding.exchanges, stage, self._tensor),
            "expert": self._exchanged(self.work.sharding.experts, stage, self._experts),
            "pipeline": self._between(stage),
        }
        if plan.sharded == 3:  # before the forward pass and the gradients
            gathered = self._of_weights(stage, network.all_gather, self._width)
            waits["weights"] = gathered.times(self._passes * plan.microbatches)
        return compute, waits

    def _compute(self, share: Description, again: bool, parts: int = 1) -> float:
        """Returns the time of a node's operations; products reach only a share of the peak."""
        if not share.operations:
            return 0.0
        operations = roofline.table(share, self._machine, self._precision, parts)
        products = operations.kind.isin(PRODUCTS)
        seconds = operations.seconds.mask(products, operations.seconds / self._machine.utilization)
        twice = seconds[operations.phase == "forward"].sum() if again else 0.0
        return float(seconds.sum() + twice)

    def _exchanged(
        self, exchanges: Sequence[Exchange], stage: int, members: network.Group
    ) -> Transfer:
        plan, found = self.work.plan, Transfer()
        if not members:
            return found
        for each in exchanges:
            if each.row.phase == "update" or self.work.stage(each.row) != stage:
                continue
            size = self._scale * each.size_bytes
            again = 2 if plan.recompute and each.row.phase == "forward" else 1
            count = 1 if each.once else plan.microbatches * again * each.row.repeats
            size *= 1 if each.once else self.work.most_examples / plan.microbatches
            found += _COLLECTIVES[each.kind](size / each.row.repeats, members).times(count)
        return found

    def _between(self, stage: int) -> Transfer:
        """Returns the messages to the next stage, or from it: results, and their gradients."""
        plan, sizes = self.work.plan, self.work.crossing_bytes
        if not sizes:
            return Transfer()
        size = self._scale * sizes[min(stage, len(sizes) - 1)] * self.work.most_examples
        size /= plan.microbatches * (plan.tensor if plan.sequence else 1)
        count = self._passes * plan.microbatches * plan.interleaved
        return network.send(size, self._next).times(count)

    def _of_weights(
        self, stage: int, collective: Callable[[float, network.Group], Transfer], width: float
    ) -> Transfer:
        """Returns a collective over all of a node's weights; those of experts have fewer owners."""
        plan, found = self.work.plan, Transfer()
        for experts, parts in ((False, 1), (True, plan.expert)):
            size = width * self.work.own_parameters(stage, experts)
            if not size:
                continue
            members = network.group(self._machine, plan.data // parts, plan.tensor * parts)
            found += collective(size, members)
        return found

    def sums(self, stage: int) -> tuple[Transfer, float]:
        """Returns the sums of gradients, and the seconds of the update."""
        plan, step = self.work.plan, self.work.description
        if step.mode == "infer":
            return Transfer(), 0.0
        if plan.sharded:
            found = self._of_weights(stage, network.reduce_scatter, MASTER_BYTES)
            if plan.sharded < 3:
                found += self._of_weights(stage, network.all_gather, self._width)
        else:
            found = self._of_weights(stage, network.all_reduce, MASTER_BYTES)
        updates = tuple(row for row in step.operations if row.phase == "update")
        seconds = self._compute(step.model_copy(update={"operations": updates}), again=False)
        return found, self.work.update_share(stage) * seconds
