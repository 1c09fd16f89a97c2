"""Trains small networks on some replicas; prints their losses as JSON for test_replicas.

python replicated.py 2 alexnet memnet       # replicas in this process
TF_CONFIG=... python replicated.py gloo dlrm   # a worker; with gloo-bfloat16, sums in bfloat16
"""

import json
import sys

from fathom import workloads
from fathom.residual import model as residual

STEPS = 6
OPTIONS = {"residual": {"synchronize_statistics": True}, "speech": {"learning_rate": 1e-4}}


def losses(name, replicas, **options):
    """Returns the losses of the first steps."""
    strategy = {"strategy": "mirrored", "replicas": replicas}
    if isinstance(replicas, str):
        collectives, _, dtype = replicas.partition("-")
        strategy = {"strategy": "multi-worker", "collectives": collectives}
        strategy |= {"reduce_dtype": dtype or "float32"}
        strategy |= {"divide_experts": True} if name == "moe" else {}
    elif replicas == 1:
        strategy = {"xla": False}
    small = {
        **workloads.descriptor(name).small,
        "batch_size": 12,
        **OPTIONS.get(name, {}),
        **options,
    }
    model = workloads.load(name)("/cpu:0", {**small, **strategy, "threads": 1})
    model.setup()
    found = model.run(n_steps=STEPS, warmup=0).steps.loss
    model.teardown()
    return found


if __name__ == "__main__":
    replicas, *names = sys.argv[1:]
    residual.BLOCKS = (1, 1, 1, 1)  # batch normalization makes small differences grow with depth
    replicas = int(replicas) if replicas.isdigit() else replicas
    print(json.dumps({name: losses(name, replicas) for name in names}))
