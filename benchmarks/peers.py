"""The programs in other libraries that step_time.py compares with, and their options."""

import json
import math
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from program import CANNOT

from fathom.errors import FathomError

NETWORKS = "pytorch_networks.py"
PYTORCH = {
    **dict.fromkeys(("alexnet", "vgg", "residual", "autoenc"), NETWORKS),
    **{
        name: f"pytorch_{name}.py"
        for name in (
            *("memnet", "seq2seq", "speech", "deepq"),
            *("transformer", "gpt", "llama", "moe", "mamba", "grpo", "dlrm", "gcn", "ngp"),
            "diffusion",
        )
    },
}
JAX = {name: f"jax_{name}.py" for name in ("autoenc", "memnet", "transformer", "gpt", "gcn")}

# Variables by which each library takes a processor for a lesser one.
INSTRUCTIONS = {
    "AVX2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",  # in TensorFlow and PyTorch
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",  # in TensorFlow and JAX
        "ATEN_CPU_CAPABILITY": "avx2",  # of PyTorch's own kernels and of what torch.compile writes
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "TORCHINDUCTOR_CPP_MARCH": "haswell",
    },
    "SSE41": {
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2",
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "TORCHINDUCTOR_CPP_MARCH": "nehalem",
    },
}
LIMIT_S = 7200  # of a process, which may spend most of it in compiling


class CannotRunError(FathomError):
    """A program has no form of a setting."""


@dataclass(frozen=True)
class Peer:
    """A library that Fathom is compared with.

    Attributes:
        name: in tables.
        python: the interpreter that has it.
        programs: by workload.
        options: of all its programs.
    """

    name: str
    python: str
    programs: dict[str, str]
    options: tuple[str, ...] = ()

    def command(self, workload: str) -> list[str]:
        """Returns the start of the command that times a workload, up to the sizes of its step."""
        program = self.programs[workload]
        which = ["--workload", workload] if program == NETWORKS else []
        return [self.python, str(Path(__file__).with_name(program)), *which, *self.options]


def peers(pytorch: str | None, jax: str | None) -> list[Peer]:
    """Returns the peers for which there is an interpreter."""
    found = []
    if pytorch:
        found.append(Peer("PyTorch eager", pytorch, PYTORCH))
        found.append(Peer("PyTorch compiled", pytorch, PYTORCH, ("--compile",)))
    if jax:
        found.append(Peer("JAX", jax, JAX))
    return found


def child(command: list[str], isa: str | None) -> dict[str, Any]:
    """Runs a measuring process, whose last argument is the file it writes, and returns its record.

    Args:
        command: without the file.
        isa: a key of ``INSTRUCTIONS``; None for all that the processor has.

    Raises:
        CannotRunError: it has no form of what it is asked for.
        FathomError: it failed, with its last words.
    """
    environment = dict(os.environ)
    for name, value in INSTRUCTIONS.get(isa or "", {}).items():
        kept = environment.get(name, "") if name == "XLA_FLAGS" else ""
        environment[name] = f"{kept} {value}".strip()
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "record.json"
        try:
            done = subprocess.run(
                [*command, str(output)],
                capture_output=True,
                text=True,
                env=environment,
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired as error:
            raise FathomError(f"it took longer than {LIMIT_S / 60:.0f} min") from error
        except OSError as error:
            raise FathomError(f"cannot run {command[0]}: {error.strerror}") from error
        if done.returncode:
            words = done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"]
            raise (CannotRunError if done.returncode == CANNOT else FathomError)(words[-1])
        return json.loads(output.read_text())


def options(workload: str, model: Any, batch: tuple) -> list[str]:
    """Returns the sizes of a model and its batch as options of the workload's program."""
    values = _values(workload, model, batch).items()
    return [word for name, value in values for word in (f"--{name}", str(value))]


def _values(workload: str, model: Any, batch: tuple) -> dict[str, object]:
    if workload == "memnet":
        memory, words = batch[0].shape[-2:]
        vocabulary, hops = len(model.babi.vocabulary), model.hyperparameters.hops
        return {"vocabulary": vocabulary, "memory": memory, "words": words, "hops": hops}
    if workload == "seq2seq":
        source, hyperparameters = batch[0].shape[1], model.hyperparameters
        buckets = dict(map(int, pair.split("-")) for pair in hyperparameters.buckets.split())
        network = {name: getattr(hyperparameters, name) for name in ("units", "layers", "samples")}
        network = {"vocabulary": hyperparameters.source_vocabulary, **network}
        return {"source": source, "target": buckets[source], **network}
    if workload == "transformer":
        hyperparameters, (pairs, length) = model.hyperparameters, batch[0].shape
        network = {
            name: getattr(hyperparameters, name) for name in ("vocabulary", "width", "heads")
        }
        network |= {"hidden-units": hyperparameters.hidden_units, "layers": hyperparameters.layers}
        decoded = 0
        if len(batch) == 1:
            decoded = int(model.network.get_layer("search").steps_taken)
        return {**network, "batch-size": pairs, "length": length, "words": decoded}
    if workload in ("gpt", "llama", "moe", "mamba", "grpo"):
        hyperparameters, words = model.hyperparameters, len(model.vocabulary)
        names = ["width", "layers", "context"]
        names += ["heads"] if workload != "mamba" else []
        names += ["kv_heads", "hidden_units"] if workload in ("llama", "moe", "grpo") else []
        names += ["experts", "experts_per_token"] if workload == "moe" else []
        network = {name.replace("_", "-"): getattr(hyperparameters, name) for name in names}
        tokens = {
            "prompt": hyperparameters.prompt_tokens,
            "new": hyperparameters.new_tokens,
            "phase": getattr(model.run_options, "phase", "both"),  # grpo's is both
        }
        return {**network, **tokens, "vocabulary": hyperparameters.vocabulary or words}
    if workload == "dlrm":
        return {"rows": model.hyperparameters.rows}
    if workload == "diffusion":
        names = ["side", "channels", "classes", "patch", "layers", "width", "heads"]
        network = {name: getattr(model.hyperparameters, name) for name in names}
        chosen = model.run_options
        return {**network, "sampling-steps": chosen.steps, "guidance": chosen.guidance}
    if workload == "ngp":
        names = ("levels", "coarsest", "finest", "log2_table", "features", "hidden_units")
        return {name.replace("_", "-"): getattr(model.hyperparameters, name) for name in names}
    if workload == "gcn":
        graph = model.graph
        (nodes, features), edges = graph.features.shape, len(graph.edges)
        rest = {"nonzeros": graph.features.nnz, "classes": len(graph.class_names)}
        return {"nodes": nodes, "edges": edges, "features": features, **rest}
    if workload == "deepq":
        return {"actions": model.actions, "year": model.hyperparameters.network}
    if workload == "speech":  # PyTorch's program has a frame for each step of the network
        frames = math.ceil(batch[0].shape[1] / model.hyperparameters.stride)
        return {"frames": frames, "units": model.hyperparameters.units}
    return {}
