"""Pelton in several configurations, DuckDB and PostgreSQL 15 as judge; answers normalised to lists of tuples."""
import sys, re, signal, math, datetime as dt, os
from decimal import Decimal
sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = ["PACKAGE", HERE + "/lib"]
import pyarrow as pa, pyarrow.types as pt, duckdb, pelton, psycopg

class Failed(str): pass

def num(v):
    return v

def plain(col):
    t = col.type
    if pt.is_dictionary(t): col = col.combine_chunks().dictionary_decode(); t = col.type
    if pt.is_date32(t): return [None if v is None else v * 86400 * 10**9 for v in col.cast(pa.int32()).to_pylist()]
    if pt.is_timestamp(t):
        f = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[t.unit]
        return [None if v is None else v * f for v in col.cast(pa.int64()).to_pylist()]
    if pt.is_time(t): return [None if v is None else str(v) for v in col.to_pylist()]
    if pt.is_duration(t):
        f = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[t.unit]
        return [None if v is None else (0, v * f) for v in col.cast(pa.int64()).to_pylist()]
    return [nest(v) for v in col.to_pylist()]

def nest(v):
    if isinstance(v, pa.MonthDayNano): return (v.months, v.days * 86400 * 10**9 + v.nanoseconds)
    if isinstance(v, dict): return tuple(nest(i) for i in v.values())
    if isinstance(v, (list, tuple)): return tuple(nest(i) for i in v)
    if isinstance(v, dt.datetime):
        if v.tzinfo: v = v.astimezone(dt.timezone.utc).replace(tzinfo=None)
        d = v - dt.datetime(1970, 1, 1); return (d.days * 86400 + d.seconds) * 10**9 + d.microseconds * 1000
    if isinstance(v, dt.date): return (v - dt.date(1970, 1, 1)).days * 86400 * 10**9
    if isinstance(v, dt.timedelta): return (0, (v.days * 86400 + v.seconds) * 10**9 + v.microseconds * 1000)
    if isinstance(v, memoryview): return bytes(v)
    return v

def family(t):
    if pt.is_integer(t) or pt.is_decimal(t): return "exact"
    if pt.is_floating(t): return "float"
    if pt.is_date(t): return "date"
    if pt.is_timestamp(t): return "tz" if t.tz else "ts"
    if pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t): return "text"
    if pt.is_null(t): return "null"
    if pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t): return "blob"
    if pt.is_duration(t) or pt.is_interval(t): return "interval"
    if pt.is_list(t) or pt.is_large_list(t): return "list"
    return str(t)

class Rows:
    def __init__(self, rows, kinds, table=None): self.rows, self.kinds, self.table = rows, kinds, table
    def show(self, n=8, srt=True):
        rs = sorted(self.rows, key=key) if srt else self.rows
        return f"{len(rs)} rows {self.kinds}\n      " + "\n      ".join(str(tuple(str(v) if isinstance(v, Decimal) else v for v in r)) for r in rs[:n])

def from_arrow(t):
    cols = [plain(c) for c in t.columns]
    return Rows(list(zip(*cols)) if cols else [], [family(f.type) for f in t.schema])

def kv(v):
    if v is None: return (0, 0)
    if isinstance(v, bool): return (1, float(v))
    if isinstance(v, (int, Decimal, float)):
        if isinstance(v, float):
            if math.isnan(v): return (3, 0)
            return (1, float("%.9g" % v) + 0.0)
        try: return (1, float("%.9g" % v) + 0.0)
        except OverflowError: return (1, math.inf)
    if isinstance(v, str): return (4, v)
    if isinstance(v, bytes): return (5, v)
    return (6, tuple(kv(i) for i in v))
def key(row): return [kv(v) for v in row]

def same(a, b, tol):
    if a is None or b is None: return a is b
    if isinstance(a, tuple) and isinstance(b, tuple): return len(a) == len(b) and all(same(x, y, tol) for x, y in zip(a, b))
    if isinstance(a, (str, bytes)) or isinstance(b, (str, bytes)): return type(a) == type(b) and a == b
    if isinstance(a, tuple) or isinstance(b, tuple): return False
    if isinstance(a, bool) != isinstance(b, bool): return False
    if isinstance(a, float) or isinstance(b, float):
        x, y = float(a), float(b)
        if math.isnan(x) or math.isnan(y): return math.isnan(x) and math.isnan(y)
        if math.isinf(x) or math.isinf(y): return x == y
        return abs(x - y) <= tol * max(abs(x), abs(y)) + (1e-12 if tol else 0)
    return a == b

def compare(a, b, seq=False, tol=1e-8, types=True):
    """None if they agree."""
    if isinstance(a, Failed) or isinstance(b, Failed):
        return None if isinstance(a, Failed) and isinstance(b, Failed) else "error"
    if len(a.kinds) != len(b.kinds): return "columns"
    if len(a.rows) != len(b.rows): return f"row count {len(a.rows)} / {len(b.rows)}"
    ra, rb = (a.rows, b.rows) if seq else (sorted(a.rows, key=key), sorted(b.rows, key=key))
    for x, y in zip(ra, rb):
        if not all(same(p, q, tol) for p, q in zip(x, y)): return f"row {x} / {y}"
    if types and a.kinds and b.kinds:
        for i, (p, q) in enumerate(zip(a.kinds, b.kinds)):
            if p != q and "null" not in (p, q): return f"type of column {i}: {p} / {q}"
    return None

class Slow(Exception): pass
def alarm(*_): raise TimeoutError("slow")

class Pelton:
    def __init__(self, name, warehouse, parquet, in_place=False, seconds=60, **kw):
        self.name, self.parquet, self.in_place, self.seconds = name, parquet, in_place, seconds
        self.con = pelton.connect(warehouse, progress=False, **kw)
    def text(self, sql):
        return re.sub(r"@(\w+)@", lambda m: f"'{self.parquet}/{m[1]}.parquet'" if self.in_place else m[1], sql)
    def ask(self, sql, raw=False):
        signal.signal(signal.SIGALRM, alarm); signal.alarm(self.seconds)
        try:
            t = self.con.sql(self.text(sql)).arrow()
            return t if raw else from_arrow(t)
        except (pelton.Error, TimeoutError) as e: return Failed(f"{type(e).__name__}: {e}")
        except KeyboardInterrupt: raise
        except BaseException as e: return Failed(f"PYTHON {type(e).__name__}: {e}")
        finally: signal.alarm(0)

class Duck:
    def __init__(self, tables, threads=2, memory="2GB", seconds=20):
        self.seconds = seconds
        self.con = duckdb.connect()
        self.con.execute(f"SET TimeZone='UTC'; SET threads={threads}; SET memory_limit='{memory}'; SET default_null_order='nulls_last_on_asc_first_on_desc'; SET preserve_insertion_order=true")
        for n, rows in tables.items():
            self.con.register("incoming", rows); self.con.execute(f"CREATE TABLE {n} AS SELECT * FROM incoming"); self.con.unregister("incoming")
    def ask(self, sql, raw=False):
        import threading
        timer = threading.Timer(self.seconds, self.con.interrupt); timer.start()
        try:
            t = self.con.sql(re.sub(r"@(\w+)@", r"\1", sql)).to_arrow_table()
            return t if raw else from_arrow(t)
        except duckdb.Error as e: return Failed(f"{type(e).__name__}: {e}")
        except RuntimeError as e: return Failed(str(e))
        finally: timer.cancel()

class Postgres:
    def __init__(self, tables):
        from tables import pg_type
        self.con = psycopg.connect("host=scratch port=55777 user=postgres", autocommit=True)
        self.con.execute("SET statement_timeout='20s'")
        for n, rows in tables.items():
            if rows.num_rows > 1000: continue
            self.con.execute(f"DROP TABLE IF EXISTS {n}; CREATE TABLE {n} (" + ", ".join(f'"{f.name}" {pg_type(f.type)}' for f in rows.schema) + ")")
            if rows.num_rows:
                with self.con.cursor() as c:
                    c.executemany(f"INSERT INTO {n} VALUES (" + ",".join(["%s"] * rows.num_columns) + ")", [tuple(r.values()) for r in rows.to_pylist()])
    def ask(self, sql):
        sql = re.sub(r"@(\w+)@", r"\1", sql).replace("%", "%%") if False else re.sub(r"@(\w+)@", r"\1", sql)
        try:
            c = self.con.execute(sql)
            if c.description is None: return Failed("no rows")
            return Rows([tuple(nest(v) for v in r) for r in c.fetchall()], [None] * len(c.description))
        except (psycopg.Error, OverflowError, ValueError) as e: return Failed(f"{type(e).__name__}: {e}")
