"""When two answers agree.

Rows agree as multisets, or in sequence where the statement orders them all. Integers, decimals, text, booleans, dates
and times agree when equal, whatever their width, scale or unit; NULL with NULL, NaN with NaN, -0.0 with 0.0. Where a side
is a float, 1e-9 relative is allowed, 1e-5 where one has only 32 bits: sums of floats depend on their order. An integer
or decimal on one side and a float on the other is a difference. Intervals agree in their months and in the rest, a day
being 24 hours; lists and structs item by item.
"""

from math import isfinite, isnan

import pyarrow as pa
from pyarrow import types

from engines import Failed

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
NANOSECONDS_OF_DAY = 86_400 * 10**9


def compare(expected, actual, in_sequence=False):
    """What differs between two outcomes, as a line of text; None when they agree."""
    if isinstance(expected, Failed) or isinstance(actual, Failed):
        return None if isinstance(expected, Failed) and isinstance(actual, Failed) else "an error on one side"
    if expected.num_columns != actual.num_columns:
        return f"{expected.num_columns} and {actual.num_columns} columns"
    if expected.num_rows != actual.num_rows:
        return f"{expected.num_rows} and {actual.num_rows} rows"
    left, right, tolerances = [], [], []
    for one, other in zip(expected.columns, actual.columns):
        kinds = kind(one.type), kind(other.type)
        if not comparable(*kinds):
            return f"a column is {one.type} and {other.type}"
        left.append(plain(one))
        right.append(plain(other))
        tolerances.append(max(tolerance(one.type), tolerance(other.type)))
    left, right = list(zip(*left)), list(zip(*right))
    if not in_sequence:
        # Exact columns first, so that no rounding can misalign rows.
        order = sorted(range(len(tolerances)), key=lambda column: tolerances[column])
        left.sort(key=lambda row: [sort_key(row[column]) for column in order])
        right.sort(key=lambda row: [sort_key(row[column]) for column in order])
    for one, other in zip(left, right):
        if not all(agrees(*pair) for pair in zip(one, other, tolerances)):
            return f"a row is {show(one)} and {show(other)}"
    return None


def kind(data_type):
    """Values of one kind can be compared; engines differ in widths within a kind."""
    if types.is_dictionary(data_type):
        return kind(data_type.value_type)
    if types.is_integer(data_type) or types.is_decimal(data_type):
        return "exact number"
    if types.is_floating(data_type):
        return "float"
    if types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type):
        return "text"
    if types.is_date(data_type) or types.is_timestamp(data_type):
        return "time"
    if types.is_time(data_type):
        return "time of day"
    if types.is_interval(data_type) or types.is_duration(data_type):
        return "interval"
    if types.is_binary(data_type) or types.is_large_binary(data_type) or types.is_binary_view(data_type):
        return "bytes"
    if is_list(data_type):
        return ("list", kind(data_type.value_type))
    if types.is_struct(data_type):
        return ("struct", *((field.name, kind(field.type)) for field in data_type))
    return str(data_type)


def comparable(one, other):
    """Whether values of both kinds may be equal: those of one kind, and NULL with everything."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(comparable(*pair) for pair in zip(one, other))
    return one == other or "null" in (one, other)


def is_list(data_type):
    return types.is_list(data_type) or types.is_large_list(data_type) or types.is_list_view(data_type) or types.is_fixed_size_list(data_type)


def tolerance(data_type):
    if is_list(data_type):
        return tolerance(data_type.value_type)
    if types.is_struct(data_type):
        return max(tolerance(field.type) for field in data_type)
    if types.is_float32(data_type):
        return 1e-5
    return 1e-9 if types.is_floating(data_type) else 0.0


def plain(column):
    """Python values; times as nanoseconds of UTC, which no calendar bounds, and what is nested as tuples."""
    if types.is_date32(column.type):
        return scaled(column.cast(pa.int32()), NANOSECONDS_OF_DAY)
    if types.is_timestamp(column.type) or types.is_time64(column.type):
        return scaled(column.cast(pa.int64()), NANOSECONDS[column.type.unit])
    if types.is_duration(column.type):
        return [None if value is None else (0, value) for value in scaled(column.cast(pa.int64()), NANOSECONDS[column.type.unit])]
    return [unnested(value) for value in column.to_pylist()]


def scaled(column, factor):
    return [None if value is None else value * factor for value in column.to_pylist()]


def unnested(value):
    if isinstance(value, pa.MonthDayNano):
        return value.months, value.days * NANOSECONDS_OF_DAY + value.nanoseconds
    if isinstance(value, dict):
        return tuple(unnested(item) for item in value.values())
    return tuple(unnested(item) for item in value) if isinstance(value, list) else value


def agrees(one, other, allowed):
    if one is None or other is None:
        return one is other
    if isinstance(one, tuple):
        return len(one) == len(other) and all(agrees(*pair, allowed) for pair in zip(one, other))
    if not allowed or isinstance(one, str):
        return one == other
    one, other = float(one), float(other)
    if not isfinite(one) or not isfinite(other):
        return one == other or (isnan(one) and isnan(other))
    return abs(one - other) <= allowed * max(abs(one), abs(other))


def sort_key(value):
    """Total order over the values of a column: NULL first, NaN last."""
    if value is None:
        return (0, 0)
    if isinstance(value, float) and isnan(value):
        return (2, 0)
    return (1, [sort_key(item) for item in value] if isinstance(value, tuple) else value)


def show(row):
    return "(" + ", ".join("NULL" if value is None else str(value) if not isinstance(value, str) else repr(value) for value in row) + ")"


def text(outcome, in_sequence, rows_max=12):
    """An outcome for people, its rows sorted where the statement does not order them."""
    if isinstance(outcome, Failed):
        return "error: " + outcome.text.strip().replace("\n", "\n    ")
    rows = list(zip(*(plain(column) for column in outcome.columns)))
    if not in_sequence:
        rows.sort(key=lambda row: [sort_key(value) for value in row])
    shown = "\n    ".join(show(row) for row in rows[:rows_max])
    more = f"\n    … {len(rows)} rows" if len(rows) > rows_max else ""
    return f"{', '.join(str(field.type) for field in outcome.schema)}\n    {shown}{more}"
