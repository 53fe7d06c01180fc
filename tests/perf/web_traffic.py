#!/usr/bin/env python3
"""Analytical queries over a web-traffic table (long texts, many distinct values, wide group keys): answers and times.

    python3 tests/perf/web_traffic.py generate --rows 3000000 build/web
    python3 tests/perf/web_traffic.py answers build/web target/release/pelton
    python3 tests/perf/web_traffic.py times build/web OLD/pelton target/release/pelton --runs 5

1. `generate` writes hits.parquet with DuckDB: columns and shapes are those of such logs, values come from hashes.
2. `answers` holds each query without its ORDER BY and LIMIT, which leave ties open, against DuckDB's rows in any order:
   integers and text exactly, numbers with a point to 1e-9.
3. `times` loads the file into a warehouse of each of two binaries and runs every query with both in turn, a process
   each, from start to end. Prints the least and the median of the milliseconds, their ratios, and the sums.

The queries are in web_traffic.sql, one a line. Needs the package duckdb of tests/oracle/requirements.txt.
"""

import argparse
import csv
import io
import math
import pathlib
import re
import statistics
import subprocess
import sys
import time

import duckdb

QUERIES = pathlib.Path(__file__).with_suffix(".sql")

COLUMNS = """
    (hash(i) >> 1)::BIGINT AS "WatchID",
    (hash(i + 1) % 10 < 7)::SMALLINT AS "JavaEnable",
    CASE WHEN hash(i + 2) % 10 < 2 THEN '' ELSE 'Title ' || (hash(i + 3) % 50000) || ' of the page about '
        || (hash(i + 4) % 300) END AS "Title",
    1::SMALLINT AS "GoodEvent",
    TIMESTAMP '2013-07-01' + to_seconds((hash(i + 5) % 2678400)::BIGINT) AS "EventTime",
    (TIMESTAMP '2013-07-01' + to_seconds((hash(i + 5) % 2678400)::BIGINT))::DATE AS "EventDate",
    CASE WHEN hash(i + 6) % 20 = 0 THEN 62 ELSE (pow(hash(i + 7) % 1000 / 1000.0, 3) * 8000)::INT END AS "CounterID",
    (hash(i + 8) % 2000000000)::INT AS "ClientIP",
    (pow(hash(i + 9) % 1000 / 1000.0, 2) * 5000)::INT AS "RegionID",
    (hash((hash(i + 10) % {users}) + 7) >> 1)::BIGINT AS "UserID",
    (hash(i + 11) % 60)::SMALLINT AS "OS",
    (hash(i + 12) % 80)::SMALLINT AS "UserAgent",
    'http://' || CASE WHEN hash(i + 13) % 50 = 0 THEN 'www.google.com' ELSE 'site' || (hash(i + 13) % 3000) || '.ru' END
        || '/path/' || (hash(i + 14) % {pages}) || '?q=' || (hash(i + 15) % 100) AS "URL",
    CASE WHEN hash(i + 16) % 3 = 0 THEN '' ELSE 'http://ref' || (hash(i + 16) % 2000) || '.com/'
        || (hash(i + 17) % 20000) END AS "Referer",
    (hash(i + 18) % 10 = 0)::SMALLINT AS "IsRefresh",
    (hash(i + 19) % 20000)::BIGINT * 997 AS "RefererHash",
    (hash(i + 14) % 20000)::BIGINT * 991 AS "URLHash",
    (800 + hash(i + 20) % 20 * 60)::SMALLINT AS "ResolutionWidth",
    (hash(i + 21) % 2000)::SMALLINT AS "WindowClientWidth",
    (hash(i + 22) % 1200)::SMALLINT AS "WindowClientHeight",
    (CASE WHEN hash(i + 23) % 5 = 0 THEN hash(i + 24) % 40 ELSE 0 END)::SMALLINT AS "SearchEngineID",
    CASE WHEN hash(i + 23) % 5 = 0 THEN 'phrase ' || (hash(i + 25) % 40000) ELSE '' END AS "SearchPhrase",
    (CASE WHEN hash(i + 26) % 40 = 0 THEN 1 + hash(i + 27) % 20 ELSE 0 END)::SMALLINT AS "AdvEngineID",
    (hash(i + 28) % 80)::SMALLINT AS "MobilePhone",
    CASE WHEN hash(i + 29) % 8 = 0 THEN 'Model ' || (hash(i + 30) % 160) ELSE '' END AS "MobilePhoneModel",
    ((hash(i + 31) % 8)::SMALLINT - 1)::SMALLINT AS "TraficSourceID",
    (hash(i + 32) % 5 = 0)::SMALLINT AS "IsLink",
    (hash(i + 33) % 50 = 0)::SMALLINT AS "IsDownload",
    (hash(i + 34) % 30 = 0)::SMALLINT AS "DontCountHits"
"""


def queries():
    return [line for line in QUERIES.read_text().splitlines() if line.strip()]


def generate(args):
    args.dir.mkdir(parents=True, exist_ok=True)
    columns = COLUMNS.format(users=max(args.rows // 6, 1), pages=max(args.rows // 4, 1))
    duckdb.execute(
        f"COPY (SELECT {columns} FROM range({args.rows}) AS r(i)) TO '{args.dir / 'hits.parquet'}'"
        " (FORMAT parquet, ROW_GROUP_SIZE 122880)"
    )


def pelton(binary, *args):
    done = subprocess.run([binary, *args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{binary} {' '.join(args)}: {done.stderr}")
    return done.stdout


def loaded(directory, binary, name):
    warehouse = directory / name
    if not warehouse.exists():
        pelton(binary, "load", "--warehouse", str(warehouse), "--table", "hits", str(directory / "hits.parquet"))
    return str(warehouse)


def cell(text):
    """A number without zeros at its end, or the text."""
    if text is None:
        return ""
    text = str(text)
    if re.fullmatch(r"-?\d+", text):
        return text
    try:
        number = float(text)
    except ValueError:
        return re.sub(r"T(\d\d:)", r" \1", text)
    return f"{number:.9e}" if math.isfinite(number) else text


def unordered(query):
    return re.sub(r" ORDER BY .*| LIMIT .*", "", query.rstrip(";"))


def answers(args):
    warehouse = loaded(args.dir, args.pelton, "warehouse-answers")
    duckdb.execute(f"CREATE VIEW hits AS FROM '{args.dir / 'hits.parquet'}'")
    wrong = 0
    for number, query in enumerate(queries(), 1):
        query = unordered(query)
        text = pelton(args.pelton, "sql", "--warehouse", warehouse, "--format", "csv", query)
        ours = sorted(tuple(map(cell, row)) for row in list(csv.reader(io.StringIO(text)))[1:])
        theirs = sorted(tuple(map(cell, row)) for row in duckdb.sql(query).fetchall())
        if ours != theirs:
            wrong += 1
            pair = next((pair for pair in zip(ours, theirs) if pair[0] != pair[1]), "of other lengths")
            print(f"Q{number}: {len(ours)} and {len(theirs)} rows, first difference {pair}: {query}")
    print(f"{len(queries()) - wrong} of {len(queries())} answers equal DuckDB {duckdb.__version__}")
    sys.exit(wrong > 0)


def times(args):
    sides = {"old": args.old, "new": args.new}
    warehouses = {side: loaded(args.dir, binary, f"warehouse-{side}") for side, binary in sides.items()}
    sums = {side: [0.0, 0.0] for side in sides}
    print("query   old least  median   new least  median   ratios")
    for number, query in enumerate(queries(), 1):
        found = {side: [] for side in sides}
        for run in range(args.runs):
            for side in list(sides)[:: 1 if run % 2 else -1]:
                started = time.perf_counter()
                pelton(sides[side], "sql", "--warehouse", warehouses[side], "--format", "csv", query)
                found[side].append((time.perf_counter() - started) * 1e3)
        of = {side: (min(values), statistics.median(values)) for side, values in found.items()}
        for side in sides:
            sums[side] = [total + value for total, value in zip(sums[side], of[side])]
        line(f"Q{number}", of)
    line("sum", sums)


def line(name, of):
    (old, old_median), (new, new_median) = of["old"], of["new"]
    ratios = f"{new / old:5.2f}  {new_median / old_median:5.2f}"
    print(f"{name:<6} {old:10.1f} {old_median:7.1f}  {new:10.1f} {new_median:7.1f}   {ratios}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(required=True)
    mode = modes.add_parser("generate")
    mode.add_argument("dir", type=pathlib.Path)
    mode.add_argument("--rows", type=int, default=3_000_000)
    mode.set_defaults(run=generate)
    mode = modes.add_parser("answers")
    mode.add_argument("dir", type=pathlib.Path)
    mode.add_argument("pelton")
    mode.set_defaults(run=answers)
    mode = modes.add_parser("times")
    mode.add_argument("dir", type=pathlib.Path)
    mode.add_argument("old")
    mode.add_argument("new")
    mode.add_argument("--runs", type=int, default=5)
    mode.set_defaults(run=times)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
