"""Rows that other libraries hold, as Arrow."""

from __future__ import annotations

from typing import Any, Protocol

from pelton._errors import InvalidInputError


class ArrowStream(Protocol):
    """Whatever exports its rows by Arrow's PyCapsule interface: tables and readers of pyarrow, frames of Polars and
    pandas, relations of DuckDB, results of Pelton."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows."""


def exporter(rows: Any) -> Any:
    """An object that exports `rows`: itself, or, for a pandas frame that cannot, a `pyarrow.Table`."""
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        return rows
    kind = f"{type(rows).__module__.partition('.')[0]}.{type(rows).__qualname__}"
    if kind == "pandas.DataFrame":
        import pyarrow

        return pyarrow.Table.from_pandas(rows)
    if kind == "polars.LazyFrame":
        raise InvalidInputError("a LazyFrame has no rows yet: pass frame.collect()")
    raise InvalidInputError(
        f"{kind} holds no Arrow rows: pass a pyarrow.Table, a Polars or pandas frame, a DuckDB relation, or any other "
        "object with __arrow_c_stream__"
    )

