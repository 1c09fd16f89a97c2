"""The strategies of distributed training: TensorFlow's, created from a run's options.

``multi-worker`` is one process for each worker, on any machines. Each learns its place from
``TF_CONFIG`` (as ``fathom launch`` sets it) or from Slurm. A worker waits for the others, and
notices the loss of one, within limits. Workers that are about to do different things refuse.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

import tensorflow as tf

from fathom.core.training.gloo import Gloo
from fathom.core.training.rendezvous import LONGEST_SILENCE, Meeting, listen, meet, named, split
from fathom.errors import WRONG_JSON, FathomError
from fathom.options import Execution
from fathom.system import private
from fathom.system.device import Device
from fathom.system.environment import software
from fathom.system.processor import share_freed_memory

LONGEST_START = 120  # seconds that a worker waits for the others
_CLUSTER = "TF_CONFIG"
_SLURM = "SLURM_PROCID"
_MOST_TASKS = 1024  # of a Slurm step on a host
_SLURM_PORTS = range(10000, 30000)  # below those that Linux gives to clients

Strategy: TypeAlias = tf.distribute.Strategy | Gloo

_created: dict[tuple[str, int | None, str, Device], Strategy] = {}
"""The strategy of this process: the collectives of two would have the same numbers."""
_meetings: list[Meeting] = []
"""That of this process's workers, if it is one of several."""


@dataclass(frozen=True)
class Cluster:
    """The workers of a training, and this process's place among them."""

    workers: tuple[str, ...]  # addresses, ``host:port``
    index: int  # of this process's; 0 is the chief, which prints and writes


def create(
    execution: Execution, device: Device, identity: Mapping[str, object], module: str
) -> Strategy | None:
    """Returns the strategy of a training, before TensorFlow computes anything; None for ``none``.

    Args:
        execution: names the strategy and, of ``mirrored``, the number of devices: the first GPUs,
            or as many logical CPUs; None: all GPUs.
        device: of the run.
        identity: what all workers must have in common besides: the workload and its options.
        module: of the workload's code, which all must have in common as well.

    Raises:
        FathomError: there are fewer devices, the cluster is described wrongly, a worker does not
            come or differs, or TensorFlow already runs.
    """
    if execution.strategy == "none":
        return None
    wanted = (execution.strategy, execution.replicas, execution.collectives, device)
    if not _created:
        if execution.strategy == "mirrored":
            devices = _devices(execution.replicas, device.kind)
            _created[wanted] = tf.distribute.MirroredStrategy(devices)
        else:
            common = {**identity, **asdict(execution), **software(module), "device": str(device)}
            _created[wanted] = _join(cluster(), common, execution.collectives, device)
    if wanted not in _created:
        raise FathomError(
            "TensorFlow allows one strategy of distributed training in a process, and this one has "
            "another: start a fresh process"
        )
    return _created[wanted]


def check_batches(signatures: Sequence[Sequence[tf.TensorSpec]], replicas: int) -> None:
    """Raises FathomError if the replicas cannot have equal parts of the batches."""
    for size in (signature[0].shape[0] for signature in signatures):
        if size % replicas:
            raise FathomError(
                f"a batch of {size} cannot be divided among {replicas} replicas: "
                "try another --batch-size"
            )


def agree(facts: Callable[[], Mapping[str, object]]) -> None:
    """Returns when all workers of this process's training, if there are others, agree on facts.

    Args:
        facts: returns by name what this worker is about to do.

    Raises:
        FathomError: another worker differs, or was lost.
    """
    for meeting in _meetings:
        meeting.agree(facts())


def of_first(value: float) -> float:
    """Returns the first worker's value, where all are to decide alike; that of a single process.

    Raises:
        FathomError: the first worker was lost.
    """
    for meeting in _meetings:
        value = meeting.of_first(value)
    return value


def lost() -> str:
    """Returns the workers that this process has lost, in words; empty if it knows of none."""
    return " and ".join(named(numbers) for each in _meetings if (numbers := each.lost()))


def end() -> None:
    """Returns when the chief has done what it does alone: no worker ends before it.

    Raises:
        FathomError: it was lost.
    """
    while _meetings:
        _meetings.pop().end()


def is_chief(strategy: str) -> bool:
    """Returns whether this process prints and writes: alone, or the first worker."""
    described = _CLUSTER in os.environ or _SLURM in os.environ
    return strategy != "multi-worker" or not described or cluster().index == 0


def cluster() -> Cluster:
    """Returns the cluster that ``TF_CONFIG`` or Slurm describes.

    Raises:
        FathomError: none does, or not as needed.
    """
    if _CLUSTER in os.environ:
        return _parsed(os.environ[_CLUSTER])
    if _SLURM in os.environ:
        return _of_slurm()
    raise FathomError(
        "--strategy multi-worker needs TF_CONFIG or Slurm: start the workers with "
        "python -m fathom launch -n N -- WORKLOAD ..."
    )


def _of_slurm() -> Cluster:
    """Returns the cluster of a Slurm step, whose tasks Slurm itself gives their GPUs.

    All tasks have to know all ports, which therefore depend on the job alone.
    """
    try:
        job = int(os.environ.get("SLURM_JOB_ID", "0"))
        # Without numbers of GPUs the resolver asks nvidia-smi, and fails where there is none.
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
            port_base=_SLURM_PORTS[16 * job % len(_SLURM_PORTS)],
            gpus_per_node=_MOST_TASKS,
            gpus_per_task=1,
            auto_set_gpu=False,
        )
        workers, index = resolver.cluster_spec().job_tasks("worker"), int(os.environ[_SLURM])
        if not 0 <= index < len(workers):
            raise ValueError(f"{_SLURM} is {index}, and there are {len(workers)} tasks")
    except (RuntimeError, ValueError) as error:
        raise FathomError(f"Slurm does not describe the workers ({error}): use srun") from error
    return Cluster(tuple(workers), index)


def _parsed(text: str) -> Cluster:
    expected = (
        'TF_CONFIG must be JSON as {"cluster": {"worker": ["host:port", ...]}, '
        '"task": {"type": "worker", "index": 0}}'
    )
    try:
        description = json.loads(text)
        workers, task = description["cluster"]["worker"], description["task"]
        found = Cluster(tuple(map(str, workers)), int(task["index"]))
        is_worker = task["type"] == "worker"
    except WRONG_JSON as error:
        raise FathomError(f"{expected}: {error or 'a part is missing'}") from error
    if not is_worker or list(description["cluster"]) != ["worker"]:
        raise FathomError(f"{expected}: all tasks are workers")
    if not 0 <= found.index < len(found.workers):
        raise FathomError(f"TF_CONFIG has {len(found.workers)} workers, and none {found.index}")
    if len(set(found.workers)) < len(found.workers):
        raise FathomError("TF_CONFIG names an address twice")
    for address in found.workers:
        host, _, port = address.rpartition(":")
        is_port = re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 2**16
        if not is_port or not _is_host(host):
            raise FathomError(f"TF_CONFIG has an address that is no host:port: {address}")
    return found


def _is_host(name: str) -> bool:
    """Returns whether a name can be looked up: it has neither empty nor too long parts."""
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


def _join(
    found: Cluster, identity: Mapping[str, object], collectives: str, device: Device
) -> Strategy:
    """Waits for all workers and returns the strategy."""
    if collectives == "gloo" and device.on_gpu:
        raise FathomError("--collectives gloo is for CPUs: omit it, and GPUs use NCCL")
    hosts = [split(each)[0] for each in found.workers]
    listen(*split(found.workers[found.index]), hosts).close()  # TensorFlow would end all without it
    meeting = meet(found.workers, found.index, LONGEST_START)
    meeting.agree(identity)
    _meetings.append(meeting)
    share_freed_memory()
    if collectives == "gloo":
        return Gloo(found.workers, found.index, LONGEST_START)
    try:
        private.limit_waits(len(found.workers), LONGEST_START, LONGEST_SILENCE)
        return tf.distribute.MultiWorkerMirroredStrategy(
            tf.distribute.cluster_resolver.SimpleClusterResolver(
                tf.train.ClusterSpec({"worker": list(found.workers)}),
                task_type="worker",
                task_id=found.index,
                rpc_layer="grpc",
            )
        )
    except tf.errors.OpError as error:
        raise FathomError(
            f"the {len(found.workers)} workers could not connect within {LONGEST_START} s: "
            f"{' '.join(str(error.message).split())[:200]}"
        ) from error
    except RuntimeError as error:
        raise FathomError(
            "TensorFlow already runs in this process, too late to set up a strategy: choose it for "
            "the first model, or start a fresh process"
        ) from error


def _devices(count: int | None, kind: str) -> list[str]:
    if kind == "cpu":
        _split_cpu(count or 1)
    found = len(tf.config.list_logical_devices(kind.upper()))
    if count is not None and count > found:
        raise FathomError(f"there are {found} devices of the kind {kind}, not {count}")
    return [f"/{kind}:{number}" for number in range(count or found)]


def _split_cpu(count: int) -> None:
    """Makes logical devices of the CPU."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * count
        )
    except RuntimeError:
        if len(tf.config.list_logical_devices("CPU")) < count:
            raise FathomError(
                f"TensorFlow already runs in this process, too late to set up {count} replicas: "
                "choose them for the first model, or start a fresh process"
            ) from None
