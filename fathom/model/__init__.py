"""The parts of a model: what a workload defines, and the values that building and setup give."""
