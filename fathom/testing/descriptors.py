"""Workloads as the conformance suite tests them: their descriptors, with quick models."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fathom import options, workloads
from fathom.model.descriptor import Descriptor

if TYPE_CHECKING:
    from fathom.nn import NeuralNetworkModel


class Tested(Descriptor):
    """A workload's descriptor, and its models."""

    def model(self, forward_only: bool = False, **options: object) -> "NeuralNetworkModel":
        """Returns the quick variant of the model, not yet set up."""
        return self.model_class(forward_only)("cpu", {**self.small, **options})

    def ready(
        self,
        forward_only: bool = False,
        setup: Mapping[str, object] | None = None,
        **options: object,
    ) -> "NeuralNetworkModel":
        """Returns the quick variant of the model, set up."""
        model = self.model(forward_only, **options)
        model.setup(setup)
        return model

    def model_class(self, forward_only: bool = False) -> "type[NeuralNetworkModel]":
        """Returns the workload's class or its forward-only twin."""
        return workloads.load(self.name, forward_only)

    def has_option(self, name: str) -> bool:
        """Says whether ``--set`` takes an option of this name."""
        model_class = self.model_class()
        return name in options.field_names(model_class.Hyperparameters, model_class.RunOptions)

    def arguments(self) -> list[str]:
        """Returns the command line that makes a step quick."""
        return [f"--set={name}={value}" for name, value in self.small.items()]


def descriptor(name: str) -> Tested:
    """Returns a workload's descriptor.

    Raises:
        FathomError: there is no such workload, or it has no ``DESCRIPTOR``.
    """
    found = workloads.descriptor(name)
    return Tested(**{each.name: getattr(found, each.name) for each in dataclasses.fields(found)})
