"""Published numbers of the Fathom and Minsky papers; published/README.md has the sources."""

import importlib.resources

import pandas as pd


def breakdown() -> pd.DataFrame:
    """Returns Figure 3 of the Fathom paper: percent of the execution time.

    Returns:
        one row per workload, one column per op type, both in the paper's order; 0 also stands for
        shares under 1 %.
    """
    return _read("fig3_op_type_percent.csv").set_index("workload").astype(float)


def gpu_efficiency() -> pd.DataFrame:
    """Returns Table 1 of the Minsky paper by workload, on one P100, without speech.

    Returns:
        ``kernels_over_api``, time in kernels over time in API calls; ``memcpy_share``, time in
        copies over time in kernels, from 0 to 1.
    """
    table = _read("minsky_table1_gpu_efficiency.csv").set_index("workload")
    table.columns = ["kernels_over_api", "memcpy_share"]
    return table.assign(memcpy_share=table.memcpy_share / 100)


def sections() -> pd.DataFrame:
    """Returns Table 2 of the Minsky paper by workload and device, without speech.

    Returns:
        the times of ``init``, ``setup``, ``run``, ``main`` and ``wall`` over the workload's wall
        time on the CPU alone. The devices are ``cpu`` and ``gpu`` (CPU and GPU together).
    """
    table = _read("minsky_table2_sections.csv").replace({"device": {"cpu+gpu": "gpu"}})
    return table.set_index(["workload", "device"])


def _read(name: str) -> pd.DataFrame:
    with (importlib.resources.files(__package__) / name).open() as file:
        return pd.read_csv(file, float_precision="round_trip")
