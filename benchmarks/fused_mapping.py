"""Maps an exported network onto an accelerator of several cores by Stream, and fuses its layers.

Stream keeps the dependencies of the layers: fused, one begins as soon as a tile of the one before
is there, on another core, and results between them stay on chip. It has its own Python, 3.12:

    python3.12 -m venv ~/stream && ~/stream/bin/pip install stream-dse==2.1.1
    python -m fathom export vgg --infer --batch-size 1 --to onnx --out vgg-onnx
    ~/stream/bin/python benchmarks/fused_mapping.py vgg-onnx/network.onnx
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

ACCELERATOR = "eyeriss_like_quad_core"  # of Stream's examples
PER_LAYER = "per-layer"  # Stream's word for a group for each layer


def main() -> None:
    """Prints the cycles of both, and of how many groups they are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", type=Path, help="ONNX, with every dimension given")
    text = f"YAML, or one of Stream's examples; default: {ACCELERATOR}"
    parser.add_argument("--accelerator", default=ACCELERATOR, help=text)
    text = "of the solver for each group; default: 60"
    parser.add_argument("--seconds", type=float, default=60, help=text)
    text = "only the network up to this tensor"
    parser.add_argument("--until", metavar="TENSOR", help=text)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        network = prepared(args.network, args.until, Path(scratch))
        found = {}
        for name, cuts in (("layer by layer", PER_LAYER), ("fused", None)):
            start = time.perf_counter()
            estimate = mapped(network, args, cuts, Path(scratch, name.split()[0]))
            found[name] = estimate.cycles
            print(
                f"{name}: {len(estimate.group_cycles)} groups, {estimate.cycles:,.0f} cycles "
                f"({time.perf_counter() - start:.0f} s)",
                flush=True,
            )
    print(f"fused over layer by layer: {found['fused'] / found['layer by layer']:.2f}")


def prepared(path: Path, until: str | None, scratch: Path) -> Path:
    """Writes the network with the shapes of all tensors; returns its file."""
    import onnx

    model = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True)
    out = scratch / "network.onnx"
    onnx.save(model, out)
    if until:
        inputs = [each.name for each in model.graph.input]
        onnx.utils.extract_model(str(out), str(out), inputs, [until])
    return out


def mapped(network: Path, args: argparse.Namespace, cuts: str | None, out: Path) -> Any:
    """Returns Stream's estimate."""
    import stream
    from stream.api import SolveOptions, evaluate_mapping

    examples = Path(stream.__file__).parent / "inputs/examples/hardware"
    named = examples / f"{args.accelerator}.yaml"
    accelerator = named if named.exists() else Path(args.accelerator)
    chosen = {"fusion_cut_points": cuts} if cuts else {}
    out.mkdir()
    options = SolveOptions(artifacts=False, time_limit_s=args.seconds, stage_options=chosen)
    return evaluate_mapping(str(accelerator), str(network), str(out), options=options)


if __name__ == "__main__":
    main()
