"""The known differences between Pelton and DuckDB, by name. Whatever is not here fails the test.

```text
    WRITTEN_AROUND   the two texts of an expression differ so that their meaning does not (`known=` in operators.py)
    EXCUSED          the same text means another thing; `excuses` says for just which cases
```

Each has an example with what both engines give, and `test_each_known_difference_still_occurs` runs it: a difference that
is gone leaves the list, and from then on it is a failure.
"""

import re
from dataclasses import dataclass
from typing import Callable

from engines import Failed


@dataclass(frozen=True)
class Difference:
    name: str
    reason: str
    # An expression, run by both engines, and what each gives: values as in docs/guide/semantics.md.
    example: str
    pelton: str
    duckdb: str
    # Of a case, DuckDB's outcome, Pelton's and what differs: whether this is why they differ.
    excuses: Callable | None = None


WRITTEN_AROUND = [
    Difference(
        "integer-literals-are-bigint",
        "A number without a point is a BIGINT in Pelton; in DuckDB it takes the smallest type that its neighbours suggest.",
        "100::TINYINT + 100", "200", "error",
    ),
    Difference(
        "integer-division",
        "Pelton divides integers as PostgreSQL does; DuckDB's `/` makes doubles of them, and `//` is its integer division.",
        "7 / 2", "3", "3.5",
    ),
    Difference(
        "decimal-division-by-zero",
        "An error in Pelton, as in PostgreSQL; DuckDB divides doubles, where it is infinity.",
        "CAST(1.5 AS DECIMAL(9,2)) / CAST(0 AS DECIMAL(9,2))", "error", "inf",
    ),
    Difference(
        "decimal-products-have-room",
        "A product has the digits of both factors in Pelton; DuckDB stays at 18 digits where both factors have no more.",
        "CAST('99999999999999.9999' AS DECIMAL(18,4)) * CAST('9999999.99' AS DECIMAL(9,2))", "999999998999999999000.000001", "error",
    ),
    Difference(
        "casts-to-integers-truncate",
        "Pelton drops what is after the point, as C and Rust do; DuckDB and PostgreSQL round.",
        "CAST(2.75e0 AS INTEGER)", "2", "3",
    ),
]  # fmt: skip


def failed(outcome, pattern):
    return isinstance(outcome, Failed) and re.search(pattern, outcome.text, re.IGNORECASE) is not None


def uses(case, pattern):
    return re.search(pattern, case.pelton(), re.IGNORECASE) is not None


def both_compare_negation(case):
    return uses(case, r"- ?c_[iu]\d+") and uses(case, "=|<|>|distinct|between")


def both_answered(duckdb, pelton):
    return not isinstance(duckdb, Failed) and not isinstance(pelton, Failed)


EXCUSED = [
    Difference(
        "dates-meet-timestamps-in-nanoseconds",
        "A date beside a timestamp becomes one of nanoseconds, which reach from 1677 to 2262.",
        "DATE '9999-12-31' > CAST('2020-01-01 00:00:00' AS TIMESTAMP(6))", "error", "true",
        lambda case, duckdb, pelton, found: failed(pelton, r"cannot cast (date32|timestamp\(.s\)) value .* to timestamp\(ns\)"),
    ),
    Difference(
        "date-trunc-in-nanoseconds",
        "date_trunc computes in nanoseconds, which reach from 1677 to 2262.",
        "date_trunc('year', CAST('2263-05-01 00:00:00' AS TIMESTAMP(6)))", "error", "2263-01-01 00:00:00",
        lambda case, duckdb, pelton, found: uses(case, "date_trunc") and failed(pelton, "timestamp .* out of range"),
    ),
    Difference(
        "text-with-a-point-is-no-integer",
        "An error in Pelton, as in PostgreSQL; DuckDB rounds.",
        "CAST('1.5' AS INTEGER)", "error", "2",
        lambda case, duckdb, pelton, found: failed(pelton, r"cannot cast string '-?\d+\.\d+' to value of u?int\d+ type"),
    ),
    Difference(
        "a-cast-that-is-compared-with-a-constant-does-not-fail",
        "The optimizer compares the column with the constant, in the column's type: no value is too large for that.",
        "SELECT CAST(x AS TINYINT) < CAST(5 AS TINYINT) FROM (SELECT v AS x FROM generate_series(1000, 1000) AS g(v)) AS t",
        "false", "error",
        lambda case, duckdb, pelton, found: failed(duckdb, "conversion error") and uses(case, r"cast\(|::") and uses(case, "=|<|>|in|between|distinct"),
    ),
    Difference(
        "the-least-integer-has-a-remainder",
        "DuckDB divides to find the remainder by -1, and that overflows; in Pelton and PostgreSQL it is 0.",
        "(-9223372036854775807 - 1) % -1", "0", "error",
        lambda case, duckdb, pelton, found: uses(case, "%") and failed(duckdb, "overflow in division"),
    ),
    Difference(
        "a-negation-beside-a-constant-does-not-fail",
        "DuckDB negates the constant instead, and the most negative integer of the column is none it meets.",
        "SELECT count(*) FROM generate_series(1, 1) AS g(v) WHERE CAST(0 AS SMALLINT) IS NOT DISTINCT FROM (- CAST(-32767 - v AS SMALLINT))",
        "error", "0",
        lambda case, duckdb, pelton, found: failed(pelton, r"-\(-\d+\) overflows") and both_compare_negation(case),
    ),
    Difference(
        "a-product-with-zero-does-not-fail",
        "DuckDB makes a product with a constant zero zero, whatever the other factor comes to.",
        "SELECT CAST(-9223372036854775808 + v AS BIGINT) * 3 * 0 FROM generate_series(0, 0) AS g(v)", "error", "0",
        lambda case, duckdb, pelton, found: failed(pelton, r"\* -?\d+ overflows") and uses(case, r"\* \(*CAST\(0 AS"),
    ),
    Difference(
        "years-past-9999-have-a-sign",
        "As text, such a year has a plus sign in Pelton, as in ISO 8601.",
        "CAST(CAST(DATE '9999-12-31' + INTERVAL '3 days' AS DATE) AS VARCHAR)", "'+10000-01-03'", "'10000-01-03'",
        lambda case, duckdb, pelton, found: both_answered(duckdb, pelton) and re.search(r"'\+\d{5,6}-", found) is not None,
    ),
]  # fmt: skip


def excuse(case, duckdb, pelton, found):
    """The name of the difference that accounts for two outcomes, or None."""
    for difference in EXCUSED:
        if difference.excuses(case, duckdb, pelton, found):
            return difference.name
    return None
