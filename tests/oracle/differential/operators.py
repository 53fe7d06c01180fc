"""The operations that random expressions are made of, as a table: type of the result, types of the arguments, text.

An entry whose texts differ between the engines is a known difference that is written around; `differences.py` has its
name, the reason and an example.
"""

from dataclasses import dataclass

from nodes import ADD, AND, ATOM, CAST, COMPARE, CONCAT, IN, IS, MULTIPLY, NEGATE, NOT, OR, Form
from tables import TYPES, duckdb_name, pelton_name

SIGNED = ["i8", "i16", "i32", "i64"]
INTEGERS = [*SIGNED, "u32", "u64"]
FLOATS = ["f32", "f64"]
DECIMALS = ["d9", "d18", "d38"]
SCALES = {"d9": 2, "d18": 4, "d38": 10}
TIMES = ["date", "ts", "tn"]


@dataclass(frozen=True)
class Operation:
    result: str
    args: tuple
    form: Form
    # Whether values exist for which it is an error, and whether small values are among them.
    fails: bool = False
    fails_when_tame: bool = False
    # Arguments that are evaluated only for some rows must not fail.
    is_lazy: bool = False
    weight: float = 1.0


OPERATIONS: list[Operation] = []


def add(result, args, text, duckdb=None, *, level=ATOM, least=(), known=None, **more):
    form = Form(text, duckdb or text, level, least, known)
    OPERATIONS.append(Operation(result, tuple(args.split() if isinstance(args, str) else args), form, **more))


# ---- arithmetic

for kind in INTEGERS:
    for operator in "+-":
        fails_when_tame = kind.startswith("u") or kind == "i8"
        add(kind, [kind, kind], f"{{0}} {operator} {{1}}", level=ADD, least=(ADD, MULTIPLY), fails=True,
            fails_when_tame=fails_when_tame, weight=2)  # fmt: skip
    add(kind, [kind, kind], "{0} * {1}", level=MULTIPLY, least=(MULTIPLY, NEGATE), fails=True,
        fails_when_tame=kind in ("i8", "i16"), weight=2)  # fmt: skip
    add(kind, [kind, kind], "{0} / {1}", "{0} // {1}", level=MULTIPLY, least=(MULTIPLY, NEGATE), fails=True,
        fails_when_tame=True, known="integer-division")  # fmt: skip
    add(kind, [kind, kind], "{0} % {1}", level=MULTIPLY, least=(MULTIPLY, NEGATE), fails=True, fails_when_tame=True)
for kind in SIGNED:
    add(kind, [kind], "- {0}", level=NEGATE, least=(CAST,), fails=True)
    add(kind, [kind], "abs({0})", fails=True)
    for operator in "&|":
        add(kind, [kind, kind], f"{{0}} {operator} {{1}}", level=CONCAT, least=(ATOM, ATOM), weight=0.3)
for small, large in (("i8", "i16"), ("i16", "i32"), ("i32", "i64"), ("i8", "i64")):
    add(large, [small, large], "{0} + {1}", level=ADD, least=(ADD, MULTIPLY), fails=True)
    add(large, [large, small], "{0} * {1}", level=MULTIPLY, least=(MULTIPLY, NEGATE), fails=True, fails_when_tame=large == "i16")
for kind in FLOATS:
    for operator in "+-":
        add(kind, [kind, kind], f"{{0}} {operator} {{1}}", level=ADD, least=(ADD, MULTIPLY))
    for operator in "*/":
        add(kind, [kind, kind], f"{{0}} {operator} {{1}}", level=MULTIPLY, least=(MULTIPLY, NEGATE))
    add(kind, [kind, kind], "{0} % {1}", level=MULTIPLY, least=(MULTIPLY, NEGATE), fails=True, fails_when_tame=True)
    add(kind, [kind], "- {0}", level=NEGATE, least=(CAST,))
    for function in ("abs", "floor", "ceil", "trunc"):
        add(kind, [kind], function + "({0})", weight=0.5)
add("f64", ["f64"], "sqrt(abs({0}))", weight=0.5)
add("f64", ["f64", "i32"], "{0} + {1}", level=ADD, least=(ADD, MULTIPLY))
add("f64", ["i64", "f64"], "{0} * {1}", level=MULTIPLY, least=(MULTIPLY, NEGATE))
add("f64", ["d9", "f64"], "{0} * {1}", level=MULTIPLY, least=(MULTIPLY, NEGATE))
for kind in DECIMALS:
    # Of columns, literals and casts: what a chain of products has for a type is each engine's own affair.
    for other in DECIMALS:
        weight = 0.7
        for operator in "+-":
            add("dec", [kind, other], f"{{0}} {operator} {{1}}", level=ADD, least=(ADD, MULTIPLY), fails="d38" in (kind, other), weight=weight)
        duckdb = f"CAST({{0}} AS DECIMAL(38,{SCALES[kind]})) * {{1}}"
        add("dec", [kind, other], "{0} * {1}", duckdb, level=MULTIPLY, least=(MULTIPLY, NEGATE), fails=True,
            fails_when_tame=kind == other == "d38", weight=weight, known="decimal-products-have-room")  # fmt: skip
    duckdb = "CASE WHEN {1} = 0 THEN error('division by zero') ELSE {0} / {1} END"
    add("f64", [kind, kind], "{0} / {1}", duckdb, level=MULTIPLY, least=(MULTIPLY, NEGATE), fails=True, fails_when_tame=True,
        known="decimal-division-by-zero")  # fmt: skip
    add(kind, [kind], "- {0}", level=NEGATE, least=(CAST,))
    add(kind, [kind], "abs({0})")
    add("dec", [kind, "i32"], "{0} + {1}", level=ADD, least=(ADD, MULTIPLY), fails=True)

# ---- comparison and logic

COMPARED = [(kind, kind) for kind in TYPES] + [
    ("i8", "i64"), ("i32", "i64"), ("i16", "i32"), ("i32", "f64"), ("i32", "d9"), ("i64", "d18"), ("d9", "d18"), ("d18", "d38"),
    ("dec", "dec"), ("d9", "dec"), ("d9", "f64"), ("u32", "i64"), ("f32", "f64"), ("date", "ts"), ("ts", "tn"), ("u64", "i64"),
]  # fmt: skip
for one, other in COMPARED:
    weight = 1 if one == other else 0.5
    for operator in ("=", "<>", "<", "<=", ">", ">="):
        add("bool", [one, other], f"{{0}} {operator} {{1}}", level=COMPARE, least=(IN, IN), weight=weight / 3)
    for operator in ("IS DISTINCT FROM", "IS NOT DISTINCT FROM"):
        add("bool", [one, other], f"{{0}} {operator} {{1}}", level=IS, least=(COMPARE, COMPARE), weight=weight / 4)
    for operator in ("BETWEEN", "NOT BETWEEN"):
        add("bool", [one, other, one], f"{{0}} {operator} {{1}} AND {{2}}", level=IN, least=(CONCAT,) * 3, weight=weight / 4)
    for count in (1, 2, 3, 4, 6):
        items = ", ".join(f"{{{index}}}" for index in range(1, count + 1))
        for operator in ("IN", "NOT IN"):
            add("bool", [one] + [other] * count, f"{{0}} {operator} ({items})", level=IN, least=(CONCAT,), weight=weight / 10, is_lazy=True)
for kind in [*TYPES, "dec"]:
    for operator in ("IS NULL", "IS NOT NULL"):
        add("bool", [kind], f"{{0}} {operator}", level=IS, least=(COMPARE,), weight=0.3)
for operator in ("AND", "OR"):
    level = {"AND": AND, "OR": OR}[operator]
    add("bool", "bool bool", f"{{0}} {operator} {{1}}", level=level, least=(level, level + 1), is_lazy=True, weight=6)
add("bool", "bool", "NOT {0}", level=NOT, least=(NOT,), weight=3)
for test in ("IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"):
    add("bool", "bool", f"{{0}} {test}", level=IS, least=(COMPARE,), weight=0.7)
for operator in ("IS UNKNOWN", "IS NOT UNKNOWN"):
    add("bool", "bool", f"{{0}} {operator}", level=IS, least=(COMPARE,), weight=0.5)

# ---- choices, of every type

for kind in TYPES:
    add(kind, ["bool", kind, kind], "CASE WHEN {0} THEN {1} ELSE {2} END", is_lazy=True)
    add(kind, ["bool", kind, "bool", kind], "CASE WHEN {0} THEN {1} WHEN {2} THEN {3} END", is_lazy=True, weight=0.5)
    add(kind, ["i32", "i32", kind, "i32", kind, kind], "CASE {0} WHEN {1} THEN {2} WHEN {3} THEN {4} ELSE {5} END", is_lazy=True, weight=0.5)
    add("i32", [kind, kind, "i32", kind, "i32"], "CASE {0} WHEN {1} THEN {2} WHEN {3} THEN {4} END", is_lazy=True, weight=0.3)
    add(kind, [kind, kind], "coalesce({0}, {1})", is_lazy=True)
    add(kind, [kind, kind, kind], "coalesce({0}, {1}, {2})", is_lazy=True, weight=0.5)
    add(kind, [kind, kind], "nullif({0}, {1})", is_lazy=True)
    if kind != "bool":
        add(kind, [kind, kind, kind], "greatest({0}, {1}, {2})", weight=0.3)
        add(kind, [kind, kind], "least({0}, {1})", weight=0.3)

# ---- casts

def cast(source, target, **more):
    names = pelton_name(target), duckdb_name(target)
    add(target, [source], f"CAST({{0}} AS {names[0]})", f"CAST({{0}} AS {names[1]})", **more)
    if " " not in names[0]:
        add(target, [source], f"{{0}}::{names[0]}", f"{{0}}::{names[1]}", level=CAST, least=(CAST,), **more)


for kind in INTEGERS:
    for other in INTEGERS:
        widens = other in SIGNED and kind in SIGNED and SIGNED.index(kind) <= SIGNED.index(other)
        if kind != other:
            cast(kind, other, fails=not widens, fails_when_tame=not widens, weight=0.2)
    cast(kind, "f64", weight=0.3)
    cast(kind, "d18", fails=True, weight=0.3)
    cast(kind, "text", weight=0.3)
    cast("text", kind, fails=True, fails_when_tame=True, weight=0.1)
for kind in DECIMALS:
    for other in DECIMALS:
        if kind != other:
            cast(kind, other, fails=True, weight=0.3)
    cast("dec", kind, fails=True, fails_when_tame=True, weight=0.5)
    cast(kind, "f64", weight=0.3)
    add("i32", [kind], "CAST({0} AS INTEGER)", "CAST(trunc({0}) AS INTEGER)", fails=True, weight=0.3, known="casts-to-integers-truncate")
    cast(kind, "text", weight=0.3)
    cast("f64", kind, fails=True, fails_when_tame=True, weight=0.2)
    cast("text", kind, fails=True, fails_when_tame=True, weight=0.1)
for kind in ("i32", "i64"):
    name = duckdb_name(kind)
    add(kind, ["f64"], f"CAST({{0}} AS {name})", f"CAST(trunc({{0}}) AS {name})", fails=True, weight=0.4, known="casts-to-integers-truncate")
cast("f32", "f64", weight=0.3)
cast("text", "f64", fails=True, fails_when_tame=True, weight=0.2)
cast("bool", "i32", weight=0.5)
cast("bool", "text", weight=0.3)
cast("i32", "bool", weight=0.3)
cast("date", "text", weight=0.3)
cast("text", "date", fails=True, fails_when_tame=True, weight=0.2)
cast("date", "ts", weight=0.5)
cast("ts", "date", weight=0.5)
cast("tn", "ts", weight=0.3)

# ---- text

add("text", "text text", "{0} || {1}", level=CONCAT, least=(CONCAT, ADD), weight=3)
add("text", "text text", "concat({0}, {1})")
for function in ("upper", "lower", "trim", "ltrim", "rtrim", "reverse"):
    add("text", "text", function + "({0})")
for function in ("length", "character_length", "octet_length"):
    duckdb = {"character_length": "length({0})", "octet_length": "strlen({0})"}.get(function)
    add("i32", "text", function + "({0})", f"CAST({duckdb or function + '({0})'} AS INTEGER)")
for start, length in ((1, 2), (2, 3), (3, 40), (40, 1)):
    add("text", "text", f"substr({{0}}, {start}, {length})")
    add("text", "text", f"substring({{0}} FROM {start} FOR {length})", f"substr({{0}}, {start}, {length})", weight=0.3)
for count in (0, 1, 2, -1):
    add("text", "text", f"left({{0}}, {count})", weight=0.5)
    add("text", "text", f"right({{0}}, {count})", weight=0.5)
add("text", "text text text", "replace({0}, {1}, {2})")
add("text", "text", "lpad({0}, 5, 'xy')")
add("text", "text", "rpad({0}, 3, 'é')")
add("text", "text", "repeat({0}, 2)")
add("text", "text", "split_part({0}, ' ', 1)")
add("i32", "text text", "strpos({0}, {1})", "CAST(strpos({0}, {1}) AS INTEGER)")
add("bool", "text text", "starts_with({0}, {1})")
for pattern in ("a%", "%b", "%b%", "a_", "_", "%", "", "ab", "%_b%", "äö", "_ö%", "日%", "a%b%"):
    for operator in ("LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"):
        add("bool", "text", f"{{0}} {operator} '{pattern}'", level=IN, least=(CONCAT,), weight=0.3)
add("bool", "text text", "{0} LIKE {1}", level=IN, least=(CONCAT, CONCAT), weight=0.5)

# ---- dates and times

for part in ("year", "quarter", "month", "week", "day", "dow", "doy"):
    for kind in TIMES:
        add("i32", [kind], f"extract({part} FROM {{0}})", f"CAST(extract({part} FROM {{0}}) AS INTEGER)", weight=0.3)
for part in ("hour", "minute"):
    add("i32", ["ts"], f"date_part('{part}', {{0}})", f"CAST(date_part('{part}', {{0}}) AS INTEGER)", weight=0.3)
for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second"):
    add("ts", ["ts"], f"date_trunc('{unit}', {{0}})", weight=0.3)
for interval in ("1 day", "-3 days", "1 month", "13 months", "1 year", "5 hours", "1 month 2 days"):
    for operator in "+-":
        if "hour" not in interval:
            add("date", ["date"], f"CAST({{0}} {operator} INTERVAL '{interval}' AS DATE)", level=ATOM, least=(ADD,), fails=True, weight=0.3)
        add("ts", ["ts"], f"{{0}} {operator} INTERVAL '{interval}'", level=ADD, least=(ADD,), fails=True, weight=0.3)
