"""Inference under load: MLPerf's LoadGen sends queries to a server with dynamic batching.

``engine`` runs batches of any size, ``server`` forms them from waiting queries, ``scenarios`` runs
LoadGen, ``search`` finds the highest rate that meets a bound on the latency.
"""
