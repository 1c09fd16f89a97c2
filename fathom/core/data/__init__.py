"""Finding, fetching, verifying, synthesizing and loading data sets."""

from fathom.core.data.dataset import DataSet, DataSource, RemoteFile, choose, find, locate

__all__ = ["DataSet", "DataSource", "RemoteFile", "choose", "find", "locate"]
