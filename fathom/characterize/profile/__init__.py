"""Where the time of one workload's steps goes: traces, op types, layers, profiles."""
