"""Steps made by hand, for the models of machines."""

from fathom.hardware.accelerators import machine
from fathom.results.description import Description, Operation

P100 = machine.load("p100")
CONVOLUTION = dict.fromkeys(
    ("N", "M", "C", "groups", "stride_h", "stride_w", "dilation_h", "dilation_w"), 1
) | {"P": 32, "Q": 32, "R": 3, "S": 3}
ROWS, WIDTH, HIDDEN = 8, 16, 64  # of a block
UNIT = 4 * ROWS * WIDTH  # bytes of the activations between layers


def operation(**changes):
    given = {
        **{"name": "a/MatMul", "type": "MatMul", "layer": "a", "phase": "forward"},
        **{"kind": "matrix product", "dtype": "float32", "repeats": 1, "flops": 0},
        **{"bounds": {"batch": 1, "M": 2, "N": 3, "K": 4}, "macs": 10**12},
        **{"input_bytes": 10**6, "weight_bytes": 10**6, "output_bytes": 10**6},
    }
    return Operation.model_validate(given | changes)


def description(*operations, mode="train", parameters=1000, **changes):
    given = {"workload": "w", "mode": mode, "batch_size": 8, "precision": "float32"}
    given |= {"inputs": {}, "parameters": parameters, "operations": operations}
    return Description(**(given | changes))


MOVING = operation(name="b/Pad", type="Pad", layer="b", kind="data movement", macs=0, bounds={})


def product(name, layer, sizes, producers, phase="forward", weights=True, batch=1, **changes):
    """Returns a product of [M, K] and [K, N] in float32, batch times."""
    rows, columns, depth = sizes
    left, right, result = rows * depth, depth * columns, rows * columns
    gradient = phase == "weight gradient"
    return operation(
        **{"name": name, "layer": layer, "phase": phase, "producers": tuple(producers)},
        bounds={"batch": batch, "M": rows, "N": columns, "K": depth},
        macs=batch * rows * columns * depth,
        input_bytes=4 * batch * (left + (0 if weights and not gradient else right)),
        weight_bytes=4 * batch * right if weights and not gradient else 0,
        output_bytes=4 * batch * result,
        result_bytes=4 * batch * result,
        **changes,
    )


def elementwise(name, layer, elements, producers, **changes):
    """Returns an elementwise operation of float32."""
    size = 4 * elements
    return operation(
        **{"name": name, "layer": layer, "type": "Mul", "kind": "elementwise", "macs": 0},
        **{"bounds": {"elements": elements}, "flops": elements, "producers": tuple(producers)},
        **{"input_bytes": size, "weight_bytes": 0, "output_bytes": size, "result_bytes": size},
        **changes,
    )


def blocks(count):
    """Returns the training step of a network of blocks of two layers with a function between."""
    forward, backward, last = [], [], "x"
    rows, wide = (ROWS, HIDDEN, WIDTH), ROWS * HIDDEN
    gradient = "loss"
    for number in range(count):
        up, down, layer = f"up{number}", f"down{number}", f"block{number}"
        norm = elementwise(f"norm{number}", layer, ROWS * WIDTH, [last])
        forward += [
            norm,
            product(up, layer, rows, [norm.name]),
            elementwise(f"{up}/relu", layer, wide, [up]),
            product(down, layer, (ROWS, WIDTH, HIDDEN), [f"{up}/relu"]),
        ]
        last = down
    loss = elementwise("loss", "loss", ROWS * WIDTH, [last])
    phases = {"phase": "weight gradient"}, {"phase": "input gradient"}
    for number in reversed(range(count)):
        up, down, layer = f"up{number}", f"down{number}", f"block{number}"
        of_relu = f"{up}/d relu"
        backward += [
            product(
                f"{down}/dW", layer, (HIDDEN, WIDTH, ROWS), [f"{up}/relu", gradient], **phases[0]
            ),
            product(f"{down}/dX", layer, (ROWS, HIDDEN, WIDTH), [gradient], **phases[1]),
            elementwise(of_relu, layer, wide, [f"{down}/dX", f"{up}/relu"], **phases[1]),
            product(
                f"{up}/dW", layer, (WIDTH, HIDDEN, ROWS), [f"norm{number}", of_relu], **phases[0]
            ),
            product(f"{up}/dX", layer, (ROWS, WIDTH, HIDDEN), [of_relu], **phases[1]),
            elementwise(f"norm{number}/d", layer, ROWS * WIDTH, [f"{up}/dX"], **phases[1]),
        ]
        gradient = f"norm{number}/d"
    weights = 2 * WIDTH * HIDDEN * count
    update = elementwise("update", "optimizer", weights, [], phase="update")
    rows = (*forward, loss, *backward, update)
    return description(*rows, parameters=weights, held_bytes=12 * weights)


def experts(count):
    """Returns the inference of a layer of experts, each of which has ROWS of the tokens."""
    sizes = {"batch": count}
    return description(
        elementwise("router", "router", count * ROWS * WIDTH, []),
        product("up", "moe", (ROWS, HIDDEN, WIDTH), ["router"], **sizes),
        operation(
            **{"name": "half", "type": "Split", "layer": "moe", "kind": "data movement"},
            **{"bounds": {}, "macs": 0, "producers": ("up",), "weight_bytes": 0},
        ),
        elementwise("relu", "moe", count * ROWS * HIDDEN, ["half"]),
        product("down", "moe", (ROWS, WIDTH, HIDDEN), ["relu"], **sizes),
        operation(
            **{"name": "combine", "type": "GatherV2", "layer": "moe", "kind": "data movement"},
            **{"bounds": {}, "macs": 0, "producers": ("down",), "weight_bytes": 0},
        ),
        mode="infer",
        parameters=2 * count * WIDTH * HIDDEN,
    )
