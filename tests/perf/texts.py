#!/usr/bin/env python3
"""Measures texts as they may be stored: bytes, and the time of a scan of all rows on the CPU.

    python3 tests/perf/texts.py --dir DIR [--runs 7] [--scale 1] [--rows 1000000]

Generates the comments of TPC-H and the addresses and titles of page views, puts each column into a Parquet file of its
own, and loads that under each encoding. A scan is `SELECT sum(octet_length(text))` in a process of its own; the start of
the process, the time of `SELECT 1`, is taken off. Everything is in the page cache. The sum must be the same everywhere.
"""

import argparse
import pathlib
import shutil
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = [
    ("tpch", "lineitem", "l_comment"),
    ("tpch", "orders", "o_comment"),
    ("tpch", "partsupp", "ps_comment"),
    ("tpch", "customer", "c_comment"),
    ("hits", "hits", "URL"),
    ("hits", "hits", "Title"),
    ("hits", "hits", "Referer"),
]
STORED = {
    "plain": ["--force-encoding", "plain", "--force-codec", "none"],
    "fsst": ["--force-encoding", "fsst+plain", "--force-codec", "none"],
    "plain/lz4": ["--force-encoding", "plain", "--force-codec", "lz4"],
    "plain/zstd": ["--force-encoding", "plain", "--force-codec", "zstd"],
    "fsst/zstd": ["--force-encoding", "fsst+plain", "--force-codec", "zstd"],
    "auto": ["--for", "auto"],
    "gpu": ["--for", "gpu"],
    "cpu": ["--for", "cpu"],
    "archive": ["--for", "archive"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--rows", default="1000000")
    parser.add_argument("--pelton", default=str(ROOT / "target" / "release" / "pelton"))
    args = parser.parse_args()

    def pelton(*words: object) -> str:
        command = [args.pelton, *map(str, words)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def least_and_median(sql: str, warehouse: pathlib.Path) -> tuple[float, float, str]:
        times, answer = [], ""
        for _ in range(args.runs + 1):
            started = time.perf_counter()
            answer = pelton("sql", "--warehouse", warehouse, "--device", "cpu", "--format", "csv", sql).split()[-1]
            times.append((time.perf_counter() - started) * 1e3)
        return min(times[1:]), statistics.median(times[1:]), answer

    args.dir.mkdir(parents=True, exist_ok=True)
    print("| column | stored as | encoding | MB | of plain | of Parquet Zstd | scan ms, least | median |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for dataset, table, column in COLUMNS:
        files = args.dir / dataset
        if not (files / table).exists():
            size = ["--rows", args.rows] if dataset == "hits" else ["--scale", args.scale]
            pelton("generate", dataset, *size, "--out", files, "--tables", table)
        parquet, warehouse = args.dir / f"{column}.parquet", args.dir / "warehouse"
        query = f"""SELECT "{column}" AS text FROM '{files / table}/*.parquet'"""
        pelton("sql", "--output", parquet, query)
        parquet_bytes, plain_bytes, sums = parquet.stat().st_size, 0, set()
        shutil.rmtree(warehouse, ignore_errors=True)
        for name, options in STORED.items():
            pelton("load", "--quiet", "--warehouse", warehouse, "--table", "t", "--replace", *options, parquet)
            stored = sum(path.stat().st_size for path in (warehouse / "t").glob("data-*"))
            plain_bytes = plain_bytes or stored
            lines = pelton("inspect", "--warehouse", warehouse, "t").splitlines()
            encoding = next(word for line in lines if line.startswith("text") for word in line.split() if "plain" in word or "dict" in word)
            empty, _, _ = least_and_median("SELECT 1", warehouse)
            least, median, answer = least_and_median("SELECT sum(octet_length(text)) FROM t", warehouse)
            sums.add(answer)
            print(
                f"| {column} | {name} | {encoding} | {stored / 1e6:.1f} | {stored / plain_bytes:.2f} "
                f"| {stored / parquet_bytes:.2f} | {least - empty:.0f} | {median - empty:.0f} |",
                flush=True,
            )
        assert len(sums) == 1, sums
        print(f"| {column} | Parquet Zstd | | {parquet_bytes / 1e6:.1f} | {parquet_bytes / plain_bytes:.2f} | 1.00 | | |", flush=True)
        parquet.unlink()
        if (dataset, table) not in [(d, t) for d, t, _ in COLUMNS[COLUMNS.index((dataset, table, column)) + 1 :]]:
            shutil.rmtree(files / table)


if __name__ == "__main__":
    main()
