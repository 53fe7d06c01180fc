"""Tables for the hunt: small ones (t1, t2, t3, te), extremes (xt), and large ones (big, mid, dim)."""
import datetime as dt, math, os
from decimal import Decimal as D
from random import Random
import pyarrow as pa, pyarrow.parquet as pq, numpy as np

TEXTS = ["", "a", "A", "b", "ab", "äö", "日本", "a%b", "a_b", "zz", "😀", "it's", " a", "a\\b"]
I, L, S = pa.int32(), pa.int64(), pa.int16()
PG = {"int8": "smallint", "int16": "smallint", "int32": "integer", "int64": "bigint", "float": "real", "double": "double precision",
      "string": "text", "bool": "boolean", "date32[day]": "date", "timestamp[us]": "timestamp", "timestamp[us, tz=UTC]": "timestamptz", "binary": "bytea"}

def pg_type(t):
    return f"numeric({t.precision},{t.scale})" if pa.types.is_decimal(t) else PG[str(t)]

def keyed(seed, n, ktype, mtype, dtype, etype, null=0.15):
    r = Random(seed)
    def col(f, p=null):
        return [None if r.random() < p else f() for _ in range(n)]
    q = lambda: r.randrange(-6, 10) * 0.25
    sc = lambda t: D(1).scaleb(-t.scale)
    c = {
        "id": (pa.int32(), list(range(1, n + 1))),
        "k": (ktype, col(lambda: r.randrange(-2, 7))),
        "m": (mtype, col(lambda: r.choice([0, 1, 1, 1, 2, 3]))),
        "x": (pa.float64(), col(q)),
        "w": (pa.float64(), col(lambda: r.choice([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, 2.0]))),
        "d": (dtype, col(lambda: D(r.randrange(-8, 12)) / 4)),
        "e": (etype, col(lambda: D(r.randrange(-3, 7)) / 2)),
        "t": (pa.string(), col(lambda: r.choice(TEXTS[:7]))),
        "u": (pa.string(), col(lambda: r.choice(TEXTS))),
        "p": (pa.bool_(), col(lambda: r.random() < .5)),
        "day": (pa.date32(), col(lambda: dt.date(2024, 2, 26) + dt.timedelta(r.randrange(8)))),
        "ts": (pa.timestamp("us"), col(lambda: dt.datetime(2024, 2, 26) + dt.timedelta(hours=r.randrange(0, 16) * 12))),
        "tz": (pa.timestamp("us", "UTC"), col(lambda: dt.datetime(2024, 2, 26) + dt.timedelta(hours=r.randrange(0, 16) * 12))),
        "h": (pa.binary(), col(lambda: r.choice([b"", b"a", b"ab", b"\x00\xff"]))),
    }
    return pa.table({k: pa.array(v, t) for k, (t, v) in c.items()})

def extremes():
    r = Random("xt")
    n = 40
    pick = lambda vals: [r.choice(vals + [None]) for _ in range(n)]
    d38 = D("99999999999999999999999999999999999999")
    c = {
        "id": (I, list(range(1, n + 1))),
        "i16": (S, pick([-32768, 32767, 0, 1, -1])),
        "i32": (I, pick([-2**31, 2**31 - 1, 0, 1, -1, 7])),
        "i64": (L, pick([-2**63, 2**63 - 1, 0, 1, -1, 2**53, 2**53 + 1, 2**53 - 1])),
        "f": (pa.float64(), pick([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, 2.0**53, 2.0**53 + 2, 1e308, 5e-324, -1.0, 0.1, 2.0**63])),
        "r": (pa.float32(), pick([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, 0.1, 16777216.0])),
        "d9": (pa.decimal128(9, 2), pick([D("9999999.99"), D("-9999999.99"), D(0), D("0.01"), D("1.00"), D("7.00")])),
        "d18": (pa.decimal128(18, 0), pick([D(10**18 - 1), D(1 - 10**18), D(0), D(1), D(2**53), D(2**53 + 1)])),
        "d38": (pa.decimal128(38, 0), pick([d38, D("-99999999999999999999999999999999999999"), D(0), D(1), D(2**63), D(2**63 - 1), D(2**53 + 1)])),
        "s38": (pa.decimal128(38, 37), pick([D("9.9999999999999999999999999999999999999"), D("0.0000000000000000000000000000000000001"), D(0), D(1), D("0.1")])),
        "t": (pa.string(), pick(TEXTS + ["a\x01", "\u00e9", "e\u0301", "ß", "ẞ", "ﬀ", "İ", "%", "_", "\\", "%%", "100%", "a\nb"])),
        "day": (pa.date32(), pick([dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2000, 2, 29), dt.date(1900, 2, 28)])),
        "ts": (pa.timestamp("us"), pick([dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2000, 2, 29)])),
        "tz": (pa.timestamp("us", "UTC"), pick([dt.datetime(1, 1, 1), dt.datetime(2024, 3, 31, 1), dt.datetime(2024, 10, 27, 0, 30), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)])),
        "p": (pa.bool_(), pick([True, False])),
        "h": (pa.binary(), pick([b"", b"a", b"ab", b"\x00\xff", b"\x00", b"\xff"])),
    }
    return pa.table({k: pa.array(v, t) for k, (t, v) in c.items()})

def large(seed, n, keys):
    """Skewed keys, clustered by id, columns of the same names and kinds as the small ones."""
    g = np.random.default_rng(seed)
    def nul(a, typ, p=0.07):
        return pa.array(a, mask=g.random(n) < p).cast(typ)
    k = np.where(g.random(n) < .3, 3, g.integers(0, keys, n))
    days = 19700 + (np.arange(n) * 200 // n)
    us = days.astype("int64") * 86400_000_000 + g.integers(0, 24, n) * 3600_000_000
    words = np.array(TEXTS, dtype=object)
    return pa.table({
        "id": pa.array(np.arange(1, n + 1), pa.int32()),
        "k": nul(k, L), "m": nul(g.integers(0, 50, n), I),
        "x": nul(g.integers(-4000, 4000, n) * 0.25, pa.float64()),
        "w": nul(g.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5], n), pa.float64()),
        "d": pa.array(g.integers(-100000, 100000, n), mask=g.random(n) < .07).cast(pa.decimal128(20, 0)).cast(pa.decimal128(15, 2)),
        "e": pa.array(g.integers(-100, 100, n), mask=g.random(n) < .07).cast(pa.decimal128(20, 0)).cast(pa.decimal128(38, 4)),
        "t": pa.array(words[g.integers(0, len(TEXTS), n)], mask=g.random(n) < .07),
        "u": pa.array(np.char.add("v", g.integers(0, n, n).astype(str)).astype(object), mask=g.random(n) < .07),
        "p": nul(g.random(n) < .5, pa.bool_()),
        "day": nul(days.astype("int32"), pa.int32()).cast(pa.date32()),
        "ts": nul(us, L).cast(pa.timestamp("us")), "tz": nul(us, L).cast(pa.timestamp("us", "UTC")),
        "h": pa.array([x.encode() for x in np.char.add("", g.integers(0, 90, n).astype(str))], pa.binary()),
    })

KINDS = {"id": "int", "k": "int", "m": "int", "x": "float", "w": "wild", "d": "dec", "e": "dec", "t": "text", "u": "text", "p": "bool", "day": "date", "ts": "ts", "tz": "tz", "h": "blob"}
KINDS_X = {"id": "int", "i16": "int", "i32": "int", "i64": "int", "f": "wild", "r": "wild", "d9": "dec", "d18": "dec", "d38": "dec", "s38": "dec", "t": "text", "day": "date", "ts": "ts", "tz": "tz", "p": "bool", "h": "blob"}

def make(with_large=False):
    t = {
        "t1": keyed("t1", 24, I, S, pa.decimal128(9, 2), pa.decimal128(38, 4)),
        "t2": keyed("t2", 15, L, I, pa.decimal128(12, 3), pa.decimal128(20, 1)),
        "t3": keyed("t3", 6, S, L, pa.decimal128(9, 2), pa.decimal128(38, 4), 0.3),
        "te": keyed("te", 0, I, I, pa.decimal128(9, 2), pa.decimal128(38, 4)),
        "xt": extremes(),
    }
    if with_large:
        t.update(big=large(1, 400_000, 5000), mid=large(2, 60_000, 20000), dim=large(3, 5000, 5000))
    return t

def write_parquet(tables, folder):
    os.makedirs(folder, exist_ok=True)
    for name, rows in tables.items():
        n = max(1, rows.num_rows)
        pq.write_table(rows, f"{folder}/{name}.parquet", row_group_size=7 if n < 100 else 30_000, use_dictionary=name != "t2", data_page_size=4096 if n > 100 else None)
