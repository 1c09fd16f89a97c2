"""Figures, tables, comparisons and a report page from result files."""
