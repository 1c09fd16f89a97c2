"""Holds the memory of a step in its description against TensorFlow's allocator.

    python benchmarks/peak_memory.py
    python benchmarks/peak_memory.py --workload gpt --batch-size 12

Each training step runs twice in a process of its own, on one batch of ones and with one thread,
the second time under TensorFlow's profiler. Its events of the allocator tell what is asked for and
given back: on a processor with oneDNN only blocks of 256 KiB and more, so that the description's
smaller results are left out here too. What the allocator loses is not in them: it gives a free
block away whole unless it is twice as large as asked for. Both have variables, constants and the
batch.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

_COUNTED = 2**18  # bytes of the smallest block in the events
_LIMIT = 600  # seconds of a workload
STEPS = {
    **{"autoenc": 100, "memnet": 32, "dlrm": 128, "gpt": 12, "residual": 2, "speech": 1},
    **{"seq2seq": 4, "transformer": 4, "deepq": 32, "alexnet": 4, "llama": 8, "vgg": 1},
}
"""Batch sizes by workload."""


def main() -> None:
    """Measures the workloads, one after the other, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", choices=STEPS)
    parser.add_argument("--batch-size", type=int)
    args = parser.parse_args()
    if args.workload and args.batch_size:
        print(measured(args.workload, args.batch_size))
        return
    for name in [args.workload] if args.workload else STEPS:
        command = [sys.executable, __file__, "--workload", name, "--batch-size", str(STEPS[name])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, check=False)
        print(done.stdout.strip() or f"{name}: {done.stderr.strip().splitlines()[-1]}", flush=True)


def measured(name: str, batch_size: int) -> str:
    """Returns what a training step holds, in words."""
    import tensorflow as tf

    from fathom import workloads
    from fathom.hardware.description.memory import lifetimes

    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = workloads.load(name, False)(
        "cpu", {"threads": 1, "xla": False, "batch_size": batch_size}
    )
    model.build()
    signature = model.signature_of_length(None)
    step = tf.function(model.train_step, autograph=False).get_concrete_function(*signature)
    batch = [tf.ones(spec.shape, spec.dtype) for spec in signature]
    asked = _asked(lambda: step(*batch))
    description = model.describe()
    held = description.held_bytes or 0
    results = lifetimes(description)
    results = results[results.bytes >= _COUNTED]
    sizes = results.bytes.tolist()
    changes = [*zip(results["first"].tolist(), sizes, strict=True)]
    changes += zip((results["last"] + 1).tolist(), (-results.bytes).tolist(), strict=True)
    described = _most(changes)
    ratio = (held + described) / (held + asked)
    figures = (held, asked, described)
    words = ", ".join(f"{size / 1e6:,.1f}" for size in figures)
    return f"{name}, {batch_size}: MB held, asked for, described: {words}; ratio {ratio:.3f}"


def _asked(step: Any) -> int:
    """Returns the most bytes that a step asked for at once, in its second run."""
    import tensorflow as tf

    step()
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            step()
        changes = [
            change for path in Path(folder).rglob("*.xplane.pb") for change in _changes(path)
        ]
    return _most(changes)


def _changes(path: Path) -> list[tuple[int, int]]:
    """Returns the time of each event of the allocator, and the bytes that it adds or takes away."""
    from fathom.system.private import parse_trace

    space = parse_trace(path.read_bytes())
    events = []
    for plane in space.planes:
        names = {key: value.name for key, value in plane.event_metadata.items()}
        fields = {key: value.name for key, value in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                if names[event.metadata_id] in ("MemoryAllocation", "MemoryDeallocation"):
                    found = {
                        fields[s.metadata_id]: s.int64_value or s.uint64_value for s in event.stats
                    }
                    time = 1000 * line.timestamp_ns + event.offset_ps
                    sign = 1 if names[event.metadata_id] == "MemoryAllocation" else -1
                    events.append((time, sign, found))
    taken: dict[int, int] = {}
    changes = []
    for time, sign, found in sorted(events, key=lambda each: each[0]):
        if sign > 0:
            taken[found["addr"]] = found["requested_bytes"]
            changes.append((time, found["requested_bytes"]))
        else:  # what was there before the step is not counted
            changes.append((time, -taken.pop(found.get("addr", 0), 0)))
    return changes


def _most(changes: list[tuple[int, int]]) -> int:
    """Returns the largest sum of changes; at one time, what is freed comes first."""
    frame = pd.DataFrame(changes, columns=["time", "bytes"]).sort_values(["time", "bytes"])
    return max(0, int(frame.bytes.cumsum().max())) if len(frame) else 0


if __name__ == "__main__":
    main()
