"""The programs in PyTorch that step_time.py compares with, and their options."""

import math
from typing import Any

PROGRAMS = {
    **dict.fromkeys(("alexnet", "vgg", "residual", "autoenc"), "pytorch_networks.py"),
    **{
        name: f"pytorch_{name}.py"
        for name in ("memnet", "seq2seq", "speech", "transformer", "gpt", "dlrm", "gcn")
    },
}


def options(workload: str, model: Any, batch: tuple) -> list[str]:
    """Returns the sizes of a model and its batch as options of the workload's program."""
    values = _values(workload, model, batch).items()
    return [word for name, value in values for word in (f"--{name}", str(value))]


def _values(workload: str, model: Any, batch: tuple) -> dict[str, object]:
    if workload == "memnet":
        memory, words = batch[0].shape[-2:]
        vocabulary = len(model.babi.vocabulary)
        return {"vocabulary": vocabulary, "memory": memory, "words": words}
    if workload == "seq2seq":
        source = batch[0].shape[1]
        buckets = dict(map(int, pair.split("-")) for pair in model.hyperparameters.buckets.split())
        return {"source": source, "target": buckets[source]}
    if workload == "transformer":
        chosen, (pairs, length) = model.hyperparameters, batch[0].shape
        network = {name: getattr(chosen, name) for name in ("vocabulary", "width", "heads")}
        network |= {"hidden-units": chosen.hidden_units, "layers": chosen.layers}
        decoded = 0
        if len(batch) == 1:
            decoded = int(model.network.get_layer("search").steps_taken)
        return {**network, "batch-size": pairs, "length": length, "words": decoded}
    if workload == "gpt":
        chosen, words = model.hyperparameters, len(model.vocabulary)
        network = {name: getattr(chosen, name) for name in ("width", "heads", "layers", "context")}
        tokens = {"prompt": chosen.prompt_tokens, "new": chosen.new_tokens, "phase": chosen.phase}
        return {**network, **tokens, "vocabulary": chosen.vocabulary or words}
    if workload == "dlrm":
        return {"rows": model.hyperparameters.rows}
    if workload == "gcn":
        graph = model.graph
        (nodes, features), edges = graph.features.shape, len(graph.edges)
        rest = {"nonzeros": graph.features.nnz, "classes": len(graph.class_names)}
        return {"nodes": nodes, "edges": edges, "features": features, **rest}
    if workload == "speech":  # PyTorch's program has a frame for each step of the network
        return {
            "frames": math.ceil(batch[0].shape[1] / getattr(model.hyperparameters, "stride", 1))
        }
    return {}
