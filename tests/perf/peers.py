#!/usr/bin/env python3
"""Runs a data set's queries on Pelton, on DataFusion over Parquet and on DuckDB over the same Parquet, in one run.

    python3 tests/perf/peers.py ssb --scale 1 --cluster-by d_year,s_region --runs 5 [--cold]

Pelton and DataFusion are measured by `pelton bench queries`, which also makes the files; DuckDB reads the same
files, in the same row order, with as many threads, from text to last row, median of the same number of runs.
Writes one JSON object a query to --json and prints a table. Needs the packages of tests/oracle/requirements.txt.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import duckdb

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parquet_directories(root: pathlib.Path, order: str | None) -> dict[str, pathlib.Path]:
    """Table name to directory of Parquet files; the fact table in the order in which Pelton stores it."""
    tables = {path.name: path for path in (root / "parquet").iterdir() if path.is_dir()}
    if order and order != "none":
        suffix = "-auto-" + order[5:].replace(",", "-") if order.startswith("auto") else "-by-" + order.replace(",", "-")
        for path in (root / f"sorted{suffix}").iterdir():
            if path.is_dir():
                tables[path.name] = path
    return tables


def drop_from_page_cache(directories) -> None:
    for directory in directories:
        for path in directory.glob("*.parquet"):
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def time_duckdb(tables, sql: str, runs: int, cold: bool, threads: int) -> float:
    """Median milliseconds; each run opens its own connection, as each run of the others does."""
    samples = []
    for run in range(runs + (0 if cold else 1)):
        if cold:
            drop_from_page_cache(tables.values())
        started = time.perf_counter()
        connection = duckdb.connect(config={"threads": threads})
        for name, directory in tables.items():
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{directory}/*.parquet')")
        connection.execute(sql).fetchall()
        elapsed = (time.perf_counter() - started) * 1e3
        connection.close()
        if cold or run > 0:
            samples.append(elapsed)
    return statistics.median(samples)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=["ssb", "tpch", "taxi", "hits"])
    parser.add_argument("--scale", default="1")
    parser.add_argument("--cluster-by")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--dir", default=str(ROOT / "build" / "bench"))
    parser.add_argument("--pelton", default=str(ROOT / "target" / "release" / "pelton"))
    parser.add_argument("--json", help="append the results to this file")
    args = parser.parse_args()

    with tempfile.NamedTemporaryFile(suffix=".json") as results:
        command = [args.pelton, "bench", "queries", args.dataset, "--scale", args.scale, "--dir", args.dir]
        command += ["--runs", str(args.runs), "--json", results.name]
        command += ["--cluster-by", args.cluster_by] if args.cluster_by else []
        command += ["--cold"] if args.cold else []
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in open(results.name)]

    tables = parquet_directories(pathlib.Path(args.dir) / f"{args.dataset}-sf{args.scale}", args.cluster_by)
    threads = os.cpu_count() or 1
    for row in rows:
        sql = (ROOT / "queries" / args.dataset / f"{row['query']}.sql").read_text()
        sql = sql.replace("0.0001 /* divided by the scale */", f"{0.0001 / float(args.scale):.10f}")  # TPC-H Q11
        sql = sql.replace("100000 /* times the scale */", f"{100000 * float(args.scale):.0f}")  # Q27 and Q28 of hits
        row["duckdb_ms"] = time_duckdb(tables, sql, args.runs, args.cold, threads)
        row["duckdb_version"] = duckdb.__version__

    print(f"{'query':<8}{'Pelton':>10}{'DataFusion':>12}{'DuckDB':>10}{'/DataFusion':>13}{'/DuckDB':>9}  ms, {args}")
    for row in rows + [total(rows)]:
        ours, theirs, duck = row["pelton_ms"], row["datafusion_ms"], row["duckdb_ms"]
        print(f"{row['query']:<8}{ours:>10.1f}{theirs:>12.1f}{duck:>10.1f}{ours / theirs:>13.2f}{ours / duck:>9.2f}")
    if args.json:
        with open(args.json, "a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return 0


def total(rows) -> dict:
    figures = ["pelton_ms", "datafusion_ms", "duckdb_ms"]
    return {"query": "total"} | {figure: sum(row[figure] for row in rows) for figure in figures}


if __name__ == "__main__":
    sys.exit(main())
