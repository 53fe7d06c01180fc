"""The time of a query through the Python package, from its text to a pyarrow.Table, beside the same through Rust.

    python tests/perf/python.py make DIR [ROWS]      a warehouse with the table "wide"
    python tests/perf/python.py run DIR EXAMPLE RUNS
    python tests/perf/python.py cost DIR RUNS

`run` takes the time of both in turn, so that both see the same machine; EXAMPLE is target/release/examples/select_rows.
`cost` takes the processor time of what Python adds to a query that Rust has run: handing the batches to pyarrow, and
giving them back. It says the same on a busy machine.
"""

import re
import resource
import statistics
import subprocess
import sys
import time

import pelton
import pyarrow

QUERIES = [
    "SELECT id FROM wide",
    "SELECT id, day, price FROM wide",
    "SELECT id, day, price, name FROM wide",
    "SELECT id, price FROM wide WHERE day = 3",
]


def make(dir: str, rows: int) -> None:
    columns = "value AS id, value % 7 AS day, value * 0.25 AS price, concat('name ', value % 1000) AS name"
    with pelton.connect(dir) as con:
        con.load("wide", con.sql(f"SELECT {columns} FROM range({rows})"))


def in_python(con: pelton.Connection, sql: str) -> float:
    started = time.perf_counter()
    table = con.sql(sql).arrow()
    milliseconds = (time.perf_counter() - started) * 1e3
    assert table.num_rows > 0
    return milliseconds


def in_rust(dir: str, example: str, sql: str, runs: int) -> float:
    printed = subprocess.run([example, dir, str(runs), sql], capture_output=True, text=True, check=True).stdout
    return float(re.search(r"median ([\d.]+) ms", printed)[1])


def compare(dir: str, example: str, runs: int) -> None:
    print("| query | Rust ms | Python ms | ratio |\n| --- | --- | --- | --- |")
    for sql in QUERIES:
        pairs = []
        for _ in range(runs):
            rust = in_rust(dir, example, sql, 5)
            with pelton.connect(dir, progress=False) as con:
                pairs.append((rust, statistics.median(in_python(con, sql) for _ in range(5))))
        rust, python = (statistics.median(times) for times in zip(*pairs, strict=True))
        print(f"| `{sql}` | {rust:.1f} | {python:.1f} | {python / rust:.2f} |", flush=True)


def processor_ms() -> float:
    """Of all threads of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1e3


def cost(dir: str, runs: int) -> None:
    print("| query | batches | query ms | Python's share ms | ratio |\n| --- | --- | --- | --- | --- |")
    con = pelton.connect(dir, progress=False)
    for sql in QUERIES:
        in_python(con, sql)
        query, added, batches = 0.0, 0.0, 0
        for _ in range(runs):
            started = processor_ms()
            rows = con.sql(sql)._collect()
            ran = processor_ms()
            table = pyarrow.table(rows)
            batches = table.column(0).num_chunks
            del table, rows
            query, added = query + ran - started, added + processor_ms() - ran
        ratio = added / query
        print(f"| `{sql}` | {batches} | {query / runs:.1f} | {added / runs:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", dir, *rows]:
            make(dir, int(rows[0]) if rows else 10_000_000)
        case ["run", dir, example, runs]:
            compare(dir, example, int(runs))
        case ["cost", dir, runs]:
            cost(dir, int(runs))
        case _:
            sys.exit(__doc__)
