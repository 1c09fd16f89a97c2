"""Finding, fetching, verifying, synthesizing and feeding data sets: one road for all."""

from fathom.data.dataset import DataSet, DataSource, RemoteFile, find, locate

__all__ = ["DataSet", "DataSource", "RemoteFile", "find", "locate"]
