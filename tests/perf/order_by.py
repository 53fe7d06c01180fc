#!/usr/bin/env python3
"""ORDER BY, the first hundredth by a key, and a running sum over partitions: Pelton beside DuckDB with its tables in memory.

    python3 tests/perf/order_by.py build/bench target/release/pelton --scale 10 --runs 3 [--device gpu] [--tiers device,cpu]

Over lineorder of the Star Schema Benchmark, generated and loaded where it is missing (`pelton bench queries ssb`). A time
is that of a query until its last row is there: of Pelton with `--format none`, of DuckDB as Arrow batches that are
dropped; the median of the warm runs. `device`: one process whose columns are in device memory, as they have been read
before. `pinned`: the same with the table in pinned memory and no columns kept on the device. `cpu`: the same with
--device cpu.

Answers are held against DuckDB's at the size that is timed: five slices of 1,000 rows of a whole order, and of the running
sum how many there are, their sum, and the sum of what a remainder makes of each. Exits with 1 where one differs. Needs the
package duckdb of tests/oracle/requirements.txt.
"""

import argparse
import csv
import io
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import duckdb

COLUMNS = "lo_orderkey, lo_custkey, lo_revenue, lo_orderdate"
QUERIES = {
    "order by two keys": f"SELECT {COLUMNS} FROM lineorder ORDER BY lo_revenue DESC, lo_orderkey",
    "order by one key": f"SELECT {COLUMNS} FROM lineorder ORDER BY lo_custkey",
    "first hundredth": f"SELECT {COLUMNS} FROM lineorder ORDER BY lo_revenue DESC, lo_orderkey LIMIT {{hundredth}}",
    "running sum": "SELECT lo_custkey, sum(lo_revenue) OVER (PARTITION BY lo_custkey ORDER BY lo_orderkey, lo_linenumber) "
                   "AS running FROM lineorder",
}
# Nothing ties in it, so that rows have one order.
WHOLE = ("SELECT lo_orderkey, lo_linenumber, lo_custkey, lo_revenue FROM lineorder "
         "ORDER BY lo_revenue DESC, lo_orderkey, lo_linenumber LIMIT 1000 OFFSET {offset}")
CHECK = f"SELECT count(*), sum(running), sum(running % 1000003) FROM ({QUERIES['running sum']})"


def pelton(args, statements, *flags):
    path = args.dir / "order-by.sql"
    path.write_text(";\n".join(statements) + ";\n")
    command = [args.pelton, "sql", "--warehouse", args.warehouse, *flags, "--file", path]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"pelton: {done.stderr[-2000:]}")
    return done


def flags_of(args, tier):
    pinned = ["--pin", "lineorder", "--device-cache", "0"] if tier == "pinned" else []
    return ["--device", "cpu" if tier == "cpu" else args.device, *pinned]


def times(args, queries, tier):
    statements = [sql for sql in queries.values() for _ in range(args.runs + 2)]
    found = pelton(args, statements, *flags_of(args, tier), "--format", "none", "--stats")
    seconds = [float(text) for text in re.findall(r"^\d+ rows? in ([0-9.]+) s", found.stderr, re.M)]
    each = args.runs + 2
    of = [seconds[start:start + each] for start in range(0, len(seconds), each)]
    # The first two runs read columns, cache them and compile kernels.
    return {name: statistics.median(samples[2:]) * 1e3 for name, samples in zip(queries, of)}


def times_of_duckdb(connection, queries, runs):
    found = {}
    for name, sql in queries.items():
        samples = []
        for _ in range(runs + 1):
            started = time.perf_counter()
            for _ in connection.sql(sql).to_arrow_reader(1 << 17):
                pass
            samples.append((time.perf_counter() - started) * 1e3)
        found[name] = statistics.median(samples[1:])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("pelton")
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--tiers", default="device,cpu")
    parser.add_argument("--only", default="", help="queries whose name has this word")
    args = parser.parse_args()
    args.scale = int(args.scale) if args.scale == int(args.scale) else args.scale
    directory = args.dir / f"ssb-sf{args.scale}"
    args.warehouse = directory / "warehouse"
    if not (directory / "parquet").exists():
        subprocess.run([args.pelton, "bench", "queries", "ssb", "--scale", str(args.scale), "--dir", str(args.dir), "--runs",
                        "1", "--only", "Q1.1", "--pelton-only"], check=True, capture_output=True)
    connection = duckdb.connect(config={"threads": os.cpu_count()})
    connection.execute(
        f"CREATE TABLE lineorder AS SELECT * FROM read_parquet('{directory}/parquet/lineorder/*.parquet')")
    rows = connection.execute("SELECT count(*) FROM lineorder").fetchall()[0][0]
    queries = {name: sql.format(hundredth=rows // 100) for name, sql in QUERIES.items() if args.only in name}
    figures = {"duckdb": times_of_duckdb(connection, queries, args.runs)}
    for tier in args.tiers.split(","):
        figures[tier] = times(args, queries, tier)
    print(f"{rows} rows of lineorder, ms")
    print(f"{'':<20}" + "".join(f"{name:>12}" for name in figures) + "".join(f"{'DuckDB/' + name:>16}" for name in args.tiers.split(",")))
    for name in queries:
        ratios = [figures["duckdb"][name] / figures[tier][name] for tier in args.tiers.split(",")]
        print(f"{name:<20}" + "".join(f"{figures[of][name]:>12.1f}" for of in figures)
              + "".join(f"{ratio:>16.2f}" for ratio in ratios), flush=True)

    offsets = [0, rows // 7, rows // 2, rows * 6 // 7, rows - 1000]
    found = pelton(args, [WHOLE.format(offset=offset) for offset in offsets], "--device", args.device, "--format", "csv")
    ours = [row for row in csv.reader(io.StringIO(found.stdout)) if row and not row[0].startswith("lo_")]
    theirs = [[str(cell) for cell in row] for offset in offsets
              for row in connection.execute(WHOLE.format(offset=offset)).fetchall()]
    is_same = ours == theirs
    print(f"{len(ours)} rows of a whole order at {len(offsets)} places: {'as DuckDB' if is_same else 'NOT as DuckDB'}")
    found = pelton(args, [CHECK], "--device", args.device, "--format", "csv")
    theirs = ",".join(str(cell) for cell in connection.execute(CHECK).fetchall()[0])
    is_same_sum = found.stdout.splitlines()[-1] == theirs
    print(f"running sums: {theirs}: {'as DuckDB' if is_same_sum else 'NOT as DuckDB: ' + found.stdout.splitlines()[-1]}")
    return 0 if is_same and is_same_sum else 1


if __name__ == "__main__":
    sys.exit(main())
