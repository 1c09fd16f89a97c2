"""Problems of Timeloop, version 0.4: one file for each product and convolution, and their list.

The shapes are Timeloop's own: its CNN layer with N M C R S P Q and strides, grouped convolutions
by group, and a matrix product as a layer of one pixel with N rows.
"""

from fathom.exports.format import Exported, Format
from fathom.exports.products import left_out, repetitions, taken
from fathom.results.description import Description, Operation

_SHAPE = """\
problem:
  version: 0.4
  shape:
    name: CNN_Layer
    dimensions: [C, M, R, S, N, P, Q]
    coefficients:
      - {name: Wstride, default: 1}
      - {name: Hstride, default: 1}
      - {name: Wdilation, default: 1}
      - {name: Hdilation, default: 1}
    data_spaces:
      - name: Weights
        projection: [[[C]], [[M]], [[R]], [[S]]]
      - name: Inputs
        projection:
          - [[N]]
          - [[C]]
          - [[R, Wdilation], [P, Wstride]]
          - [[S, Hdilation], [Q, Hstride]]
      - name: Outputs
        projection: [[[N]], [[M]], [[Q]], [[P]]]
        read_write: true
  instance:
"""


def _export(description: Description) -> Exported:
    files, listed = {}, []
    for number, row in enumerate(taken(description)):
        instance, times = _instance(row)
        name = f"{number:03d}.yaml"
        lines = "".join(f"    {key}: {value}\n" for key, value in instance.items())
        files[name] = f"# {row.name}\n{_SHAPE}{lines}"
        listed.append((name, row, times))
    files["problems.csv"] = repetitions(listed, "file")
    return Exported(files, left_out(description))


def _instance(row: Operation) -> tuple[dict[str, int], int]:
    """Returns the sizes of the problem, and how often it is computed in a step."""
    size = row.bounds
    if row.kind != "convolution":
        ones = dict.fromkeys(("R", "S", "P", "Q"), 1)
        return {"N": size["M"], "M": size["N"], "C": size["K"], **ones}, size["batch"] * row.repeats
    groups = size["groups"]
    # Timeloop's R and P run along the width, as its strides' names say.
    sizes = {"N": size["N"], "P": size["Q"], "Q": size["P"], "R": size["S"], "S": size["R"]}
    sizes |= {"C": size["C"] // groups, "M": size["M"] // groups}
    sizes |= {"Wstride": size["stride_w"], "Hstride": size["stride_h"]}
    sizes |= {"Wdilation": size["dilation_w"], "Hdilation": size["dilation_h"]}
    return sizes, groups * row.repeats


FORMAT = Format(
    about="problem files of Timeloop 0.4, one for each convolution and product", export=_export
)
