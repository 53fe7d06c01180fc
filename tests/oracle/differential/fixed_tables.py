"""The tables of the fixed statements, the same in every run.

```text
    customers   80   referrer → customers      a, b       20, 16   keys of several types: NULL, repeated, unmatched
    products    30                             numbers        24   extremes of every numeric type
    orders    2500   → customers, products     texts          30   Unicode, empty, digits, patterns
    events     400   sensors, one gap in six   moments        24   days, timestamps without and with a zone
    tree, edges      for recursion             spans          20   ranges that overlap
    logic        9   two truth values          nothing         0   the columns of a
```

Floats are quarters and small, so that their sums are exact in any order.
"""

import datetime as dt
from decimal import Decimal
from random import Random

import pyarrow as pa

NAMES = ["Ada", "Bo", "Çelik", "Dörte", "Élodie", "Finn", "Ģirts", "Hana", "Iñaki", "Jo", "Łucja", "Ole", "Þóra", "Zoë", "李娜", "ada", "O'Hara", ""]  # fmt: skip
CITIES = ["Berlin", "Łódź", "München", "New York", "São Paulo", "Tokyo", "東京", ""]
CATEGORIES = ["tools", "toys", "books", "Books", "garden"]
CHANNELS = ["web", "shop", "phone", ""]
TEXTS = ["", " ", "a", "A", "b", "ab", "abc", "ABC", "aBc", "a b c", " padded ", "a_b", "a%b", "a\\b", "it's", "äöü", "ÄÖÜ", "straße", "日本語",
         "naïve café", "😀", "a😀b", "12", "-3", "1.5", "true", "2020-02-29", "x=1;y=2;z=", "tab\there", "line\nbreak"]  # fmt: skip
VIEWS = {
    "paid_orders": "SELECT id, customer, product, quantity, price * quantity AS total FROM orders WHERE paid",
    "city_totals": (
        "SELECT c.city, count(*) AS orders, sum(o.quantity) AS quantity FROM customers AS c JOIN orders AS o ON o.customer = c.id GROUP BY c.city"
    ),
    "chains(child, parent, depth)": (
        "WITH RECURSIVE up(child, parent, depth) AS (SELECT id, parent, 1 FROM tree WHERE parent IS NOT NULL"
        " UNION ALL SELECT up.child, tree.parent, up.depth + 1 FROM up JOIN tree ON tree.id = up.parent WHERE tree.parent IS NOT NULL)"
        " SELECT child, parent, depth FROM up"
    ),
}


def make():
    """The tables by name."""
    return {
        "customers": customers(Random("customers")),
        "products": products(Random("products")),
        "orders": orders(Random("orders")),
        "events": events(Random("events")),
        # Seeds with which every key occurs, and NULL among them.
        "a": keyed(Random("a0"), 20, range(-1, 6), ["", "x", "X", "ä", "yy"], pa.int32(), pa.decimal128(9, 2)),
        "b": keyed(Random("b18"), 16, range(1, 8), ["", "x", "zz", "ä", "yy"], pa.int64(), pa.decimal128(12, 3)),
        "nothing": keyed(Random("nothing"), 0, range(1), [""], pa.int32(), pa.decimal128(9, 2)),
        "numbers": numbers(),
        "texts": texts(),
        "moments": moments(),
        "tree": tree(),
        "edges": edges(),
        "spans": spans(Random("spans")),
        "logic": logic(),
    }


def maybe(random, items, null_share=0.15):
    return None if random.random() < null_share else random.choice(items)


def cents(random, low, high):
    return Decimal(random.randrange(low * 100, high * 100)) / 100


def column(row_count, make_item, data_type):
    return pa.array([make_item(index) for index in range(row_count)], data_type)


def customers(random):
    first = dt.date(1950, 1, 1)
    return pa.table(
        {
            "id": pa.array(range(1, 81), pa.int32()),
            "name": column(80, lambda _: random.choice(NAMES), pa.string()),
            "city": column(80, lambda _: maybe(random, CITIES), pa.string()),
            # Some refer to nobody that exists.
            "referrer": column(80, lambda _: maybe(random, range(1, 86), 0.3), pa.int32()),
            "balance": column(80, lambda _: maybe(random, [Decimal("0.00"), cents(random, -500, 1500)]), pa.decimal128(12, 2)),
            "born": column(80, lambda _: maybe(random, [first + dt.timedelta(days=random.randrange(20_000))]), pa.date32()),
            "active": column(80, lambda _: maybe(random, [True, True, False]), pa.bool_()),
            "score": column(80, lambda _: maybe(random, [random.randrange(-20, 40) / 4]), pa.float64()),
        }
    )


def products(random):
    return pa.table(
        {
            "id": pa.array(range(1, 31), pa.int32()),
            "name": column(30, lambda index: f"{CATEGORIES[index % 5]}-{index // 3:02}", pa.string()),
            "category": column(30, lambda _: maybe(random, CATEGORIES), pa.string()),
            "price": column(30, lambda _: cents(random, 0, 200), pa.decimal128(9, 2)),
            "weight": column(30, lambda _: maybe(random, [random.randrange(0, 40) / 4]), pa.float64()),
        }
    )


def orders(random):
    first = dt.date(2022, 11, 20)
    columns = {name: [] for name in ("customer", "product", "quantity", "price", "discount", "ordered", "shipped", "channel", "paid")}
    for _ in range(2500):
        day = first + dt.timedelta(days=random.randrange(500))
        shipped = dt.datetime.combine(day, dt.time()) + dt.timedelta(seconds=random.randrange(10 * 86_400), microseconds=random.choice([0, 500_000, 123_456]))
        row = (
            maybe(random, range(1, 91), 0.05), maybe(random, range(1, 36), 0.05), random.randrange(-3, 20), cents(random, 0, 150),
            maybe(random, [0.0, 0.25, 0.5, -0.25], 0.2), day, maybe(random, [shipped], 0.2), maybe(random, CHANNELS), maybe(random, [True, False]),
        )  # fmt: skip
        for items, item in zip(columns.values(), row):
            items.append(item)
    data_types = [pa.int32(), pa.int32(), pa.int16(), pa.decimal128(9, 2), pa.float64(), pa.date32(), pa.timestamp("us"), pa.string(), pa.bool_()]
    arrays = {name: pa.array(items, data_type) for (name, items), data_type in zip(columns.items(), data_types)}
    return pa.table({"id": pa.array(range(1, 2501), pa.int64()), **arrays})


def events(random):
    at = dt.datetime(2024, 2, 28, 22, 0)
    moments = []
    for _ in range(400):
        at += dt.timedelta(seconds=random.choice([0, 30, 60, 600, 3600]))
        moments.append(at)
    return pa.table(
        {
            "seq": pa.array(range(1, 401), pa.int32()),
            "moment": pa.array(moments, pa.timestamp("us")),
            "sensor": column(400, lambda _: random.choice(["north", "south", "öst", None]), pa.string()),
            "value": column(400, lambda _: maybe(random, [random.randrange(-40, 40) / 4]), pa.float64()),
            "level": column(400, lambda _: maybe(random, range(-3, 6)), pa.int32()),
        }
    )


def keyed(random, row_count, keys, words, integer, decimal):
    """`id`, which is unique, and a key of each type, with values that meet those of other such tables."""
    days = [dt.date(2024, 1, 31), dt.date(2024, 2, 29), dt.date(2024, 3, 1)]
    return pa.table(
        {
            "id": pa.array(range(1, row_count + 1), pa.int32()),
            "k": column(row_count, lambda _: maybe(random, keys, 0.2), integer),
            "t": column(row_count, lambda _: maybe(random, words, 0.2), pa.string()),
            "d": column(row_count, lambda _: maybe(random, [Decimal("0"), Decimal("1.50"), Decimal("-2.25"), Decimal("3")], 0.2), decimal),
            "x": column(row_count, lambda _: maybe(random, [0.0, -0.0, 0.25, 1.5, -2.0], 0.2), pa.float64()),
            "day": column(row_count, lambda _: maybe(random, days, 0.2), pa.date32()),
        }
    )


def numbers():
    def integers(bits):
        top = 2 ** (bits - 1)
        return [0, 1, -1, 2, -2, 3, -3, 5, -7, 7, 10, -10, 42, top - 1, -top, None] + [None, 0, 1, 2, 4, 6, 8, 9]

    floats = [0.0, -0.0, 0.5, -0.5, 1.0, 1.5, -1.5, 2.5, -2.5, 0.25, 100.0, 1e15, -1e15, 0.0625, 0.125, None] + [None, 3.0, 7.75, -7.75, 9.5, 10.5, 1024.0, -3.5]
    exact = ["0", "0.01", "-0.01", "0.05", "1.25", "-1.25", "2.50", "-2.50", "1.49", "99.99", "-99.99", "1000", "-1000", "9999999.99", "-9999999.99", None,
             None, "0.5", "1.5", "-0.5", "10", "33.33", "66.67", "7"]  # fmt: skip
    decimals = [item and Decimal(item) for item in exact]
    return pa.table(
        {
            "id": pa.array(range(1, 25), pa.int32()),
            "i8": pa.array(integers(8), pa.int8()),
            "i16": pa.array(integers(16), pa.int16()),
            "i32": pa.array(integers(32), pa.int32()),
            "i64": pa.array(integers(64), pa.int64()),
            "f32": pa.array(floats[::-1], pa.float32()),
            "f64": pa.array(floats, pa.float64()),
            "d9": pa.array(decimals, pa.decimal128(9, 2)),
            "d18": pa.array(decimals[::-1], pa.decimal128(18, 4)),
            "d38": pa.array(decimals[5:] + decimals[:5], pa.decimal128(38, 10)),
        }
    )


def texts():
    """`t` and, in another order and with NULLs, `u`."""
    others = [None if index % 7 == 3 else TEXTS[index * 11 % len(TEXTS)] for index in range(len(TEXTS))]
    return pa.table(
        {
            "id": pa.array(range(1, len(TEXTS) + 1), pa.int32()),
            "t": pa.array(TEXTS, pa.string()),
            "u": pa.array(others, pa.string()),
        }
    )


def moments():
    days = ["1900-03-01", "1969-12-31", "1970-01-01", "1999-12-31", "2000-01-01", "2000-02-29", "2004-12-31", "2010-06-15", "2015-01-31", "2019-12-30",
            "2020-01-01", "2020-02-29", "2020-03-31", "2020-12-31", "2021-01-01", "2021-01-03", "2021-01-04", "2023-11-05", "2024-02-28", "2024-02-29",
            "2024-12-30", "2038-01-19", "2100-02-28", None]  # fmt: skip
    times = ["00:00:00", "23:59:59.999999", "12:34:56.789", "06:00:00.000001"]
    at = [day and dt.datetime.fromisoformat(f"{day}T{times[index % 4]}") for index, day in enumerate(days)]
    return pa.table(
        {
            "id": pa.array(range(1, 25), pa.int32()),
            "day": pa.array([day and dt.date.fromisoformat(day) for day in days], pa.date32()),
            "moment": pa.array(at, pa.timestamp("us")),
            "zoned": pa.array(at[1:] + at[:1], pa.timestamp("us", "UTC")),
        }
    )


def tree():
    parents = [None, 1, 1, 2, 2, 3, 4, 4, 7, 9, None, 11, 12, 12, 99]
    return pa.table(
        {
            "id": pa.array(range(1, 16), pa.int32()),
            "parent": pa.array(parents, pa.int32()),
            "name": pa.array([f"n{index}" for index in range(1, 16)], pa.string()),
        }
    )


def edges():
    """A graph with cycles and a part that nothing leads to."""
    pairs = [(1, 2, 4), (1, 3, 1), (3, 2, 2), (2, 4, 5), (3, 4, 8), (4, 5, 3), (5, 1, 1), (5, 5, 0), (6, 7, 2), (7, 8, None), (8, 6, 1), (4, 6, 9)]
    sources, targets, costs = zip(*pairs)
    return pa.table({"source": pa.array(sources, pa.int32()), "target": pa.array(targets, pa.int32()), "cost": pa.array(costs, pa.int32())})


def spans(random):
    lows = [maybe(random, range(-10, 30), 0.1) for _ in range(20)]
    highs = [None if low is None or random.random() < 0.1 else low + random.randrange(0, 12) for low in lows]
    return pa.table(
        {
            "id": pa.array(range(1, 21), pa.int32()),
            "low": pa.array(lows, pa.int32()),
            "high": pa.array(highs, pa.int32()),
            "label": column(20, lambda _: maybe(random, ["p", "q", "r"]), pa.string()),
        }
    )


def logic():
    pairs = [(p, q) for p in (True, False, None) for q in (True, False, None)]
    return pa.table(
        {
            "id": pa.array(range(1, 10), pa.int32()),
            "p": pa.array([p for p, _ in pairs], pa.bool_()),
            "q": pa.array([q for _, q in pairs], pa.bool_()),
        }
    )


def give_to_duckdb(duckdb, tables):
    for name, rows in tables.items():
        duckdb.connection.register("incoming", rows)
        duckdb.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        duckdb.connection.unregister("incoming")
    for name, query in VIEWS.items():
        duckdb.connection.execute(f"CREATE VIEW {name} AS {query}")


def give_to_pelton(connection, tables):
    """As tables of the warehouse, in row groups so small that some can be skipped."""
    for name, rows in tables.items():
        connection.load(name, rows, row_group_rows=64, page_rows=1024, threads=1)
    for name, query in VIEWS.items():
        connection.sql(f"CREATE VIEW {name} AS {query}")
