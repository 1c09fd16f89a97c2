"""The nodes of a step's execution trace on one rank of many, from the description alone.

A rank has its stage's operations once for each part of the batch, in the order of one forward, one
backward (Narayanan et al. 2019), with the loads of weights, the messages to other stages, and the
collectives of its groups. Sizes are bytes, as in Chakra's schema.
"""

from collections.abc import Iterator
from typing import Any

from fathom.errors import FathomError
from fathom.exports.products import TAKEN, as_product
from fathom.hardware.accelerators.plan import Plan
from fathom.hardware.accelerators.rank import MASTER_BYTES, Work
from fathom.hardware.accelerators.roofline import bits
from fathom.hardware.accelerators.sharding import Exchange
from fathom.results.description import Description, Operation

_LOAD, _STORE, _COMPUTE, _SEND, _RECEIVE, _COLLECTIVE = range(2, 8)  # NodeType
_COLLECTIVES = {"all-reduce": 0, "all-gather": 2, "all-to-all": 6, "reduce-scatter": 7}
_TYPES = {  # as Chakra's feeder reads them; other numbers are int64
    "tensor_size": "uint64_val",
    **dict.fromkeys(("comm_src", "comm_dst", "comm_tag"), "int32_val"),
    **{"is_cpu_op": "bool_val", "op_type": "string_val", "pg_name": "string_val"},
}
Node = dict[str, Any]


def typed(**values: Any) -> list[dict[str, Any]]:
    """Returns a node's attributes with their types."""
    return [{"name": key, _TYPES.get(key, "int64_val"): each} for key, each in values.items()]


class Ranks:
    """A step on the nodes of a plan.

    Raises:
        FathomError: the examples are fewer than their parts, or the layers than the stages.
    """

    def __init__(self, description: Description, plan: Plan) -> None:
        if plan.recompute or plan.interleaved > 1 or plan.sharded == 3:
            raise FathomError(
                "a trace holds no recomputation, interleaved stages or sharded weights: omit "
                "recompute, interleaved and sharded=3"
            )
        self._work, self._plan = Work(description, plan), plan

    def groups(self, rank: int) -> dict[str, list[int]]:
        """Returns the ranks of each of a rank's groups by the group's number, a text."""
        return {str(number): members for number, members in self._groups(rank).values()}

    def _groups(self, rank: int) -> dict[str, tuple[int, list[int]]]:
        plan = self._plan
        data, tensor, _ = plan.place(rank)
        first = rank - tensor - data * plan.tensor
        part, expert = divmod(data, plan.expert)
        members = {
            "tensor": [first + data * plan.tensor + i for i in range(plan.tensor)],
            "data": [first + tensor + i * plan.tensor for i in range(plan.data)],
            "expert": [
                first + tensor + (part * plan.expert + i) * plan.tensor for i in range(plan.expert)
            ],
            "expert data": [
                first + tensor + (i * plan.expert + expert) * plan.tensor
                for i in range(plan.data // plan.expert)
            ],
        }
        # Numbers that no two groups share, whichever ranks compute them.
        return {
            name: (1 + kind * plan.nodes + ranks[0], ranks)
            for kind, (name, ranks) in enumerate(members.items())
            if len(ranks) > 1 and (plan.expert > 1 or not name.startswith("expert"))
        }

    def nodes(self, rank: int) -> Iterator[Node]:
        """Yields the nodes of a rank, each after those that it depends on."""
        yield from _Trace(self._work, rank, self._groups(rank)).nodes()


class _Trace:
    """The nodes of one rank, as they are made."""

    def __init__(self, work: Work, rank: int, groups: dict[str, tuple[int, list[int]]]) -> None:
        self._work, self._plan, self._rank, self._groups = work, work.plan, rank, groups
        data, tensor, self._stage = work.plan.place(rank)
        self._rows = work.share(self._stage, (data, tensor)).operations
        self._made: list[Node] = []
        self._results: list[dict[str, int]] = []  # nodes of each part of the batch, by operation
        self._after: dict[str, list[Exchange]] = {}
        self._before: dict[str, list[Exchange]] = {}
        sharding = work.sharding
        self._kinds = {id(each): "expert" for each in sharding.experts}
        for each in (*sharding.exchanges, *sharding.experts):
            place = self._before if each.of_input else self._after
            place.setdefault(each.row.name, []).append(each)

    def nodes(self) -> list[Node]:
        """Returns all nodes."""
        parts, ahead = self._plan.microbatches, self._plan.pipeline - self._stage
        forward = [row for row in self._rows if row.phase in ("forward", "other")]
        backward = [row for row in self._rows if row.phase not in ("forward", "other")]
        ends: list[int] = []
        for part in range(parts + ahead if backward else parts):
            if part < parts:
                self._results.append({})
                self._pass(forward, part, ends[-1:], forward=True)
                ends.append(len(self._made) - 1)
            late = part - ahead + 1
            if backward and 0 <= late < parts:
                self._pass(backward, late, ends[-1:], forward=False)
                ends.append(len(self._made) - 1)
        if self._work.description.mode == "train":
            self._update(ends[-1:])
        return self._made

    def _pass(self, rows: list[Operation], part: int, after: list[int], *, forward: bool) -> None:
        """Adds one pass over a part of the batch, in the order of the passes."""
        results = self._results[part]
        neighbour = self._stage + (-1 if forward else 1)
        start = after
        if 0 <= neighbour < self._plan.pipeline:
            start = [self._message(_RECEIVE, part, neighbour, after, forward)]
        for row in rows:
            needed = [results[name] for name in row.producers if name in results]
            results[row.name] = self._operation(row, part, needed, start)
        target = self._stage + (1 if forward else -1)
        if 0 <= target < self._plan.pipeline:
            self._message(_SEND, part, target, [len(self._made) - 1], forward)

    def _operation(self, row: Operation, part: int, needed: list[int], start: list[int]) -> int:
        """Adds an operation with its loads and collectives; returns the node of its result."""
        parts = self._plan.microbatches
        for each in self._before.get(row.name, ()):
            needed = [self._exchange(each, part, needed)]
        loaded = row.weight_bytes // parts
        if loaded:
            load = self._add(f"load/{row.name}", _LOAD, part, [], start, tensor_size=loaded)
            needed = [*needed, load]
        attributes = {"num_ops": row.total_flops // parts}
        attributes["tensor_size"] = (row.input_bytes + row.output_bytes) // parts
        if row.kind in TAKEN:
            attributes |= self._shape(row)
        node = self._add(row.name, _COMPUTE, part, needed, start, op_type=row.type, **attributes)
        for each in self._after.get(row.name, ()):
            if each.row.phase != "update" and (not each.once or part == parts - 1):
                node = self._exchange(each, part, [node])
        return node

    def _shape(self, row: Operation) -> dict[str, int]:
        """Returns the matrices that a rank multiplies; parts are rounded up."""
        product, plan = as_product(row), self._plan
        sizes = {"m": product.m, "n": product.n, "k": product.k, "batch": product.times}
        examples = plan.data * plan.microbatches
        states = self._work.sharding.states
        state = states.get(row.name, "whole")
        gradient = row.phase == "weight gradient"
        heads = not row.weight_bytes and not gradient and row.bounds.get("batch", 1) > 1
        divided = {"batch" if heads else "k" if gradient else "m": examples}
        if row.name in self._work.sharding.shared:
            axis = {"partial": "k", "heads": "batch"}.get(state, "n")
            cut = [states.get(name) in ("split", "heads") for name in row.producers]
            if gradient and cut == [True, False]:  # of a matrix whose rows are shared
                axis = "m"
            if row.kind == "convolution":  # the pixels of a patch
                axis = "k" if gradient else "m"
            divided[axis] = divided.get(axis, 1) * plan.tensor
        return {
            f"gemm_{name}": max(1, -(-size // divided.get(name, 1))) for name, size in sizes.items()
        }

    def _exchange(self, each: Exchange, part: int, needed: list[int]) -> int:
        plan = self._plan
        group = self._kinds.get(id(each), "tensor")
        share = 1 if each.once else self._work.most_examples / plan.microbatches
        size = round(each.size_bytes * share)
        if each.kind == "halo":
            return self._halo(each, part, needed, size)
        return self._collective(
            f"{each.kind}/{each.row.name}", each.kind, group, size, needed, part
        )

    def _halo(self, each: Exchange, part: int, needed: list[int], size: int) -> int:
        """Adds the borders that go to the next patch and come from the one before."""
        if "tensor" not in self._groups:
            return needed[-1]
        _, ranks = self._groups["tensor"]
        name, place = f"halo/{each.row.name}", ranks.index(self._rank)
        other = {"comm_src": self._rank, "comm_dst": ranks[(place + 1) % len(ranks)]}
        send = self._add(name, _SEND, part, needed, [], comm_size=size, **other)
        other = {"comm_src": ranks[place - 1], "comm_dst": self._rank}
        return self._add(name, _RECEIVE, part, [send], [], comm_size=size, **other)

    def _message(self, kind: int, part: int, stage: int, after: list[int], forward: bool) -> int:
        plan = self._plan
        own, other = self._rank, self._rank + (stage - self._stage) * plan.tensor * plan.data
        ends = (own, other) if kind == _SEND else (other, own)
        crossing = self._work.crossing_bytes[min(stage, self._stage)]
        parts = plan.microbatches * (plan.tensor if plan.sequence else 1)
        size = round(crossing * self._work.most_examples / parts)
        name = f"{'results' if forward else 'gradients'} of stage {min(stage, self._stage)}"
        places = {"comm_src": ends[0], "comm_dst": ends[1], "comm_tag": 2 * part + forward}
        return self._add(name, kind, part, after, [], comm_size=size, **places)

    def _update(self, after: list[int]) -> None:
        """Adds the sums of gradients, the update and what it stores."""
        plan, work = self._plan, self._work
        done = after
        for experts in (False, True):
            group = "expert data" if experts and plan.expert > 1 else "data"
            size = round(MASTER_BYTES * work.own_parameters(self._stage, experts))
            kind = "reduce-scatter" if plan.sharded else "all-reduce"
            if size and group in self._groups:
                done = [*done, self._collective(f"{kind}/{group}", kind, group, size, after, 0)]
        rows = [row for row in work.description.operations if row.phase == "update"]
        flops, moved = (
            round(work.update_share(self._stage) * sum(getattr(row, name) for row in rows))
            for name in ("total_flops", "traffic_bytes")
        )
        update = self._add("update", _COMPUTE, 0, done, [], num_ops=flops, tensor_size=moved)
        own = round(MASTER_BYTES * work.own_parameters(self._stage))
        self._add("store/weights", _STORE, 0, [update], [], tensor_size=own)
        width = bits(work.description.precision) / 8
        for experts in (False, True) if plan.sharded else ():
            group = "expert data" if experts and plan.expert > 1 else "data"
            size = round(width * work.own_parameters(self._stage, experts))
            self._collective(f"all-gather/{group}", "all-gather", group, size, [update], 0)

    def _collective(
        self, name: str, kind: str, group: str, size: int, needed: list[int], part: int
    ) -> int:
        if group not in self._groups or not size:
            return needed[-1]
        number, members = self._groups[group]
        size = -(-size // len(members)) if kind == "all-gather" else size  # what one gives
        return self._add(
            *(name, _COLLECTIVE, part, needed, []),
            comm_type=_COLLECTIVES[kind],
            comm_size=size,
            pg_name=str(number),
        )

    def _add(
        self, name: str, kind: int, part: int, needed: list[int], start: list[int], **values: Any
    ) -> int:
        """Adds a node after others; returns its number."""
        number = len(self._made)
        attributes = typed(is_cpu_op=False, **values)
        node = {"id": number, "name": f"{name}@{part}", "type": kind, "attr": attributes}
        data = sorted(set(needed))
        node |= {"data_deps": data, "ctrl_deps": sorted(set(start) - set(data))}
        self._made.append(node)
        return number
