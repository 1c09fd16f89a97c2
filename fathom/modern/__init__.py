"""Today's workloads, registered by entry points as those of any other package."""
