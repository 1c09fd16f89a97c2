"""The work of a step, in which no machine takes part, and models of machines that do it."""
