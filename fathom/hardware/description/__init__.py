"""Describes the work of a step: its operations, their bounds, arithmetic and traffic."""
