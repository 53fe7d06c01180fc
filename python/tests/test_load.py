"""Tables: loading them, listing them, looking into them."""

from pathlib import Path

import pelton
import polars
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from conftest import TRIP_COUNT, trips


def test_files_by_name_list_glob_and_path_object(tmp_path: Path) -> None:
    for part in range(3):
        pyarrow.csv.write_csv(pyarrow.table({"a": [part, part + 10]}), tmp_path / f"part-{part}.csv")
    with pelton.connect(tmp_path / "warehouse") as con:
        files: list[str | Path] = [tmp_path / "part-0.csv", str(tmp_path / "part-1.csv")]
        assert con.load("listed", files).row_count == 4
        assert con.load("globbed", f"{tmp_path}/part-*.csv").row_count == 6
        assert con.load("one", tmp_path / "part-2.csv").row_count == 2
        assert [table["table"] for table in con.tables()] == ["globbed", "listed", "one"]
        con.drop("one")
        assert [table["table"] for table in con.tables()] == ["globbed", "listed"]


def test_rows_of_other_libraries_are_loaded_as_files_are(tmp_path: Path) -> None:
    with pelton.connect(tmp_path) as con:
        con.load("arrow", trips())
        con.load("polars", polars.DataFrame(trips()))
        con.load("query", con.sql("SELECT * FROM arrow"))
        sums = "SELECT sum(distance) AS d, sum(tip) AS t, count(tip) AS n FROM "
        expected = con.sql(sums + "arrow").arrow().to_pylist()
        for table in ["polars", "query"]:
            assert con.sql(sums + table).arrow().to_pylist() == expected


def test_a_table_is_made_added_to_or_replaced_as_asked(tmp_path: Path) -> None:
    rows = pyarrow.table({"a": [1, 2, 3]})
    with pelton.connect(tmp_path) as con:
        count = con.load("t", rows).row_count
        with pytest.raises(pelton.InvalidInputError, match="'t'"):
            con.load("t", rows)
        con.load("t", rows, mode="append")
        assert con.sql("SELECT count(*) AS n FROM t").arrow().to_pylist() == [{"n": 2 * count}]
        con.load("t", rows, mode="replace")
        assert con.sql("SELECT count(*) AS n FROM t").arrow().to_pylist() == [{"n": count}]


def test_options_of_a_load_reach_it(tmp_path: Path) -> None:
    path = tmp_path / "points.txt"
    path.write_text("1|a\n2|-\n3|c\n")
    with pelton.connect(tmp_path / "warehouse") as con:
        con.load("points", path, format="csv", delimiter="|", header=False, null="-", force_codec="zstd")
        rows = con.sql("SELECT * FROM points").arrow()
        assert rows.num_rows == 3
        assert rows.column(1).null_count == 1
        report = con.load("sorted", trips(), cluster_by="payment,distance", row_group_rows=4096, threads=1)
        assert report.cluster_by == ["payment", "distance"]
        assert report.row_group_count == -(-TRIP_COUNT // 4096)
        con.load("payments", pyarrow.table({"kind": ["card", "cash"], "fee": [1, 0]}))
        con.load("linked", trips(), star=["payment=payments.kind"], cluster_by="payments.fee", row_group_rows=4096)
        (attribute,) = [one for one in con.inspect("linked")["sideways"] if one["attribute"] == "fee"]
        assert attribute["through"] == ["payment = payments.kind"]
        for options, message in [
            ({"mode": "upsert"}, "'upsert'"),
            ({"objective": "nicest"}, "'nicest'"),
            ({"purpose": "tape"}, "'tape'"),
        ]:
            with pytest.raises(pelton.InvalidInputError, match=message):
                con.load("t", trips(), **options)  # type: ignore[arg-type]


def test_a_mistake_in_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n" + "1,2\n" * 2000 + "1,2,3\n")
    with pelton.connect(tmp_path / "warehouse") as con:
        with pytest.raises(pelton.InvalidInputError, match=r"loading 't': .*bad\.csv.*2002"):
            con.load("t", tmp_path / "bad.csv")
        assert con.tables() == []


def test_tables_and_columns_are_described(con: pelton.Connection) -> None:
    (sizes,) = con.tables()
    assert (sizes["table"], sizes["rows"], sizes["columns"]) == ("trips", TRIP_COUNT, 3)
    assert 0 < sizes["stored_bytes"] < sizes["raw_bytes"]
    table = con.inspect("trips")
    columns = {column["column"]: column for column in table["columns"]}
    assert (columns["distance"]["min"], columns["distance"]["max"]) == (0, 499)
    assert columns["tip"]["nulls"] == -(-TRIP_COUNT // 7)
    assert columns["payment"]["distinct"] == 2
    assert columns["payment"]["encoding"] == columns["payment"]["tried"][0]["encoding"]
    with pytest.raises(pelton.InvalidInputError, match="it has trips"):
        con.inspect("tripz")


def test_bounds_read_as_values_of_their_type(tmp_path: Path) -> None:
    with pelton.connect(tmp_path) as con:
        con.load(
            "t",
            con.sql(
                "SELECT DATE '2024-02-29' AS day, 1.50::DECIMAL(10,2) AS price, true AS ok,"
                " TIMESTAMP '2024-02-29 12:00:00' AS at, 0.5::DOUBLE AS f, 'text' AS s"
            ),
        )
        bounds = {column["column"]: column["min"] for column in con.inspect("t")["columns"]}
    assert bounds.pop("at").startswith("2024-02-29T12:00:00")
    assert bounds == {"day": "2024-02-29", "price": "1.50", "ok": True, "f": 0.5, "s": "text"}
