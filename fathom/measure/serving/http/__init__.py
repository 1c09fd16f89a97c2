"""Inference over HTTP: ``completions`` of text in OpenAI's form, ``kserve`` for tensors.

``application`` has what both share: limits, errors in one line, and the end.
"""
