"""The conformance suite: ``python -m fathom.testing NAME`` runs it on a workload."""

import contextlib

with contextlib.suppress(ImportError):  # a workload's descriptor can be read without pytest
    import pytest

    pytest.register_assert_rewrite("fathom.testing.conformance", "fathom.testing.computations")
