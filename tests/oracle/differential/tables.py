"""The random tables of a round: `w` with the extremes of every type, `a` and `b` with small values that meet each other.

```text
    w    32 rows   extremes, NULL, NaN, infinities, -0.0        expressions, one at a time
    a   160 rows   few distinct values, one NULL in six         statements: a, b or both, stored as tables,
    b    48 rows   the same columns                             as Parquet (`a_parquet`) and as CSV (`a_csv`) in place
```
"""

import datetime as dt
from decimal import Decimal
from math import inf, nan

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

TYPES = {
    "i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64(), "u32": pa.uint32(), "u64": pa.uint64(),
    "f32": pa.float32(), "f64": pa.float64(),
    "d9": pa.decimal128(9, 2), "d18": pa.decimal128(18, 4), "d38": pa.decimal128(38, 10),
    "text": pa.string(), "bool": pa.bool_(), "date": pa.date32(), "ts": pa.timestamp("us"), "tn": pa.timestamp("ns"),
}  # fmt: skip

# The names of the types in SQL, the same in both engines unless a pair says otherwise: (Pelton, DuckDB).
SQL = {
    "i8": "TINYINT", "i16": "SMALLINT", "i32": "INTEGER", "i64": "BIGINT",
    "u32": ("INTEGER UNSIGNED", "UINTEGER"), "u64": ("BIGINT UNSIGNED", "UBIGINT"),
    "f32": "REAL", "f64": "DOUBLE",
    "d9": "DECIMAL(9,2)", "d18": "DECIMAL(18,4)", "d38": "DECIMAL(38,10)",
    "text": "VARCHAR", "bool": "BOOLEAN", "date": "DATE",
    "ts": ("TIMESTAMP(6)", "TIMESTAMP"), "tn": ("TIMESTAMP(9)", "TIMESTAMP_NS"),
}  # fmt: skip


def integers(bits):
    top = 2 ** (bits - 1)
    return [-top, -top + 1, -7, -2, -1, 0, 1, 2, 3, 10, top - 1, top - 2]


WILD = {
    "i8": integers(8), "i16": integers(16), "i32": integers(32), "i64": integers(64),
    "u32": [0, 1, 2, 7, 2**32 - 1], "u64": [0, 1, 2, 7, 2**63, 2**64 - 1],
    "f32": [0.0, -0.0, 1.0, -1.5, 0.1, 3.4e38, 1e-38, nan, inf, -inf, 16777216.0],
    "f64": [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.1, 1e15, 1e300, -1e300, 5e-324, nan, inf, -inf],
    "d9": ["0", "0.01", "-0.01", "1.25", "-1.25", "0.50", "2.50", "9999999.99", "-9999999.99"],
    "d18": ["0", "0.0001", "-0.5", "1.5", "2.5", "-2.5", "99999999999999.9999", "-99999999999999.9999"],
    "d38": ["0", "1e-10", "-2.5", "3.5", "123456789.0123456789", "9" * 28 + "." + "9" * 10, "-" + "9" * 28],
    "text": ["", "a", "A", "b", "ab", "Ab ", " x", "a_b", "a%b", "it's", "äö", "日本", "😀", "12", "-3", "1.5", "true",
             "2020-02-29", "NaN", "z" * 40],
    "bool": [True, False],
    "date": ["1000-01-01", "1969-12-31", "1970-01-01", "2000-02-29", "2023-12-31", "2024-01-01", "9999-12-31"],
    "ts": ["1700-01-01 00:00:00", "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2000-02-29 12:34:56.789012",
           "2024-03-31 01:59:59", "2262-01-01 00:00:00"],
    "tn": ["1700-01-01 00:00:00", "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2000-02-29 12:34:56.789012",
           "2262-01-01 00:00:00"],
}  # fmt: skip

TAME = {
    "i8": list(range(-4, 5)), "i16": list(range(-9, 10)), "i32": list(range(0, 12)), "i64": [*range(-5, 30), 1000],
    "u32": list(range(8)), "u64": list(range(8)),
    # Quarters: their sums are exact in any order.
    "f32": [0.0, -0.0, 0.25, 1.5, -2.0, 3.75], "f64": [0.0, -0.0, 0.25, 1.5, -2.0, 3.75, 100.0],
    "d9": ["0", "0.05", "0.06", "0.07", "1.25", "-1.25", "2.50", "7.00"],
    "d18": ["0", "0.0001", "0.0500", "0.0700", "1.5", "-2.5", "7"],
    "d38": ["0", "1e-10", "0.05", "-2.5", "7"],
    "text": ["a", "A", "b", "ab", "abc", "b c", "x_y", "x%y", "it's", "äö", "日本", "zz"],
    "bool": [True, False],
    "date": ["1992-01-01", "1998-12-31", "2000-02-29", "2020-02-29", "2020-03-01", "2021-01-31"],
    "ts": ["1992-01-01 00:00:00", "2000-02-29 12:34:56.789", "2020-03-01 00:00:00", "2021-01-31 23:59:59.999999"],
    "tn": ["1992-01-01 00:00:00", "2000-02-29 12:34:56.789", "2020-03-01 00:00:00", "2021-01-31 23:59:59.999999"],
}  # fmt: skip


def value(kind, item):
    if kind.startswith("d") and kind != "date":
        return Decimal(item)
    if kind == "date":
        return dt.date.fromisoformat(item)
    if kind in ("ts", "tn"):
        return dt.datetime.fromisoformat(item)
    return item


def table(random, row_count, pools, null_share):
    """`id`, which is unique and never NULL, and a column `c_TYPE` of every type."""
    columns = {"id": pa.array(range(row_count), pa.int32())}
    for kind, data_type in TYPES.items():
        pool = [value(kind, item) for item in pools[kind]]
        items = [None if random.random() < null_share else random.choice(pool) for _ in range(row_count)]
        columns[f"c_{kind}"] = pa.array(items, data_type)
    return pa.table(columns)


def extremes(random):
    """Every value of `WILD` at least once, beside random others and NULL."""
    row_count = max(len(pool) for pool in WILD.values()) + 11
    columns = {"id": pa.array(range(row_count), pa.int32())}
    for kind, data_type in TYPES.items():
        pool = [value(kind, item) for item in WILD[kind]]
        items = pool + [None if random.random() < 0.2 else random.choice(pool) for _ in range(row_count - len(pool))]
        random.shuffle(items)
        columns[f"c_{kind}"] = pa.array(items, data_type)
    return pa.table(columns)


def make(random):
    return {
        "w": extremes(random),
        "a": table(random, 160, TAME, random.choice([0.0, 0.15, 0.3])),
        "b": table(random, 48, TAME, random.choice([0.0, 0.15, 0.3])),
    }


def give_to_duckdb(duckdb, tables):
    for name, rows in tables.items():
        duckdb.connection.register("incoming", rows)
        duckdb.connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM incoming")
        duckdb.connection.unregister("incoming")


def store(connection, tables):
    """As tables of the warehouse, in row groups so small that many can be skipped."""
    for name, rows in tables.items():
        connection.load(name, rows, row_group_rows=16, page_rows=1024, threads=1)


def show_in_place(connection, tables, folder):
    """`a` and `b` as files, under views that give each column its type."""
    for name in ("a", "b"):
        rows = tables[name]
        pa.parquet.write_table(rows, folder / f"{name}.parquet", row_group_size=32)
        # The date and time columns of CSV as PyArrow writes them; floats by their shortest form.
        pa.csv.write_csv(rows, folder / f"{name}.csv")
        casts = [f"CAST(c_{kind} AS {pelton_name(kind)}) AS c_{kind}" for kind in TYPES]
        columns = ", ".join(["CAST(id AS INTEGER) AS id", *casts])
        connection.sql(f"CREATE OR REPLACE VIEW {name}_parquet AS SELECT * FROM '{folder / name}.parquet'")
        connection.sql(f"CREATE OR REPLACE VIEW {name}_csv AS SELECT {columns} FROM '{folder / name}.csv'")


def pelton_name(kind):
    return SQL[kind] if isinstance(SQL[kind], str) else SQL[kind][0]


def duckdb_name(kind):
    return SQL[kind] if isinstance(SQL[kind], str) else SQL[kind][1]
