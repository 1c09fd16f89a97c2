"""Op profiles of one workload: traces, op types, layers."""
