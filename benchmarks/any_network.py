"""Counts the work of others' networks and some of JAX, and compares it with a second counter.

In an environment of its own, in which nothing else needs to be:

    pip install -e '.[exports]' 'jax[cpu]' torch torchvision transformers onnxscript
    python benchmarks/any_network.py --out any-network

Each network is made with random weights, written to a file by its own framework, and described
from that file by Fathom. PyTorch's networks are counted again by ``torch.utils.flop_counter`` as
they run, those of Keras by TensorFlow's profiler, functions of JAX by XLA's cost analysis. Each
network has a process of its own; results are kept in ``--out``, so that a second call goes on, and
the descriptions in its folder ``descriptions``, which ``coverage.py`` reads. Ends with exit code 1
if a count differs that ``WHY`` does not explain.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TORCHVISION = """
    alexnet vgg11 vgg16_bn resnet18 resnet50 resnext50_32x4d wide_resnet50_2 densenet121
    squeezenet1_0 googlenet inception_v3 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large
    shufflenet_v2_x1_0 mnasnet1_0 efficientnet_b0 efficientnet_v2_s regnet_y_400mf regnet_x_800mf
    convnext_tiny vit_b_16 swin_t swin_v2_t
    """.split()  # noqa: SIM905
SEGMENTATION = ["fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"]
VIDEO = ["r3d_18", "r2plus1d_18"]
TRANSFORMERS = {  # class of the configuration, input, changes
    "Bert": ("ids", {"num_hidden_layers": 4}),
    "DistilBert": ("ids", {}),
    "Roberta": ("ids", {"num_hidden_layers": 4}),
    "Albert": ("ids", {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}),
    "Electra": ("ids", {}),
    "GPT2": ("ids", {"n_layer": 4, "use_cache": False}),
    "GPTNeoX": ("ids", {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8}
                | {"intermediate_size": 2048, "use_cache": False}),
    "Llama": ("ids", {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8}
              | {"num_key_value_heads": 2, "intermediate_size": 1376, "use_cache": False}),
    "Qwen2": ("ids", {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8}
              | {"num_key_value_heads": 2, "intermediate_size": 1376, "use_cache": False}),
    "ViT": ("image", {"num_hidden_layers": 6}),
    "DeiT": ("image", {"num_hidden_layers": 6}),
    "ConvNext": ("image", {}),
    "Segformer": ("image", {}),
    "Wav2Vec2": ("sound", {"num_hidden_layers": 4}),
}  # fmt: skip
KERAS = """
    MobileNet MobileNetV2 MobileNetV3Small MobileNetV3Large ResNet50 ResNet101V2 DenseNet121 VGG16
    Xception InceptionV3 InceptionResNetV2 EfficientNetB0 EfficientNetV2B0 NASNetMobile ConvNeXtTiny
    """.split()  # noqa: SIM905
JAX = ["mlp", "cnn", "depthwise", "attention", "lstm_scan", "einsum"]

XLA = "XLA counts {} too, an operation each, halved here"
WHY = {
    "torchvision:swin_v2_t": "the bias of positions, 82,944 x 225, has constants alone as inputs",
    "keras:ConvNeXtTiny": "TensorFlow's profiler misses the 7 x 7 convolutions by channel "
    "(105,106,176), which Keras puts into functions for XLA",
    "jax:mlp": XLA.format("the relu (16,384)"),
    "jax:cnn": XLA.format("relu and sum (245,888)"),
    "jax:attention": XLA.format("the softmax but for its exponentials (1,046,528)"),
    "jax:lstm_scan": "XLA counts the body of the loop once, not 50 times, with its gates",
} | {
    f"transformers:{name}": "the pooler, 768 x 768, is not in the output that was exported"
    for name in ("Bert", "Roberta", "Albert", "ViT", "DeiT")
}


def names() -> list[str]:
    """Returns all networks, as framework:name."""
    lists = {"torchvision": TORCHVISION, "segmentation": SEGMENTATION, "video": VIDEO}
    lists |= {"jax": JAX, "keras": KERAS, "transformers": list(TRANSFORMERS)}
    return [f"{kind}:{name}" for kind, listed in lists.items() for name in listed]


def measure(network: str, out: Path) -> dict[str, object]:
    """Makes a network, counts it by both, writes its description, and returns the counts."""
    kind, _, name = network.partition(":")
    number = names().index(network)
    with tempfile.TemporaryDirectory() as folder:
        if kind == "keras":
            path, dimensions, counter, other = _keras(name, Path(folder), number)
        elif kind == "jax":
            path, dimensions, counter, other = _jax(name, Path(folder))
        else:
            path, dimensions, counter, other = _torch(kind, name, Path(folder))
        from fathom.hardware import networks

        found = networks.read(path, dimensions)
    found = found.model_copy(update={"workload": network})
    found.write(_file(out / "descriptions", network))
    return {
        "network": network,
        "format": path.suffix or "SavedModel",
        "macs": found.macs,
        "flops": found.total_flops,
        "counter": counter,
        "other": other,
        "without_rule": {name: found.share_without_rule(name) for name in found.without_rule},
        "operations": len(found.operations),
    }


def _file(folder: Path, network: str) -> Path:
    return folder / f"{network.replace(':', '-')}.json"


def _torch(kind: str, name: str, folder: Path):
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    torch.manual_seed(1)
    torch.backends.mha.set_fastpath_enabled(False)
    model, example = _hugging_face(name) if kind == "transformers" else _torchvision(kind, name)
    model.eval()
    one_kernel = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    with torch.no_grad(), one_kernel:
        with FlopCounterMode(display=False) as counted:
            model(example)
        path = folder / f"{name}.onnx"
        torch.onnx.export(model, (example,), path, dynamo=True, external_data=True, verbose=False)
    return path, {}, "torch.utils.flop_counter", counted.get_total_flops() // 2


def _torchvision(kind: str, name: str):
    import torch
    import torchvision

    if kind == "video":
        return getattr(torchvision.models.video, name)(), torch.zeros(1, 3, 8, 112, 112)
    if kind == "segmentation":
        model = getattr(torchvision.models.segmentation, name)(weights_backbone=None)
        return _Only(model, "out"), torch.zeros(1, 3, 224, 224)
    options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    side = 299 if name == "inception_v3" else 224
    return getattr(torchvision.models, name)(**options), torch.zeros(1, 3, side, side)


def _hugging_face(name: str):
    import torch
    import transformers

    given, changes = TRANSFORMERS[name]
    config = getattr(transformers, f"{name}Config")(attn_implementation="eager", **changes)
    example = {
        "ids": torch.ones(1, 128, dtype=torch.long),
        "image": torch.zeros(1, 3, 224, 224),
        "sound": torch.zeros(1, 16000),
    }[given]
    return _Only(transformers.AutoModel.from_config(config), "last_hidden_state"), example


def _Only(model, output: str):  # noqa: N802
    """Returns a module with one of a model's outputs."""
    import torch

    class Only(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x)[output]

    return Only()


def _keras(name: str, folder: Path, number: int):
    import keras
    import tensorflow as tf

    options = {"input_shape": (224, 224, 3)} if name.startswith("MobileNetV3") else {}
    model = getattr(keras.applications, name)(weights=None, **options)
    spec = tf.TensorSpec((1, *model.input_shape[1:]), tf.float32)
    graph = tf.function(lambda x: model(x, training=False)).get_concrete_function(spec).graph
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    with contextlib.redirect_stdout(sys.stderr):
        found = tf.compat.v1.profiler.profile(graph, cmd="op", options=options)
    left, flops = [found], 0
    while left:
        node = left.pop()
        left += node.children
        if node.name in ("Conv2D", "MatMul", "DepthwiseConv2dNative", "BatchMatMulV2"):
            flops += node.float_ops
    path = folder / (f"{name}.keras" if number % 2 else name)
    with contextlib.redirect_stdout(sys.stderr):
        model.save(path) if number % 2 else model.export(path)
    return path, {"batch": 1}, "TensorFlow's profiler", flops // 2


def _jax(name: str, folder: Path):
    import jax
    from jax import numpy as jnp

    def zeros(*shape: int):
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    def mlp(x, a, b):
        return jax.nn.relu(x @ a) @ b

    def cnn(x, a, b):
        x = jax.lax.conv_general_dilated(
            x, a, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))  # fmt: skip
        return jnp.einsum("nhwc,cd->nd", jax.nn.relu(x), b)

    def depthwise(x, a):
        return jax.lax.conv_general_dilated(
            x, a, (1, 1), "VALID", feature_group_count=32, rhs_dilation=(2, 2),
            dimension_numbers=("NHWC", "HWIO", "NHWC"))  # fmt: skip

    def attention(q, k, v):
        scores = jnp.einsum("bthd,bshd->bhts", q, k)
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v)

    def lstm_scan(xs, w, u):
        def step(state, x):
            h, c = state
            i, f, g, o = jnp.split(x @ w + h @ u, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = (jnp.zeros((8, 256)), jnp.zeros((8, 256)))
        return jax.lax.scan(step, start, xs)[1]

    def einsum(a, b):
        return jnp.einsum("bij,bkj->bik", a, b)

    functions = {
        "mlp": (mlp, zeros(32, 784), zeros(784, 512), zeros(512, 10)),
        "cnn": (cnn, zeros(4, 64, 64, 16), zeros(3, 3, 16, 32), zeros(32, 10)),
        "depthwise": (depthwise, zeros(2, 32, 32, 32), zeros(3, 3, 1, 64)),
        "attention": (attention, *[zeros(2, 128, 8, 64)] * 3),
        "lstm_scan": (lstm_scan, zeros(50, 8, 128), zeros(128, 1024), zeros(256, 1024)),
        "einsum": (einsum, zeros(3, 100, 64), zeros(3, 50, 64)),
    }
    function, *shapes = functions[name]
    path = folder / f"{name}.mlir"
    path.write_text(jax.export.export(jax.jit(function))(*shapes).mlir_module())
    cost = jax.jit(function).lower(*shapes).cost_analysis()
    return path, {}, "XLA's cost analysis", int(cost["flops"]) // 2


def main() -> int:
    """Measures all networks that ``--out`` does not have, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("any-network"))
    parser.add_argument("--one", help="measure this network in this process, as keras:VGG16")
    args = parser.parse_args()
    (args.out / "descriptions").mkdir(parents=True, exist_ok=True)
    if args.one:
        with contextlib.redirect_stdout(sys.stderr):
            found = measure(args.one, args.out)
        print(json.dumps(found))
        return 0
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}  # nothing is fetched
    for network in names():
        file = _file(args.out, network)
        if file.exists() and _file(args.out / "descriptions", network).exists():
            continue
        command = [sys.executable, __file__, "--one", network, "--out", args.out]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=offline, timeout=1800, check=True
            )
        except subprocess.SubprocessError as error:
            printed = getattr(error, "stderr", None) or str(error)
            print(f"{network}: {printed.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        file.write_text(done.stdout)
        print(f"{network}", file=sys.stderr)
    return table([json.loads(file.read_text()) for file in sorted(args.out.glob("*.json"))])


def table(found: list[dict]) -> int:
    """Prints a row for each network; returns 1 if a difference is not explained."""
    print(
        "| network | file | MACs | second counter | difference | why |\n|---|---|---|---|---|---|"
    )
    unexplained = 0
    for row in found:
        ours, other = row["macs"], row["other"]
        share = (ours - other) / max(1, other)
        why = "" if ours == other else WHY.get(row["network"], "NOT EXPLAINED")
        unexplained += why == "NOT EXPLAINED"
        print(
            f"| {row['network']} | {row['format']} | {ours:,} | {other:,} | "
            f"{share:+.2%} | {why} |" if ours != other
            else f"| {row['network']} | {row['format']} | {ours:,} | {other:,} | 0 | |"
        )  # fmt: skip
    equal = sum(row["macs"] == row["other"] for row in found)
    print(f"\n{len(found)} networks, {equal} equal, {unexplained} not explained")
    for row in found:
        for name, share in row["without_rule"].items():
            print(f"no rule in {row['network']}: {name}, {share:.2%} of the bytes")
    return int(unexplained > 0 or len(found) < len(names()))


if __name__ == "__main__":
    sys.exit(main())
