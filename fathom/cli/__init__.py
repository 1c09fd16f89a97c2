"""The command line: parsers, the run of a workload, the suite runner, data sets, the terminal."""
