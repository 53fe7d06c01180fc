#!/usr/bin/env python3
"""Loads a data set's largest table with Pelton and with DuckDB from the same Parquet files, in turn, in one run.

    python3 tests/perf/load.py ssb --scale 1 --runs 3

Pelton: `pelton load` into a new warehouse. DuckDB: CREATE TABLE AS SELECT into a new database file, CHECKPOINT
included, and COPY to Parquet with Zstd. Prints the median seconds and megabytes of raw data per second (the raw
bytes that Pelton counts). The files come from `pelton bench queries` in the same --dir.
"""

import argparse
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import duckdb

ROOT = pathlib.Path(__file__).resolve().parents[2]
FACT = {"ssb": "lineorder", "tpch": "lineitem", "taxi": "trips", "hits": "hits"}


def timed(work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=sorted(FACT))
    parser.add_argument("--scale", default="1")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--dir", default=str(ROOT / "build" / "bench"))
    parser.add_argument("--pelton", default=str(ROOT / "target" / "release" / "pelton"))
    args = parser.parse_args()

    table = FACT[args.dataset]
    files = pathlib.Path(args.dir) / f"{args.dataset}-sf{args.scale}" / "parquet" / table
    seconds: dict[str, list[float]] = {"Pelton load": [], "DuckDB CREATE TABLE": [], "DuckDB COPY Zstd Parquet": []}
    raw_megabytes = 0.0
    for _ in range(args.runs):
        scratch = pathlib.Path(tempfile.mkdtemp(dir=args.dir))
        report = ""

        def pelton() -> None:
            nonlocal report
            command = [args.pelton, "load", "--warehouse", scratch / "w", "--table", table, files]
            report = subprocess.run(command, check=True, capture_output=True, text=True).stderr

        def create() -> None:
            connection = duckdb.connect(str(scratch / "db"))
            connection.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet('{files}/*.parquet')")
            connection.execute("CHECKPOINT")
            connection.close()

        def copy() -> None:
            target = scratch / "copy.parquet"
            duckdb.execute(f"COPY (FROM read_parquet('{files}/*.parquet')) TO '{target}' (CODEC 'zstd')")

        for name, work in zip(seconds, (pelton, create, copy)):
            seconds[name].append(timed(work))
        found = re.search(r"; ([\d.]+) (kB|MB|GB) raw,", report)
        raw_megabytes = float(found[1]) * {"kB": 1e-3, "MB": 1.0, "GB": 1e3}[found[2]]
        shutil.rmtree(scratch)
    print(f"{table} of {args.dataset} scale {args.scale}: {raw_megabytes:.0f} MB raw, median of {args.runs}")
    for name, samples in seconds.items():
        median = statistics.median(samples)
        print(f"{name:<26}{median:>8.2f} s{raw_megabytes / median:>9.0f} MB/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
