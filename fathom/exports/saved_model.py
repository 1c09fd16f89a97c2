"""TensorFlow's SavedModel: the forward pass with the weights, which needs no Fathom to run.

Its one signature, ``serving_default``, takes the network's inputs by name.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.exports.format import ExportOptions, NetworkFormat, writing

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel


def _save(model: "NeuralNetworkModel", folder: Path, options: ExportOptions) -> tuple[str, ...]:
    import tensorflow as tf

    from fathom.exports.traced import RANDOM, draws_random_numbers, forward, signature

    traced = forward(model, signature(model, options)).get_concrete_function()
    module = tf.Module()
    order = [id(captured) for captured in traced.captured_inputs]
    variables = [each for each in traced.graph.variables if id(each.handle) in order]
    module.variables_read = sorted(variables, key=lambda each: order.index(id(each.handle)))
    saving = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    with writing(folder):
        tf.saved_model.save(module, str(folder), signatures=traced, options=saving)
        # A random number, which would make two exports of the same network differ.
        (folder / "fingerprint.pb").unlink(missing_ok=True)
    _number_functions(folder / "saved_model.pb")
    return (RANDOM,) * draws_random_numbers(traced)


def _number_functions(path: Path) -> None:
    """Takes out of a SavedModel what depends on the process: its threads, and earlier functions.

    TensorFlow numbers functions through; here those of a file are numbered from 0.
    """
    from fathom.system.private import parse_saved_model

    saved = parse_saved_model(path.read_bytes())
    for graph in saved.meta_graphs:
        functions = graph.graph_def.library.function
        functions.sort(key=lambda function: int(function.signature.name.rpartition("_")[2]))
        names = [function.signature.name for function in functions]
        new = {name: f"{name.rpartition('_')[0]}_{i}" for i, name in enumerate(names)}
        inside = [node for function in functions for node in function.node_def]
        inside += [each for function in functions for each in function.arg_attr.values()]
        for node in (*graph.graph_def.node, *inside):
            for attribute in ("config_proto", "_gradient_op_type"):  # gradients are not saved
                node.attr.pop(attribute, None)
            given = node.attr.get("_user_specified_name")
            if given is not None and given.s.isdigit():  # of a variable
                del node.attr["_user_specified_name"]
        _rename(graph, new)
    path.write_bytes(saved.SerializeToString(deterministic=True))


def _rename(message: Any, new: dict[str, str]) -> None:
    """Replaces names in all texts of a protobuf message, keys of maps included."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            if isinstance(value, str):
                setattr(message, field.name, new.get(value, value))
            else:
                value[:] = [new.get(each, each) for each in value]
        elif field.type == field.TYPE_MESSAGE and field.message_type.GetOptions().map_entry:
            for key in [key for key in value if hasattr(value[key], "ListFields")]:
                _rename(value[key], new)
                if key in new:
                    value[new[key]].CopyFrom(value[key])
                    del value[key]
        elif field.type == field.TYPE_MESSAGE:
            for each in [value] if hasattr(value, "ListFields") else value:
                _rename(each, new)


FORMAT = NetworkFormat(about="TensorFlow's SavedModel of the forward pass", save_network=_save)
