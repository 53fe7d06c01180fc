"""Random expressions of a wanted type, from the table of operations, columns and literals."""

from collections import defaultdict

from nodes import NEGATE, Node, leaf
from operators import DECIMALS, INTEGERS, OPERATIONS
from tables import TYPES, duckdb_name, pelton_name

BY_RESULT = defaultdict(list)
for operation in OPERATIONS:
    BY_RESULT[operation.result].append(operation)

# What a literal of each type may be; integers and times are written with their type, see `literal`.
LITERALS = {
    "i8": [0, 1, 2, -3, 127], "i16": [0, 1, 2, -3, 32767], "i32": [0, 1, 2, 5, -3, 2147483647],
    "i64": [0, 1, 2, 5, -3, 9223372036854775807], "u32": [0, 1, 3, 4294967295], "u64": [0, 1, 3],
    "f32": ["0e0", "1.5e0", "-2.0e0"], "f64": ["0e0", "1.5e0", "-2.5e-1", "1e2", "0.1e0"],
    "d9": ["0", "0.05", "0.06", "1.25", "-2.50"], "d18": ["0", "0.0500", "1.5", "-2.5"], "d38": ["0", "0.05", "7"],
    "dec": ["0.05", "0.06", "0.07", "1.25", "2.5", "0.0001"],
    "text": ["", "a", "b", "ab", "A", "B c", "äö", "日本", "it''s", "12", "%", "a_"],
    "bool": ["true", "false"],
    "date": ["1970-01-01", "2000-02-29", "2020-03-01", "1998-12-31"],
    "ts": ["1970-01-01 00:00:00", "2000-02-29 12:34:56.789", "2020-03-01 00:00:00"],
    "tn": ["1970-01-01 00:00:00", "2000-02-29 12:34:56.789"],
}  # fmt: skip
SMALL = {"i8": [0, 1, 2], "i16": [0, 1, 2, 5], "i32": [0, 1, 2, 5, -3], "i64": [0, 1, 2, 5, -3], "u32": [0, 1, 3], "u64": [0, 1, 3]}


def make(random, kind, scope, depth):
    """An expression of type `kind`, at most `depth` operations deep."""
    if depth <= 0 or random.random() < 0.12:
        return make_leaf(random, kind, scope)
    operations = [operation for operation in BY_RESULT[kind] if is_allowed(operation, scope, depth)]
    if not operations:
        return make_leaf(random, kind, scope)
    operation = random.choices(operations, [operation.weight for operation in operations])[0]
    inner = scope.total() if operation.is_lazy else scope
    deep = random.randrange(len(operation.args)) if operation.args else 0
    args = tuple(
        make_leaf(random, arg, inner) if is_leaf(operation, arg, inner, index == deep) else make(random, arg, inner, depth - 1 - random.randrange(2))
        for index, arg in enumerate(operation.args)
    )
    return Node(kind, operation.form, args, wrapped=random.random() < 0.3)


def is_allowed(operation, scope, depth):
    if operation.fails and not scope.may_fail:
        # Two products of small numbers still fit.
        return scope.is_tame and not operation.fails_when_tame and depth <= 2
    return True


def is_leaf(operation, arg, scope, is_deep):
    """Digits of decimals add up: operands of their arithmetic are leaves. And where one operand may fail, the others are
    leaves: whether NULL beside what fails is an error is each engine's own affair."""
    digits_add_up = operation.result == "dec" or (
        arg in DECIMALS and operation.result in ("f64", *DECIMALS) and len(operation.args) == 2
    )
    return digits_add_up or (scope.may_fail and not is_deep)


def make_leaf(random, kind, scope):
    columns = scope.columns.get(kind, [])
    if columns and random.random() < 0.75:
        column = random.choice(columns)
        return leaf(kind, column)
    # Whether NULL beside an expression that fails is an error is each engine's own affair.
    if not scope.may_fail and random.random() < 0.1:
        return null(kind)
    return literal(random, kind, scope)


def null(kind):
    if kind == "dec":
        return leaf(kind, "CAST(NULL AS DECIMAL(9,2))")
    return leaf(kind, f"CAST(NULL AS {pelton_name(kind)})", f"CAST(NULL AS {duckdb_name(kind)})")


def literal(random, kind, scope):
    pool = SMALL.get(kind) if scope.is_tame else None
    value = random.choice(pool or LITERALS[kind])
    if kind == "i64":
        # Bare: DuckDB gives such a number the smallest type that its neighbours suggest.
        return leaf(kind, str(value), f"CAST({value} AS BIGINT)", level=NEGATE, known="integer-literals-are-bigint")
    if kind == "text":
        return leaf(kind, f"'{value}'")
    if kind == "date":
        return leaf(kind, f"DATE '{value}'")
    if kind in ("ts", "tn"):
        return leaf(kind, f"CAST('{value}' AS {pelton_name(kind)})", f"CAST('{value}' AS {duckdb_name(kind)})")
    if kind in ("bool", "dec", "f64"):
        return leaf(kind, value, level=NEGATE)
    return leaf(kind, f"CAST({value} AS {pelton_name(kind)})", f"CAST({value} AS {duckdb_name(kind)})")


def types_of_results(random):
    """A type to ask for: those with much to go wrong more often."""
    return random.choice(["bool", "bool", "bool", "text", "f64", "dec", "i32", "i64", *INTEGERS, *TYPES])
