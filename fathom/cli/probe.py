"""Probes a machine before the runs: ``python -m fathom.cli.probe``.

This is a separate process, because TensorFlow's thread pools have a fixed size per process, and
because the data sets should exist before the first run is timed.
"""

import argparse
import contextlib
from pathlib import Path

from fathom import workloads
from fathom.cli.parser import Parser
from fathom.cli.terminal import import_tensorflow, run_command
from fathom.errors import FathomError


def main() -> None:
    """Measures the machine with one number of threads, and creates synthetic data sets."""
    parser = Parser(prog="fathom.cli.probe")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--precision", required=True)
    parser.add_argument("--workloads", default="", help="prepare the data sets of these")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    run_command("fathom.cli.probe", lambda: _measure(args))


def _measure(args: argparse.Namespace) -> None:
    import_tensorflow()
    import tensorflow as tf

    from fathom.core.data import choose, locate
    from fathom.results.characterization import Probe
    from fathom.results.records import Environment
    from fathom.system import environment, processor, rates, threads
    from fathom.system.device import CPU

    threads.set_inter_op_threads(args.threads)
    used = threads.set_threads(args.threads)
    processor.keep_freed_memory()
    classes = {}
    for name in filter(None, args.workloads.split(",")):
        with contextlib.suppress(FathomError):  # each run of the workload will report the error
            classes[name] = workloads.load(name)
            locate(choose(classes[name].datasets, None, None), None, 0)
    computing = min(args.threads, processor.available_cores())
    gemm, triad = rates.gemm_ceiling(CPU, args.precision, computing), rates.triad_ceiling()
    Probe(
        environment=Environment.model_validate(
            environment.describe(CPU, used, args.precision, "off")
        ),
        characterizations={name: each.characterization for name, each in classes.items()},
        gpus=len(tf.config.list_physical_devices("GPU")),
        gemm_flops_per_second=gemm.rate,
        gemm_cpu_share=gemm.cpu_share,
        triad_bytes_per_second=triad.rate,
        triad_cpu_share=triad.cpu_share,
    ).write(args.out)


if __name__ == "__main__":
    main()
