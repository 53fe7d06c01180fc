"""Analytical SQL on compressed tables that are skipped before they are read.

    >>> import pelton
    >>> con = pelton.connect()
    >>> con.sql("SELECT 6 * 7 AS answer")
    ┌────────┐
    │ answer │
    │  int64 │
    ├────────┤
    │     42 │
    └────────┘

`connect` opens a directory of tables, or none; `Connection.sql` gives a `Result`, which runs when its rows are asked
for: as a `pyarrow.Table`, as a Polars or pandas frame, or by anything else that takes an Arrow stream.
"""

from pelton import _folders as _folders  # first: the native half loads libraries from what it finds
from pelton._connection import Connection, LoadReport, connect
from pelton._errors import (
    CancelledError,
    CorruptError,
    DeviceLostError,
    Error,
    InvalidInputError,
    IoError,
    OutOfMemoryError,
    UnsupportedError,
)
from pelton._explanation import Explanation
from pelton._machine import doctor, topology
from pelton._native import __version__
from pelton._result import Batches, Result

__all__ = [
    "Batches",
    "CancelledError",
    "Connection",
    "CorruptError",
    "DeviceLostError",
    "Error",
    "Explanation",
    "InvalidInputError",
    "IoError",
    "LoadReport",
    "OutOfMemoryError",
    "Result",
    "UnsupportedError",
    "__version__",
    "connect",
    "doctor",
    "topology",
]
