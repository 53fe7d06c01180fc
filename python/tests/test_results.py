"""Rows on their way to Python, in every form."""

from pathlib import Path

import duckdb
import pandas
import pelton
import polars
import pyarrow
import pyarrow.parquet
import pytest
from conftest import TRIP_COUNT, trips

COUNTS = "SELECT payment, count(*) AS trips, count(tip) AS tips FROM trips GROUP BY payment ORDER BY payment"
EXPECTED = [
    {"payment": "card", "trips": 33333, "tips": 28571},
    {"payment": "cash", "trips": 16667, "tips": 14286},
]


def test_every_form_has_the_same_rows(con: pelton.Connection) -> None:
    result = con.sql(COUNTS)
    assert result.arrow().to_pylist() == EXPECTED
    assert result.to_polars().to_dicts() == EXPECTED
    assert result.to_pandas().to_dict("records") == EXPECTED
    assert [row for batch in result.fetch_batches() for row in batch.to_pylist()] == EXPECTED


def test_a_result_is_an_arrow_stream_for_any_library(con: pelton.Connection) -> None:
    result = con.sql(COUNTS)
    assert pyarrow.table(result).to_pylist() == EXPECTED
    assert pyarrow.RecordBatchReader.from_stream(result).read_all().to_pylist() == EXPECTED
    assert polars.DataFrame(result).to_dicts() == EXPECTED
    rows = duckdb.connect().execute("SELECT * FROM result").fetchall()
    assert rows == [tuple(row.values()) for row in EXPECTED]
    assert pyarrow.schema(result).names == ["payment", "trips", "tips"]


def test_a_consumer_may_ask_for_other_types(memory: pelton.Connection) -> None:
    wanted = pyarrow.schema([("a", pyarrow.int32()), ("b", pyarrow.string())])
    result = memory.sql("SELECT 1::BIGINT AS a, arrow_cast('x', 'Utf8View') AS b")
    reader = pyarrow.RecordBatchReader.from_stream(result, schema=wanted)
    assert reader.read_all().schema.types == wanted.types


def test_all_rows_come_whole_and_in_batches(con: pelton.Connection) -> None:
    result = con.sql("SELECT * FROM trips ORDER BY distance, tip, payment")
    table = result.arrow()
    assert table.num_rows == TRIP_COUNT
    assert table.equals(pyarrow.Table.from_batches(result.fetch_batches(), table.schema))
    ordered = trips().sort_by([("distance", "ascending"), ("tip", "ascending"), ("payment", "ascending")])
    assert table["tip"].to_pylist() == ordered["tip"].to_pylist()


def test_a_result_is_lazy_and_sees_the_tables_of_when_it_runs(tmp_path: Path) -> None:
    with pelton.connect(tmp_path) as con:
        con.load("t", pyarrow.table({"a": [1]}))
        count = con.sql("SELECT count(*) AS n FROM t")
        assert count.arrow().to_pylist() == [{"n": 1}]
        con.load("t", pyarrow.table({"a": [2, 3]}), mode="append")
        assert count.arrow().to_pylist() == [{"n": 3}]


def test_empty_results_keep_their_columns(con: pelton.Connection) -> None:
    result = con.sql("SELECT distance, payment FROM trips WHERE distance < 0")
    assert result.columns == ["distance", "payment"] == result.schema.names
    assert result.arrow().num_rows == 0
    assert result.arrow().schema.names == ["distance", "payment"]
    assert result.to_polars().shape == (0, 2)
    assert list(result.to_pandas().columns) == ["distance", "payment"]


def test_statements_run_in_order_and_those_that_change_something_at_once(
    memory: pelton.Connection, tmp_path: Path
) -> None:
    path = tmp_path / "numbers.parquet"
    memory.sql(f"CREATE VIEW v AS SELECT value AS n FROM range(5); COPY (SELECT * FROM v) TO '{path}'")
    assert pyarrow.parquet.read_table(path).num_rows == 5
    assert memory.sql(f"SELECT 1; SELECT sum(n) AS s FROM '{path}'").arrow().to_pylist() == [{"s": 10}]


def test_types_survive_the_way(memory: pelton.Connection) -> None:
    row = memory.sql(
        "SELECT 1.25::DECIMAL(10,2) AS d, DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 12:00:00' AS t,"
        " true AS b, NULL::INT AS n, 'é' AS s, arrow_cast(X'00ff', 'Binary') AS raw"
    ).arrow().to_pylist()[0]
    assert str(row["d"]) == "1.25"
    assert row["day"].isoformat() == "2024-02-29"
    assert row["t"].hour == 12
    assert (row["b"], row["n"], row["s"], row["raw"]) == (True, None, "é", b"\x00\xff")


def test_text_that_comes_as_views_can_be_computed_with(con: pelton.Connection) -> None:
    table = con.sql("SELECT payment FROM trips LIMIT 3").arrow()
    assert table.cast(pyarrow.schema([("payment", pyarrow.string())])).num_rows == 3
    frame = con.sql("SELECT payment FROM trips").to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert set(frame["payment"]) == {"card", "cash"}


@pytest.mark.parametrize("threads", [1, 4])
def test_options_do_not_change_answers(warehouse: Path, threads: int) -> None:
    options = {"threads": threads, "memory_limit": "256MiB", "batch_rows": 100, "io": "buffered", "skip": "none"}
    with pelton.connect(warehouse, **options, io_uring=False, join_order=False, device="cpu") as con:  # type: ignore[arg-type]
        assert con.sql(COUNTS).arrow().to_pylist() == EXPECTED
