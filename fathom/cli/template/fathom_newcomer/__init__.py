"""The newcomer workload."""
