"""Results of runs and profiles, and work that is counted from the architecture."""
