"""The memory accesses of a step: from its traced graph, or from a bare program."""
