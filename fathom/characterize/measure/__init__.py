"""Measuring many runs, each in a process of its own, into one folder."""
