"""Inference under load, and over HTTP.

``engine`` runs batches of samples and ``server`` forms them from waiting queries; of networks that
write text, ``decoding`` runs steps with a cache in blocks (``paged``), and ``generation`` lets
queries join between them. ``loadgen`` and ``replay`` send queries, ``arrivals`` says when,
``queries`` keeps their log, and ``endpoint`` takes them elsewhere; ``scenarios`` and ``search`` are
the load test. ``http`` answers over a network.
"""
