"""Results of runs and profiles, and FLOP and MAC counts from the architecture."""
