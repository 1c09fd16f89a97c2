"""Table I of Drumond et al.: GPU and FPGA in training on 1, 9 and 64 nodes, by ratios.

The seed prints neither the network's time nor the machines' constants, so that only ratios can be
held against it. The network of Le et al. (2012) is cut in two dimensions, as by Coates et al.: a
node exchanges the border of its patch, which shrinks with the square root of the nodes.
"""

import pandas as pd

from fathom.hardware.accelerators.machine import Machine
from fathom.hardware.accelerators.scaling import scaled

NODES = (1, 9, 64)
PUBLISHED = {  # operations per second and mm^2, operations per watt
    "FPGA": ((1.97e9, 1.92e9, 1.92e9), (29.5e9, 28.8e9, 25.1e9)),
    "GPU": ((1.75e9, 874e6, 436e6), (5.33e9, 2.90e9, 1.66e9)),
}
# Fitted: time of a border at one node over that of the computation, and the shares of the power
# that are drawn while waiting and by the network.
_COMMUNICATION = {"FPGA": 0.0085, "GPU": 0.35}
_IDLE_SHARE = {"FPGA": 1.0, "GPU": 0.78}
_LINK_SHARE = {"FPGA": 0.07, "GPU": 0.0}


def table() -> pd.DataFrame:
    """Returns the model's figures beside the published ones, scaled to equal at one node.

    Returns:
        one row per device and number of nodes: device, nodes, rate (operations per second and
        mm^2), efficiency (operations per watt), and both as published.
    """
    rows = []
    for device, (rates, efficiencies) in PUBLISHED.items():
        unit = Machine(
            title=device,
            flops={"fixed32": rates[0]},
            bandwidth=1.0,
            area_mm2=1.0,
            power_w=rates[0] / efficiencies[0],
            idle_share=_IDLE_SHARE[device],
            link_power_w=_LINK_SHARE[device] * rates[0] / efficiencies[0],
            sources=dict.fromkeys(Machine.model_fields, "Drumond et al., Table I, and fitted"),
        )
        for nodes, rate, efficiency in zip(NODES, rates, efficiencies, strict=True):
            border = _COMMUNICATION[device] / nodes**0.5 if nodes > 1 else 0.0
            step = scaled(unit, rates[0], 1 / nodes, border, nodes)
            ours = step.rate_per_mm2, step.operations_per_watt
            rows.append((device, nodes, ours[0], rate, ours[1], efficiency))
    columns = ["device", "nodes", "rate", "published rate", "efficiency", "published efficiency"]
    return pd.DataFrame(rows, columns=columns)
