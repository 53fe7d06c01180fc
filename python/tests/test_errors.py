"""Errors: a class for each kind, with the command's message."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pelton
import pyarrow
import pytest

KINDS = {
    pelton.InvalidInputError: ValueError,
    pelton.UnsupportedError: NotImplementedError,
    pelton.OutOfMemoryError: MemoryError,
    pelton.IoError: OSError,
    pelton.CancelledError: pelton.Error,
    pelton.CorruptError: pelton.Error,
    pelton.DeviceLostError: pelton.Error,
}


def test_every_kind_is_an_error_of_the_package_and_of_its_python_kin() -> None:
    for kind, kin in KINDS.items():
        assert issubclass(kind, pelton.Error)
        assert issubclass(kind, kin)


def test_a_mistake_in_a_query_names_what_there_is(con: pelton.Connection) -> None:
    with pytest.raises(pelton.InvalidInputError, match=r"tables in this warehouse: trips\n  1 \|"):
        con.sql("SELECT * FROM tripz")
    with pytest.raises(pelton.InvalidInputError, match="the query is empty"):
        con.sql(" ; ")
    with pytest.raises(ValueError, match="distanze"):
        con.sql("SELECT distanze FROM trips")


def test_a_failure_while_rows_come_is_raised_in_every_form(memory: pelton.Connection) -> None:
    result = memory.sql("SELECT 1 / (value - 5000) AS x FROM range(10000)")
    forms: list[Callable[[], object]] = [
        result.arrow,
        result.to_polars,
        result.to_pandas,
        lambda: list(result.fetch_batches()),
    ]
    for form in forms:
        with pytest.raises(pelton.Error, match="(?i)divide by zero"):
            form()
    with pytest.raises(Exception, match="(?i)divide by zero"):
        pyarrow.table(result)


def test_exhausted_memory_says_which_and_names_the_option() -> None:
    with pelton.connect(memory_limit="1MB", threads=1) as con:
        query = con.sql("SELECT value, count(*) AS n FROM range(3000000) GROUP BY value ORDER BY n LIMIT 1")
        big = con.sql("SELECT array_agg(value) AS all FROM range(3000000)")
        assert query.arrow().num_rows == 1
        with pytest.raises(pelton.OutOfMemoryError, match="memory.limit") as raised:
            big.arrow()
    assert raised.value.tier == "host memory"
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (str(copy), copy.tier) == (str(raised.value), raised.value.tier)


def test_a_damaged_file_is_corrupt(tmp_path: Path) -> None:
    with pelton.connect(tmp_path) as con:
        con.load("t", pyarrow.table({"a": list(range(10_000))}))
    (data,) = (tmp_path / "t").glob("data-*.pel")
    content = bytearray(data.read_bytes())
    content[4096 + 100] ^= 0xFF
    data.write_bytes(content)
    with pelton.connect(tmp_path) as con, pytest.raises(pelton.CorruptError, match="checksum"):
        con.sql("SELECT sum(a) FROM t").arrow()


def test_options_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for options, message in [
        ({"threads": 0}, "from 1 to 1024"),
        ({"threads": 1_000_000}, "from 1 to 1024"),
        ({"batch_rows": 0}, "at least 1"),
        ({"memory_limit": "4 parsecs"}, "unknown unit"),
        ({"io": "fast"}, "'auto', 'direct' or 'buffered'"),
        ({"device": "abacus"}, "abacus"),
        ({"skip": "lines"}, "'lines'"),
    ]:
        with pytest.raises(pelton.InvalidInputError, match=message):
            pelton.connect(**options)  # type: ignore[arg-type]
    (tmp_path / "file").touch()
    with pytest.raises(pelton.Error, match="file"):
        pelton.connect(tmp_path / "file")


def test_what_needs_a_warehouse_says_so(memory: pelton.Connection) -> None:
    calls: list[Callable[[], object]] = [
        memory.tables,
        lambda: memory.inspect("t"),
        lambda: memory.load("t", "a.csv"),
    ]
    for call in calls:
        with pytest.raises(pelton.InvalidInputError, match=r"pelton\.connect\('warehouse'\)"):
            call()


def test_a_closed_connection_says_so(warehouse: Path) -> None:
    con = pelton.connect(warehouse)
    con.close()
    con.close()
    assert repr(con).endswith(", closed>")
    with pytest.raises(pelton.InvalidInputError, match="closed: open another"):
        con.sql("SELECT 1")
