"""Compares Pelton's answers with DuckDB's on the same data, query by query.

    python compare.py --data DIR --queries DIR --pelton BIN --warehouse DIR [--scale S] [--only Q1 Q2]

1. Every table of the data directory (`TABLE.parquet` or `TABLE/*.parquet`) becomes a view in DuckDB; the
   warehouse holds the same rows.
2. Every `*.sql` file runs on both. Pelton writes its answer as Parquet:
   `BIN sql --warehouse DIR --format parquet --output FILE --file QUERY`.
3. Answers agree when they have the same columns by position, the same rows whatever their order, and the
   same sequence of the keys of the final ORDER BY, so that rows that tie may come in any order.
4. A query with a LIMIT is asked without it too, with the keys of its ORDER BY as columns. Those answers agree
   as above, and the limited one is held against all rows (`limited.py`): which of the rows that tie at its
   end it has is free, all else is not.

Values agree when they are equal: integers, decimals, text, dates and timestamps exactly, NULL with NULL, NaN
with NaN. Where at least one side is a float, 1e-9 relative is allowed; where the other side is a decimal (an
average or a quotient, which DuckDB makes a double and DataFusion a decimal), one unit of its last place.

Prints a line per query, the first differing rows of those that fail, and `N passed, M failed` at the end.
Exits 0 only when nothing failed and something passed.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite, isnan
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

import statement
from limited import compare_limited

RELATIVE_TOLERANCE = 1e-9
DIFFERENCES_SHOWN = 3
# How a query marks a parameter that shrinks as the data grows.
PER_SCALE = "0.0001 /* divided by the scale */"
# How a query marks a count of rows that grows with the data.
TIMES_SCALE = "100000 /* times the scale */"


class QueryFailed(Exception):
    """Pelton did not answer; the text is what it said."""


# ---- the two engines


def open_duckdb(data):
    """A database with a view per table of the data directory."""
    database = duckdb.connect()
    tables = {path.stem: [path] for path in data.glob("*.parquet")}
    tables |= {path.name: sorted(path.glob("*.parquet")) for path in data.iterdir() if path.is_dir()}
    tables = {name: files for name, files in tables.items() if files}
    if not tables:
        sys.exit(f"no Parquet files in {data}; expected TABLE.parquet or TABLE/*.parquet")
    for name, files in tables.items():
        listed = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
        database.execute(f'create view "{name}" as select * from read_parquet([{listed}])')
    return database


def ask_duckdb(database, sql):
    return database.sql(sql).to_arrow_table()


def ask_pelton(binary, warehouse, sql, timeout, device):
    with tempfile.TemporaryDirectory() as folder:
        query, answer = Path(folder, "query.sql"), Path(folder, "answer.parquet")
        query.write_text(sql)
        command = [binary, "sql", "--warehouse", warehouse, "--device", device, "--format", "parquet"]
        command += ["--output", answer, "--file", query]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise QueryFailed(f"no answer after {timeout} s") from None
        if run.returncode != 0:
            raise QueryFailed(run.stderr.strip() or f"exit status {run.returncode}")
        return pq.ParquetFile(answer).read()


# ---- answers


@dataclass
class Column:
    """A column of both answers and how its values are to agree."""

    name: str
    expected: list
    actual: list
    # None: exactly. Otherwise the absolute difference allowed beside the relative one.
    tolerance: float | None

    def agrees(self, expected, actual):
        if expected is None or actual is None:
            return expected is actual
        if self.tolerance is None:
            return expected == actual
        expected, actual = float(expected), float(actual)
        if not isfinite(expected) or not isfinite(actual):
            return expected == actual or (isnan(expected) and isnan(actual))
        allowed = max(self.tolerance, RELATIVE_TOLERANCE * max(abs(expected), abs(actual)))
        return abs(expected - actual) <= allowed


def compare(expected, actual, keys):
    """The differences between two answers as lines of text; none when they agree. `keys` are the columns by
    which they are ordered."""
    if expected.num_columns != actual.num_columns:
        return [f"{expected.num_columns} columns expected, {actual.num_columns} found"]
    if expected.num_rows != actual.num_rows:
        return [f"{expected.num_rows} rows expected, {actual.num_rows} found"]
    mixed = mixed_kinds(expected, actual)
    if mixed or agree_at_once(expected, actual, keys):
        return mixed
    columns = paired(expected, actual)
    return compare_rows(columns) or compare_order([columns[key] for key in keys])


def mixed_kinds(expected, actual):
    """Says which column is of another kind."""
    for field, found in zip(expected.schema, actual.schema):
        if kind(field.type) != kind(found.type):
            return [f"column {field.name} is {field.type} in DuckDB and {found.type} in Pelton"]
    return []


def paired(expected, actual):
    return [
        Column(field.name, plain_values(ours), plain_values(theirs), tolerance(ours.type, theirs.type))
        for field, ours, theirs in zip(expected.schema, expected.columns, actual.columns)
    ]


def agree_at_once(expected, actual, keys):
    """Whether the answers agree, told without a look at single values; False may also mean unknown."""
    try:
        sides = [[normal_form(column) for column in side.columns] for side in (expected, actual)]
    except pa.ArrowException:
        return False
    if any(ours.type != theirs.type for ours, theirs in zip(*sides)):
        return False
    if not all(same_values(sides[0][key], sides[1][key]) for key in keys):
        return False
    ours, theirs = [sorted_columns(side) for side in sides]
    return all(same_values(one, other) for one, other in zip(ours, theirs))


def normal_form(column):
    """The column in the one type that stands for its kind."""
    if kind(column.type) == "text":
        return column.cast(pa.large_string())
    if types.is_date(column.type):
        return column.cast(pa.date32()).cast(pa.timestamp("ns"))
    if types.is_timestamp(column.type):
        return column.cast(pa.int64()).cast(pa.timestamp(column.type.unit)).cast(pa.timestamp("ns"))
    if types.is_floating(column.type):
        return column.cast(pa.float64())
    return column.cast(pa.int64())


def sorted_columns(columns):
    """The columns with their rows in an order of their own, floats deciding last."""
    names = [str(position) for position in range(len(columns))]
    by = sorted(names, key=lambda name: types.is_floating(columns[int(name)].type))
    table = pa.table(columns, names)
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in by])).columns


def same_values(ours, theirs):
    """Whether two columns of one type agree row by row."""
    if not types.is_floating(ours.type):
        return ours.equals(theirs)
    if not pc.is_null(ours).equals(pc.is_null(theirs)):
        return False
    allowed = pc.multiply(pc.max_element_wise(pc.abs(ours), pc.abs(theirs)), RELATIVE_TOLERANCE)
    if not pc.all(pc.and_(pc.is_finite(ours), pc.is_finite(theirs)), min_count=0).as_py():
        return False
    within = pc.less_equal(pc.abs(pc.subtract(ours, theirs)), allowed)
    return pc.all(within, min_count=0).as_py()


def compare_rows(columns):
    """Compares the rows in an order of their own: exact columns first, so that no rounding can misalign them."""
    exact_first = sorted(columns, key=lambda column: column.tolerance is not None)
    row_count = len(columns[0].expected)

    def sorted_rows(side):
        values = [getattr(column, side) for column in exact_first]
        return sorted(range(row_count), key=lambda row: tuple(sort_key(value[row]) for value in values))

    pairs = list(zip(sorted_rows("expected"), sorted_rows("actual")))
    return differences(columns, pairs, "row")


def compare_order(keys):
    """Compares the keys of the ORDER BY row by row as the answers came."""
    if not keys:
        return []
    row_count = len(keys[0].expected)
    return differences(keys, list(zip(range(row_count), range(row_count))), "order of row")


def differences(columns, pairs, what):
    """The first of `pairs` (expected row, actual row) that do not agree."""
    found = []
    for position, (expected, actual) in enumerate(pairs):
        wrong = [c.name for c in columns if not c.agrees(c.expected[expected], c.actual[actual])]
        if wrong:
            found.append(f"{what} {position} differs in {', '.join(wrong)}")
            found.append(f"  duckdb: {[show(c.expected[expected]) for c in columns]}")
            found.append(f"  pelton: {[show(c.actual[actual]) for c in columns]}")
        if len(found) >= 3 * DIFFERENCES_SHOWN:
            break
    return found


# ---- values


def kind(arrow_type):
    """Values of one kind can be compared; the engines differ in widths within a kind."""
    if types.is_dictionary(arrow_type):
        return kind(arrow_type.value_type)
    if types.is_integer(arrow_type) or types.is_floating(arrow_type) or types.is_decimal(arrow_type):
        return "number"
    if types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type):
        return "text"
    if types.is_date(arrow_type) or types.is_timestamp(arrow_type):
        return "time"
    return str(arrow_type)


def tolerance(expected, actual):
    """None for exact comparison, else the absolute difference that the types allow."""
    if not types.is_floating(expected) and not types.is_floating(actual):
        return None
    scales = [side.scale for side in (expected, actual) if types.is_decimal(side)]
    return max((10.0**-scale for scale in scales), default=0.0)


def plain_values(column):
    """Python values; times as text in UTC to the nanosecond, so that dates and all units compare."""
    if types.is_date(column.type):
        return [value and f"{value} 00:00:00.{0:09}" for value in column.cast(pa.date32()).to_pylist()]
    if types.is_timestamp(column.type):
        instants = column.cast(pa.int64()).cast(pa.timestamp(column.type.unit))
        return [value and full_fraction(value) for value in instants.cast(pa.string()).to_pylist()]
    return column.to_pylist()


def full_fraction(time):
    """`1998-03-01 12:00:00.5` with nine digits after the point."""
    seconds, _, fraction = time.partition(".")
    return f"{seconds}.{fraction:0<9}"


def sort_key(value):
    """Total order over the values of a column: NULL first, NaN last."""
    if value is None:
        return (0, 0)
    if isinstance(value, float) and isnan(value):
        return (2, 0)
    return (1, value)


def show(value):
    return str(value) if isinstance(value, Decimal) else value


# ---- queries


def find_queries(folder, only):
    """The queries by number: Q2 before Q10."""
    def number(path):
        return [int(digits) for digits in re.findall(r"\d+", path.stem)]

    files = sorted(folder.glob("*.sql"), key=number)
    found = {path.stem: path.read_text() for path in files if not only or path.stem in only}
    missing = set(only or []) - set(found)
    if missing or not found:
        sys.exit(f"no query {', '.join(sorted(missing)) or '*.sql'} in {folder}")
    return found


def for_scale(sql, scale):
    sql = sql.replace(PER_SCALE, f"{0.0001 / scale:.10f}")
    return sql.replace(TIMES_SCALE, f"{100000 * scale:.0f}")


def held_against_all_rows(query, answer, ask_expected, ask_actual):
    """The differences of a limited answer, and of the answer without the limit."""
    sql = query.with_hidden_keys(answer.column_names)
    expected, actual = ask_expected(sql), ask_actual(sql)
    visible = query.key_columns(answer.column_names)
    hidden = iter(range(answer.num_columns, expected.num_columns))
    keys = [next(hidden) if column is None else column for column in visible]
    found = compare(expected, actual, keys)
    if found:
        return ["without the limit:"] + found
    shown = expected.select(range(answer.num_columns))
    mixed = mixed_kinds(shown, answer)
    if mixed:
        return mixed
    columns = paired(shown, answer)
    key_columns = [
        (plain_values(expected.column(key)), None if column is None else columns[column])
        for key, column in zip(keys, visible)
    ]
    return compare_limited(columns, key_columns, expected.num_rows, query.limit, query.offset)


def check(name, sql, database, options):
    """Runs one query on both engines, prints its line, and says whether they agree."""
    query = statement.parse(sql)
    ask_expected = lambda text: ask_duckdb(database, text)
    ask_actual = lambda text: ask_pelton(options.pelton, options.warehouse, text, options.timeout, options.device)
    start = time.perf_counter()
    expected = ask_expected(sql)
    asked = time.perf_counter()
    try:
        actual = ask_actual(sql)
        if query.limit is None:
            keys = [column for column in query.key_columns(expected.column_names) if column is not None]
            found = compare(expected, actual, keys)
        else:
            found = held_against_all_rows(query, actual, ask_expected, ask_actual)
    except QueryFailed as failure:
        found = str(failure).splitlines()
    answered = time.perf_counter()
    verdict = "FAIL" if found else "ok"
    times = f"duckdb {asked - start:7.3f} s  pelton {answered - asked:7.3f} s"
    print(f"{verdict:4} {name:6} {expected.num_rows:7} rows  {times}", flush=True)
    for line in found:
        print(f"     {line}")
    return not found


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="directory of Parquet files")
    parser.add_argument("--queries", type=Path, required=True, help="directory of *.sql files")
    parser.add_argument("--pelton", type=Path, required=True, help="the pelton binary")
    parser.add_argument("--warehouse", type=Path, required=True, help="the warehouse with the same data")
    parser.add_argument("--scale", type=float, default=1.0, help="the scale of the data (TPC-H Q11 needs it)")
    parser.add_argument("--device", default="auto", help="where Pelton's queries run; host: generated kernels, without a GPU")
    parser.add_argument("--only", nargs="+", metavar="QUERY", help="run these queries alone")
    parser.add_argument("--timeout", type=float, default=600, help="seconds a query may take")
    return parser.parse_args()


def main():
    options = parse_arguments()
    database = open_duckdb(options.data)
    queries = find_queries(options.queries, options.only)
    passed = sum(
        check(name, for_scale(sql, options.scale), database, options) for name, sql in queries.items()
    )
    failed = len(queries) - passed
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
