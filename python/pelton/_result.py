"""What a statement gives: rows that come when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pelton import _progress, _table
from pelton._explanation import Explanation

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from pelton import _native


class Result:
    """A query that was planned and not yet run.

    Each of `arrow`, `to_pandas`, `to_polars`, `fetch_batches` and `explain(analyze=True)`, and each look at it in a
    prompt, runs it, over the tables as they are then. A statement that changes something (`CREATE VIEW`, `COPY`,
    `INSERT`) has run when `Connection.sql` returns.

    It is an Arrow stream to any library that takes one, without a copy:

    >>> import pelton, pyarrow
    >>> numbers = pelton.connect().sql("SELECT * FROM generate_series(1, 3) AS t(n)")
    >>> pyarrow.table(numbers).column("n").to_pylist()
    [1, 2, 3]
    """

    def __init__(self, query: _native.Query, progress: bool | None) -> None:
        self._query = query
        self._progress = progress

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._query.columns

    @property
    def schema(self) -> pyarrow.Schema:
        """Names and types of the columns."""
        import pyarrow

        return pyarrow.schema(self._query)

    def arrow(self) -> pyarrow.Table:
        """All rows as a `pyarrow.Table`, which shares the memory that the query wrote them to.

        Text comes as `string_view`, as Pelton and DataFusion compute with it; `cast` makes it what older code expects.

        >>> import pelton
        >>> pelton.connect().sql("SELECT 1 AS a, 'x' AS b").arrow().to_pylist()
        [{'a': 1, 'b': 'x'}]
        """
        import pyarrow

        return pyarrow.table(self._collect())

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """All rows as a pandas frame; `options` are those of `pyarrow.Table.to_pandas`."""
        return self.arrow().to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """All rows as a Polars frame."""
        import polars

        return polars.DataFrame(self._collect())

    def fetch_batches(self) -> Batches:
        """The rows batch by batch, a few of them ahead of the reader; the whole result is never held.

        >>> import pelton
        >>> sum(batch.num_rows for batch in pelton.connect().sql("SELECT * FROM range(100000)").fetch_batches())
        100000
        """
        return Batches(self._query.stream())

    def explain(self, analyze: bool = False) -> Explanation:
        """How the query is run. With `analyze` it is run, and the plan says what each operator took.

        >>> import pelton
        >>> plan = pelton.connect().sql("SELECT 1 AS a").explain()
        >>> plan.to_dict()["plan"]["name"]
        'ProjectionExec'
        """
        with _progress.shown(self._progress if analyze else False) as display:
            sections, plan = self._query.explain(analyze, display)
        return Explanation(sections, plan, analyze)

    def show(self, rows: int = _table.ROWS_SHOWN) -> None:
        """Prints the first rows.

        >>> import pelton
        >>> pelton.connect().sql("SELECT * FROM range(1000) AS t(n)").show(2)
        ┌───────┐
        │     n │
        │ int64 │
        ├───────┤
        │     0 │
        │     1 │
        └───────┘
        the first 2 rows; there are more
        """
        print(self._text(rows))

    def _collect(self) -> _native.Rows:
        with _progress.shown(self._progress) as display:
            return self._query.collect(display)

    def _text(self, rows: int) -> str:
        if self._query.is_explanation:
            titled = self.arrow().to_pylist()
            return "\n".join(f"── {row['plan_type']}\n{row['plan']}" for row in titled)
        return _table.text(self._preview(rows))

    def _preview(self, rows: int = _table.ROWS_SHOWN) -> _table.Preview:
        with _progress.shown(self._progress) as display:
            return self._query.preview(rows, display)

    def __repr__(self) -> str:
        return self._text(_table.ROWS_SHOWN)

    def _repr_html_(self) -> str | None:
        return None if self._query.is_explanation else _table.as_html(self._preview())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Both forms from one run, for notebooks, which ask for both."""
        if self._query.is_explanation:
            return {"text/plain": repr(self)}
        preview = self._preview()
        return {"text/plain": _table.text(preview), "text/html": _table.as_html(preview)}

    def __arrow_c_schema__(self) -> object:
        """The columns, for libraries that read Arrow."""
        return self._query.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, for libraries that read Arrow; batch by batch, as they are computed."""
        return self._query.stream().__arrow_c_stream__(requested_schema)


class Batches(Iterator["pyarrow.RecordBatch"]):
    """Batches of a running query, each a `pyarrow.RecordBatch`. Dropping it, or leaving a `with` over it, cancels."""

    def __init__(self, stream: _native.Batches) -> None:
        self._stream = stream

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> pyarrow.RecordBatch:
        return self._stream.__next__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The batches that are left, for libraries that read Arrow."""
        return self._stream.__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Cancels the query; nothing comes after."""
        self._stream.close()

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
