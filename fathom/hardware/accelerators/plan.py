"""How the machines share a step: degrees of parallelism by axis."""

import dataclasses
from dataclasses import dataclass

from fathom.errors import FathomError
from fathom.options import unknown_option
from fathom.system.words import counted


@dataclass(frozen=True)
class Plan:
    """Degrees of parallelism; their product is the number of nodes.

    Nodes are numbered along ``tensor`` first, then along ``data``, then along ``pipeline``, as in
    Megatron-LM; the experts are shared along ``data``.

    Attributes:
        data: parts of the batch.
        tensor: parts of each layer (Shoeybi et al. 2019); of convolutions, patches of the maps.
        pipeline: stages, each of the layers that follow one another.
        expert: parts of the experts, among the nodes of ``data``.
        sharded: what the nodes of ``data`` share: 1 the optimizer's state, 2 gradients, 3 weights
            too (ZeRO, Rajbhandari et al. 2020).
        microbatches: parts of a node's examples, one after the other.
        interleaved: parts of the layers that a stage has (Narayanan et al. 2021).
        sequence: what tensor parallelism leaves whole is shared too (Korthikanti et al. 2022).
        recompute: activations are computed again for the gradients (Chen et al. 2016).
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    sharded: int = 0
    microbatches: int = 1
    interleaved: int = 1
    sequence: bool = False
    recompute: bool = False

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.data * self.tensor * self.pipeline

    @property
    def bubble(self) -> float:
        """Time that a stage waits, over the time that it computes: (p - 1) / (v m)."""
        return (self.pipeline - 1) / (self.interleaved * self.microbatches)

    def place(self, rank: int) -> tuple[int, int, int]:
        """Returns a node's indices along data, tensor and pipeline."""
        rest, tensor = divmod(rank, self.tensor)
        pipeline, data = divmod(rest, self.data)
        return data, tensor, pipeline

    def on(self, nodes: int) -> "Plan":
        """Returns the plan with as many parts of the batch as make up a number of nodes.

        Raises:
            FathomError: there are none.
        """
        if nodes < 1:
            raise FathomError("the number of nodes must be at least 1")
        data, rest = divmod(nodes, self.tensor * self.pipeline or 1)  # of 0, checked below
        if rest:
            raise FathomError(
                f"{counted(nodes, 'node')} cannot be divided by tensor={self.tensor} times "
                f"pipeline={self.pipeline}"
            )
        return checked(dataclasses.replace(self, data=data))


def parse(text: str) -> tuple[Plan, bool]:
    """Returns the plan that ``data=8,tensor=8,sequence`` writes, and whether it has ``data``.

    Raises:
        FathomError: it is none.
    """
    kinds = {each.name: each.type for each in dataclasses.fields(Plan)}
    given: dict[str, int | bool] = {}
    for part in filter(None, text.split(",")):
        name, sign, value = part.partition("=")
        if name not in kinds:
            raise unknown_option("parallelism", name, list(kinds))
        if name in given:
            raise FathomError(f"{name} is given twice")
        flag = kinds[name] is bool
        if flag and sign:
            raise FathomError(f"{name} takes no number: write {name} alone")
        if not flag and not (value.isdecimal() and len(value) < 8):
            raise FathomError(f"{part} is no degree of parallelism: write {name}=8")
        given[name] = True if flag else int(value)
    plan = Plan(**given)  # type: ignore[arg-type]
    return (checked(plan), True) if "data" in given else (plan, False)


def checked(plan: Plan) -> Plan:
    """Returns a plan that is possible.

    Raises:
        FathomError: it is not.
    """
    for name in ("data", "tensor", "pipeline", "expert", "microbatches", "interleaved"):
        if not 1 <= getattr(plan, name) <= 2**20:
            raise FathomError(f"{name} must be from 1 to {2**20:,}")
    if plan.sharded > 3:
        raise FathomError("sharded must be 1, 2 or 3")
    if plan.data % plan.expert:
        raise FathomError(f"expert={plan.expert} must divide data={plan.data}")
    if plan.interleaved > 1 and plan.pipeline == 1:
        raise FathomError("interleaved needs stages: give pipeline=N")
    if plan.sequence and plan.tensor == 1:
        raise FathomError("sequence shares what tensor parallelism leaves whole: give tensor=N")
    return plan
