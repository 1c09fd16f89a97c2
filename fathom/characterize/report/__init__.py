"""From the result files of a folder to figures, tables, comparisons and one page."""
