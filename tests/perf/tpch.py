#!/usr/bin/env python3
"""TPC-H on Pelton, from device memory, from pinned memory and by default, beside DuckDB with its tables in memory.

    python3 tests/perf/tpch.py build/bench target/release/pelton --scale 10 --runs 3 [--modes device,pinned,default,cpu]

One run: generates and loads the data set where it is missing (`pelton bench queries`), reads the same Parquet files
into DuckDB's memory, takes the median of its warm runs, and then, mode by mode:

  device, pinned   `pelton bench queries --device gpu --data-tier ...`: one session, warm medians
  cpu              the same with --device cpu
  default          no flag, one new process: all queries three times in a row, as `pelton sql --stats` tells them

Then each query's answer with --device gpu (or --device of the command line) is held against DuckDB's: rows in the
order of the query, integers and text exactly, numbers with a point to 1e-6 of each other. Prints a table; --json
writes all figures. Needs the package duckdb of tests/oracle/requirements.txt.
"""

import argparse
import csv
import io
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import duckdb

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUERIES = [f"Q{number}" for number in range(1, 23)]


def text_of(query, scale):
    sql = (ROOT / "queries" / "tpch" / f"{query}.sql").read_text()
    return sql.replace("0.0001 /* divided by the scale */", f"{0.0001 / scale:.10f}")


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{' '.join(map(str, command))}: {done.stderr[-2000:]}", file=sys.stderr)
    return done


def bench(args, mode, directory):
    flags = {
        "device": ["--device", args.device, "--data-tier", "device"],
        "pinned": ["--device", args.device, "--data-tier", "pinned"],
        "cpu": ["--device", "cpu"],
    }[mode]
    results = directory / f"{mode}.json"
    results.unlink(missing_ok=True)
    run(args.pelton, "bench", "queries", "tpch", "--scale", args.scale, "--dir", args.dir, "--pelton-only",
        "--runs", args.runs, "--json", results, *flags, *args.extra)
    if not results.exists():
        return {}
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    return {row["query"]: row["pelton_ms"] for row in rows}


def default_rounds(args, warehouse):
    """Milliseconds by round and query, of one process without any flag."""
    script = ";\n".join(text_of(query, args.scale).strip().rstrip(";") for query in QUERIES * 3) + ";\n"
    path = warehouse.parent / "three-rounds.sql"
    path.write_text(script)
    found = run(args.pelton, "sql", "--warehouse", warehouse, "--stats", "--format", "csv", "--file", path)
    times = [float(seconds) * 1e3 for seconds in re.findall(r"^\d+ rows? in ([0-9.]+) s", found.stderr, re.M)]
    rounds = [times[start : start + len(QUERIES)] for start in range(0, len(times), len(QUERIES))]
    return {f"round {number}": dict(zip(QUERIES, round)) for number, round in enumerate(rounds, 1)}


def close(ours, theirs):
    if ours == theirs:
        return True
    try:
        a, b = float(ours), float(theirs)
    except (TypeError, ValueError):
        return False
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=0.011 if "." in ours else 0)


def answers(args, warehouse, theirs):
    wrong = []
    for query in QUERIES:
        found = run(args.pelton, "sql", "--warehouse", warehouse, "--device", args.device, "--format", "csv",
                    text_of(query, args.scale))
        ours = list(csv.reader(io.StringIO(found.stdout)))[1:]
        rows = [["" if cell is None else str(cell) for cell in row] for row in theirs[query]]
        same = len(ours) == len(rows) and all(
            len(a) == len(b) and all(map(close, a, b)) for a, b in zip(ours, rows))
        if not same:
            pair = next((pair for pair in zip(ours, rows) if not all(map(close, *pair))), None)
            wrong.append(query)
            print(f"{query}: {len(ours)} rows and {len(rows)}, first difference {pair} {found.stderr[-300:]}")
    print(f"{len(QUERIES) - len(wrong)} of {len(QUERIES)} answers equal DuckDB's")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("pelton")
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--modes", default="device,pinned,default,cpu")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("extra", nargs="*", help="further arguments for `pelton bench queries`, after --")
    args = parser.parse_args()
    args.scale = int(args.scale) if args.scale == int(args.scale) else args.scale

    directory = args.dir / f"tpch-sf{args.scale}"
    warehouse = directory / "warehouse"
    if not (directory / "parquet").exists():
        started = time.perf_counter()
        run(args.pelton, "bench", "queries", "tpch", "--scale", args.scale, "--dir", args.dir, "--runs", 1, "--only", "Q6")
        print(f"generated and loaded in {time.perf_counter() - started:.0f} s", flush=True)
    connection = duckdb.connect(config={"threads": os.cpu_count()})
    for path in sorted(path for path in (directory / "parquet").iterdir() if path.is_dir()):
        connection.execute(f"CREATE TABLE {path.name} AS SELECT * FROM read_parquet('{path}/*.parquet')")
    figures, theirs = {"duckdb": {}}, {}
    for query in QUERIES:
        samples = []
        for _ in range(args.runs + 1):
            started = time.perf_counter()
            theirs[query] = connection.execute(text_of(query, args.scale)).fetchall()
            samples.append((time.perf_counter() - started) * 1e3)
        figures["duckdb"][query] = statistics.median(samples[1:])
    connection.close()
    for mode in filter(None, args.modes.split(",")):
        if mode == "default":
            figures |= default_rounds(args, warehouse)
        else:
            figures[mode] = bench(args, mode, directory)
    names = list(figures)
    print(f"{'ms':<8}" + "".join(f"{name:>10}" for name in names))
    for query in QUERIES + ["sum"]:
        of = {name: sum(figures[name].values()) if query == "sum" else figures[name].get(query, math.nan) for name in names}
        print(f"{query:<8}" + "".join(f"{of[name]:>10.1f}" for name in names))
    print(f"{'DuckDB /':<8}" + "".join(
        f"{sum(figures['duckdb'].values()) / max(sum(figures[name].values()), 1e-9):>10.2f}" for name in names), flush=True)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1))
    return len(answers(args, warehouse, theirs))


if __name__ == "__main__":
    sys.exit(main())
