"""The conformance suite on the eight workloads and on those of ``fathom.modern``."""

from fathom import workloads
from fathom.testing.conformance import *  # noqa: F403

WORKLOADS = workloads.select("eight,modern")
