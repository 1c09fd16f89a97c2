"""Decoding of gpt or llama as a share of the memory bandwidth measured in the same run.

Each token of a batch reads every weight and the whole cache once: at batch size 1 little else takes
time. Rounds alternate between the bandwidth and decoding; the best of each is taken, which other
processes disturb least.

    python benchmarks/decode.py --set size=gpt2
    python benchmarks/decode.py --workload llama --set layers=12 --set width=768

With ``--llama-cpp PYTHON``, an environment that has it, llama.cpp decodes in turn at the same size.
"""

import argparse
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from fathom import workloads
from fathom.system.rates import triad_ceiling


def main() -> None:
    """Measures and prints the share."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", choices=("gpt", "llama"), default="gpt")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--llama-cpp", metavar="PYTHON")
    args = parser.parse_args()
    if args.llama_cpp and (args.workload, args.batch_size) != ("llama", 1):
        parser.error("--llama-cpp decodes one sequence of llama: give --workload llama")
    chosen = dict(each.split("=", 1) for each in args.set)
    options = {"batch_size": args.batch_size, "threads": args.threads, "phase": "decode"}
    model = workloads.load(args.workload, forward_only=True)("/cpu:0", options | chosen)
    model.setup()
    rates, results, peers = [], [], []
    for _ in range(args.rounds):
        rates.append(triad_ceiling().rate)
        results.append(model.run(n_steps=2, warmup=1).generation)
        peers += [llama_cpp(args, model)] if args.llama_cpp else []
    seconds = min(each.seconds_per_output_token for each in results)
    embedding = model.network.get_layer("embedding")
    # Of these a token reads a row: gpt's table of words is its output's too.
    looked_up = embedding.positions if args.workload == "gpt" else embedding.table
    weights = 4 * (model.cost().parameters - int(np.prod(looked_up.shape)))
    read = weights + results[0].cache_bytes
    rate, best = read / seconds / 1e9, max(rates) / 1e9
    print(
        f"batch {args.batch_size}: {1e3 * seconds:,.3g} ms a token, "
        f"{args.batch_size / seconds:,.0f} tokens/s; "
        f"{read / 1e6:,.1f} MB, {rate:,.1f} of {best:,.1f} GB/s: {rate / best:.0%}"
    )
    if peers:
        print(f"llama.cpp: {1e3 * min(peers):,.3g} ms a token, {min(peers) / seconds:.2f} times")


def llama_cpp(args: argparse.Namespace, model: Any) -> float:
    """Returns the seconds that a token takes llama.cpp at the same size."""
    size = model.hyperparameters
    names = ("layers", "width", "heads", "kv_heads", "hidden_units", "context")
    options = [f"--{name.replace('_', '-')}={getattr(size, name)}" for name in names]
    options.append(f"--vocabulary={size.vocabulary or len(model.vocabulary)}")
    program = Path(__file__).with_name("llamacpp_llama.py")
    command = [args.llama_cpp, str(program), *options, f"--threads={args.threads}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return float(done.stdout.split()[0])


if __name__ == "__main__":
    main()
