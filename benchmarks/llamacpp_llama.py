"""Decodes by llama.cpp with a network of llama's size, of random weights in float32.

Writes the network as a GGUF file, reads a prompt of half the context, and continues it greedily to
the end of the context, as ``benchmarks/decode.py`` does, which calls this program. Needs not Fathom
but ``pip install llama-cpp-python gguf``.

    python benchmarks/llamacpp_llama.py --layers 12 --width 768 --heads 12 --kv-heads 4 \
        --hidden-units 2048
"""

import argparse
import ctypes
import tempfile
import time
from pathlib import Path

import gguf
import llama_cpp
import numpy as np


def main() -> None:
    """Prints the least seconds of a token of several rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("layers", "width", "heads", "kv-heads", "hidden-units"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=27)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.gguf")
        write(path, args)
        print(f"{decode(path, args):.6e} s a token, llama.cpp {llama_cpp.__version__}")


def write(path: Path, args: argparse.Namespace) -> None:
    """Writes a network of random weights."""
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(args.context)
    writer.add_embedding_length(args.width)
    writer.add_block_count(args.layers)
    writer.add_feed_forward_length(args.hidden_units)
    writer.add_head_count(args.heads)
    writer.add_head_count_kv(args.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(500_000.0)
    writer.add_rope_dimension_count(args.width // args.heads)
    writer.add_vocab_size(args.vocabulary)
    writer.add_tokenizer_model("no_vocab")
    keys = args.kv_heads * args.width // args.heads
    shapes = {"attn_q": args.width, "attn_k": keys, "attn_v": keys, "attn_output": args.width}
    matrices = {name: (rows, args.width) for name, rows in shapes.items()}
    matrices |= dict.fromkeys(("ffn_gate", "ffn_up"), (args.hidden_units, args.width))
    matrices["ffn_down"] = (args.width, args.hidden_units)
    tensors = {"token_embd": (args.vocabulary, args.width), "output": (args.vocabulary, args.width)}
    for block in range(args.layers):
        tensors |= {f"blk.{block}.{name}": shape for name, shape in matrices.items()}
    for name, shape in tensors.items():
        weights = 0.02 * rng.standard_normal(shape, dtype=np.float32)
        writer.add_tensor(f"{name}.weight", weights)
    norms = [f"blk.{n}.{name}" for n in range(args.layers) for name in ("attn_norm", "ffn_norm")]
    for name in [*norms, "output_norm"]:
        writer.add_tensor(f"{name}.weight", np.ones(args.width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def decode(path: Path, args: argparse.Namespace) -> float:
    """Returns the least seconds of a token after the prompt, of all rounds."""
    network = llama_cpp.Llama(
        str(path),
        n_ctx=args.context,
        n_threads=args.threads,
        n_threads_batch=args.threads,
        type_k=llama_cpp.GGML_TYPE_F32,
        type_v=llama_cpp.GGML_TYPE_F32,
        verbose=False,
    )
    tokens = np.random.default_rng(1).integers(args.vocabulary, size=args.context // 2).tolist()
    found = []
    for _ in range(args.rounds + 1):
        network.reset()
        network.eval(tokens)
        started, count = time.perf_counter(), args.context // 2 - 1
        for _ in range(count):
            logits = llama_cpp.llama_get_logits_ith(network.ctx, -1)
            row = np.ctypeslib.as_array(
                ctypes.cast(logits, ctypes.POINTER(ctypes.c_float)), (args.vocabulary,)
            )
            network.eval([int(row.argmax())])
        found.append((time.perf_counter() - started) / count)
    return min(found[1:])


if __name__ == "__main__":
    main()
