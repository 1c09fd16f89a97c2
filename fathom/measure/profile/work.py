"""The work of a step's ops, from its description, as a profile has their times."""

from fathom.hardware.description.ops import paper_type
from fathom.hardware.description.step import operations
from fathom.nn import NeuralNetworkModel
from fathom.results.description import Operation, StepPhase
from fathom.results.profile import OpWork, Phase

_PHASES: dict[StepPhase, Phase] = {
    "forward": "forward",
    "input gradient": "backward",
    "weight gradient": "backward",
    "update": "optimizer",
    "other": "other",
}


def op_work(model: NeuralNetworkModel, of_batch: float) -> tuple[OpWork, ...]:
    """Returns the work of a batch of the stated cost by the papers' type, layer and phase.

    Args:
        model: after its setup in ``attribution.scoped_gradients``.
        of_batch: work of a batch, relative to one of the stated cost. Where all batches have one
            shape, that is described, otherwise a batch of the stated cost.
    """
    described = of_batch if model.signatures() == [model.signature_of_length(None)] else 1.0
    sums: dict[tuple[str, str, Phase], list[int]] = {}
    for row in _operations(model):
        key = (paper_type(row.type), row.layer, _PHASES[row.phase])
        work = sums.setdefault(key, [0, 0])
        work[0] += row.total_flops
        work[1] += row.working_set_bytes
    return tuple(
        OpWork(
            type=kind,
            layer=layer,
            phase=phase,
            flops=round(flops / described),
            bytes=round(size / described),
        )
        for (kind, layer, phase), (flops, size) in sums.items()
    )


def _operations(model: NeuralNetworkModel) -> tuple[Operation, ...]:
    if model.signature_of_length(None) == model.signatures()[-1]:  # traced already
        return operations(model.model(), model.network, model.optimizer)
    return model.describe().operations
