"""The record of a model's last run."""

import dataclasses

from fathom.model.workload import Workload
from fathom.results import records
from fathom.results.records import RunResult
from fathom.system import environment


def of(model: Workload) -> RunResult:
    """Returns the record of a model's last run, even if it ended early."""
    steps, hyperparameters = model.steps, model.hyperparameters
    steps.drop_unfinished()
    counted = model.cost()
    macs = counted.forward_macs if model.forward_only else counted.training_macs
    simulation, collectives = model.built.simulation, model.built.collectives
    distribution = collectives.record(steps.seconds[steps.warmup :]) if collectives else None
    return RunResult(
        workload=model.name,
        mode=model.mode,
        data=_data(model),
        hyperparameters=records.UsedHyperparameters(**dataclasses.asdict(hyperparameters)),
        options=records.UsedOptions(**dataclasses.asdict(model.run_options)),
        seed=model.execution.seed,
        environment=model.machine(),
        sections=records.Sections(**{**model.sections, "wall": environment.process_age()}),
        steps=steps,
        throughput=records.Throughput.of(
            steps, model.example, hyperparameters.batch_size, 2 * macs
        ),
        generation=model.generation(),
        cost=counted.record(),
        memory=records.Memory(**environment.peak_memory(model.device)),
        processor=model.processor,
        energy=_energy(model, 2 * macs),
        metrics=records.Metrics.of(model.history),
        fixed_point=None if simulation is None else simulation.record(),
        distribution=distribution,
        ended=model.ended,
    )


def _data(model: Workload) -> records.Data:
    return records.Data.model_validate(
        {
            "name": model.dataset.name,
            "directory": str(model.source.directory),
            "kind": model.source.kind,
            **model.describe_data(),
        }
    )


def _energy(model: Workload, flops_per_example: float) -> records.Energy:
    work = model.steps.work[model.steps.warmup :]
    flops = flops_per_example * model.hyperparameters.batch_size * sum(work)
    meter = model.meter
    return records.Energy.of(meter.joules, meter.unread, model.device.kind, len(work), flops)
