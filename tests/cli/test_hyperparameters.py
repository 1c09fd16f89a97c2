import dataclasses
import io

import pytest
from commands import run
from rich.console import Console

from fathom import workloads
from fathom.cli import hyperparameters
from fathom.cli.run import run_workload
from fathom.options import Hyperparameters


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("workload", workloads.names())
def test_every_option_is_documented_in_a_table_that_loses_nothing(workload, width):
    model_class = workloads.load(workload)
    console = Console(file=io.StringIO(), width=width)
    for table in hyperparameters.tables(model_class):
        console.print(table)
    printed = "".join(console.file.getvalue().split())
    assert "…" not in printed
    for field in (
        *dataclasses.fields(model_class.Hyperparameters),
        *dataclasses.fields(model_class.RunOptions),
    ):
        assert field.metadata["about"]
        assert field.name in printed or width == 80  # where it is folded into two lines


def test_a_field_with_a_plain_default_has_a_row():
    @dataclasses.dataclass(frozen=True)
    class Plain(Hyperparameters):
        batch_size: int = 50

    console = Console(file=io.StringIO(), width=80)
    console.print(hyperparameters._table("hyperparameter", Plain))
    assert "batch_size" in console.file.getvalue()


def test_help_after_set_needs_no_data_and_prints_defaults_limits_units_and_sources(
    capsys, monkeypatch
):
    monkeypatch.setenv("FATHOM_DATA_DIR", "/no/such/folder")
    assert run(run_workload, "autoenc", ["--set", "help"]) == 0
    rows = {
        line.split()[0]: " ".join(line.split()) for line in capsys.readouterr().out.splitlines()
    }
    assert rows["latents"] == "latents 20 whole number >= 1 dimensions of z one of figure 2's"
    assert rows["batch_size"].endswith("images M, per step section 5")
    assert rows["optimizer"].startswith("optimizer adam sgd, momentum, nesterov")
    assert rows["binarize"].startswith("binarize true true or false ")
