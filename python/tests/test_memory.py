"""Rows on their way from Python: whatever exports Arrow is a table. Nothing is copied that need not be."""

from collections.abc import Iterator
from typing import Any

import duckdb
import pandas
import pelton
import polars
import pyarrow
import pytest

ROWS = {"n": [1, 2, 3], "s": ["a", None, "c"]}
SUM = "SELECT sum(n) AS n, count(s) AS s FROM t"


def address(column: pyarrow.ChunkedArray, chunk: int = 0) -> int:
    """Of the first value of a chunk of fixed-width values."""
    array = column.chunk(chunk)
    buffer: pyarrow.Buffer = array.buffers()[1]
    return int(buffer.address + array.offset * array.type.bit_width // 8)


def test_whatever_exports_arrow_can_be_registered(memory: pelton.Connection) -> None:
    arrow_rows = pyarrow.table(ROWS)
    sources: list[Any] = [
        arrow_rows,
        arrow_rows.to_batches()[0],
        arrow_rows.to_reader(),
        polars.DataFrame(ROWS),
        pandas.DataFrame(ROWS),
        duckdb.sql("SELECT * FROM arrow_rows"),
        memory.sql("SELECT * FROM (VALUES (1, 'a'), (2, NULL), (3, 'c')) AS v(n, s)"),
    ]
    for source in sources:
        memory.register("t", source)
        assert memory.sql(SUM).arrow().to_pylist() == [{"n": 6, "s": 2}], type(source)


def test_a_registered_column_is_selected_without_a_copy(memory: pelton.Connection) -> None:
    table = pyarrow.table({"n": pyarrow.array(range(1_000_000), pyarrow.int64()), "f": [0.5] * 1_000_000})
    memory.register("t", table)
    got = memory.sql("SELECT n FROM t").arrow()
    first = next(chunk for chunk in range(got["n"].num_chunks) if got["n"].chunk(chunk)[0].as_py() == 0)
    assert address(got["n"], first) == address(table["n"])
    begin, end = address(table["n"]), address(table["n"]) + table["n"].nbytes
    addresses = [address(got["n"], chunk) for chunk in range(got["n"].num_chunks)]
    assert all(begin <= place < end for place in addresses)


def test_rows_of_a_result_are_exported_without_a_copy(con: pelton.Connection) -> None:
    rows = con.sql("SELECT distance FROM trips")._collect()
    one, two = pyarrow.table(rows), pyarrow.table(rows)
    chunks = range(one["distance"].num_chunks)
    assert [address(one["distance"], i) for i in chunks] == [address(two["distance"], i) for i in chunks]
    assert len(rows) == one.num_rows == polars.DataFrame(rows).height


def test_registered_rows_outlive_the_object_that_they_came_from(memory: pelton.Connection) -> None:
    memory.register("t", polars.DataFrame({"n": list(range(100_000))}))
    assert memory.sql("SELECT sum(n) AS n FROM t").arrow().to_pylist() == [{"n": 4999950000}]


def test_rows_and_batches_outlive_their_connection() -> None:
    batches = pelton.connect().sql("SELECT value AS n FROM range(100000)").fetch_batches()
    assert sum(batch.num_rows for batch in batches) == 100_000
    with pelton.connect() as con:
        table = con.sql("SELECT value AS n FROM range(1000)").arrow()
        late = con.sql("SELECT 1 AS a")
    assert sum(table["n"].to_pylist()) == 499500
    assert late.arrow().to_pylist() == [{"a": 1}]


def test_a_registered_table_joins_one_of_the_warehouse(con: pelton.Connection) -> None:
    con.register("names", pyarrow.table({"payment": ["cash"], "name": ["coins"]}))
    joined = con.sql("SELECT name, count(*) AS n FROM trips JOIN names USING (payment) GROUP BY name")
    assert joined.arrow().to_pylist() == [{"name": "coins", "n": 16667}]


def test_names_are_found_as_sql_finds_them(memory: pelton.Connection) -> None:
    memory.register("Mixed_Case", pyarrow.table({"a": [1]}))
    memory.register("with space", pyarrow.table({"a": [2]}))
    assert memory.sql("SELECT a FROM MIXED_CASE").arrow().to_pylist() == [{"a": 1}]
    assert memory.sql('SELECT a FROM "with space"').arrow().to_pylist() == [{"a": 2}]
    memory.unregister("mixed_case")
    with pytest.raises(pelton.InvalidInputError, match="not found"):
        memory.sql("SELECT a FROM mixed_case")
    with pytest.raises(pelton.InvalidInputError, match="nothing is registered as 'mixed_case'"):
        memory.unregister("mixed_case")


def test_what_holds_no_arrow_rows_is_refused_with_what_does(memory: pelton.Connection) -> None:
    with pytest.raises(pelton.InvalidInputError, match=r"builtins\.dict holds no Arrow rows: pass a pyarrow\.Table"):
        memory.register("t", {"a": [1]})  # type: ignore[arg-type]
    with pytest.raises(pelton.InvalidInputError, match=r"frame\.collect\(\)"):
        memory.register("t", polars.LazyFrame(ROWS))  # type: ignore[arg-type]


def test_an_error_of_a_stream_that_is_registered_is_raised(memory: pelton.Connection) -> None:
    schema = pyarrow.schema([("a", pyarrow.int64())])

    def batches() -> Iterator[pyarrow.RecordBatch]:
        yield pyarrow.record_batch({"a": [1]}, schema)
        raise RuntimeError("the source broke")

    with pytest.raises(pelton.InvalidInputError, match="the source broke"):
        memory.register("t", pyarrow.RecordBatchReader.from_batches(schema, batches()))
