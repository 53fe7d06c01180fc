"""Whether a limited answer is one that the ORDER BY allows.

The rows of all answers are known, in order. Those of them that a limit cuts out lie between two keys:

    all rows    a a b b b c c d d d d e
    key         1 1 2 2 2 3 3 4 4 4 4 5
    limit           └─────────────┘         6 rows from the fifth on: one 2, both 3, three of the 4

1. The answer has as many rows as the limit leaves, and its keys are those of the places cut out.
2. Every row is one of those between the two keys, ties at both ends included, and none comes twice.
3. Every row strictly between the two keys is there.

Where nothing is ordered all rows tie, and only their number and their being rows of the whole remain.
"""



def compare_limited(columns, key_columns, rows, limit, offset):
    """The differences of a limited answer as lines of text; none when it is allowed.

    `columns` are those of the answer, `expected` of each being all rows in order; `key_columns` the values of
    each key over all rows, with the column of the answer that shows it or None.
    """
    row_count = len(columns[0].actual)
    end = min(offset + limit, rows)
    wanted = max(0, end - offset)
    if row_count != wanted:
        return [f"{wanted} rows expected of the limit, {row_count} found"]
    if not wanted:
        return []
    return wrong_keys(key_columns, offset, wanted) or wrong_rows(columns, key_columns, offset, end, rows)


def wrong_keys(key_columns, offset, wanted):
    for place in range(wanted):
        for values, column in key_columns:
            if column is not None and not column.agrees(values[offset + place], column.actual[place]):
                expected, actual = values[offset + place], column.actual[place]
                return [f"key {column.name} of row {place} is {expected} in DuckDB and {actual} in Pelton"]
    return []


def wrong_rows(columns, key_columns, offset, end, rows):
    keys = [values for values, _ in key_columns]
    same = lambda row, other: all(values[row] == values[other] for values in keys)
    allowed_from, allowed_to = offset, end
    while allowed_from > 0 and same(allowed_from - 1, offset):
        allowed_from -= 1
    while allowed_to < rows and same(allowed_to, end - 1):
        allowed_to += 1
    needed = {row for row in range(offset, end) if not same(row, offset) and not same(row, end - 1)}
    # Rows that must be there are taken first, as rows with other keys may look alike.
    by_need = sorted(range(allowed_from, allowed_to), key=lambda row: row not in needed)
    places = {}
    exact = [column for column in columns if column.tolerance is None]
    for row in by_need:
        places.setdefault(tuple(column.expected[row] for column in exact), []).append(row)
    for place in range(end - offset):
        candidates = places.get(tuple(column.actual[place] for column in exact), [])
        fits = lambda row: all(column.agrees(column.expected[row], column.actual[place]) for column in columns)
        row = next((row for row in candidates if fits(row)), None)
        if row is None:
            shown = [column.actual[place] for column in columns]
            return [f"row {place} is none of those that the order allows: {shown}"]
        candidates.remove(row)
        needed.discard(row)
    missing = [[column.expected[row] for column in columns] for row in sorted(needed)]
    return [f"a row before the last key is missing: {row}" for row in missing[:1]]
