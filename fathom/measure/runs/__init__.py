"""Measuring many runs, each in a separate process, into one results directory."""
