#!/usr/bin/env python3
"""Windows over frames by distances on Pelton, beside DuckDB with its table in memory.

    python3 tests/perf/frames.py 20000000 pelton gpu

Makes a table of so many rows (10,007 partitions, a key that is NULL in every 23rd row), loads it, runs each window four times
in one session on the device that is named, and compares a checksum of all results with DuckDB's. Prints a line a window: whether
the answers are equal, the better of two times of DuckDB with all cores, and each time of Pelton. Needs the package duckdb
of tests/oracle/requirements.txt.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import time

import duckdb

WINDOWS = {
    "keys, 100 before to 100 after": "sum(x) OVER (PARTITION BY g ORDER BY h NULLS LAST RANGE BETWEEN 100 PRECEDING AND 100 FOLLOWING)",
    "keys, 5000 before to here": "count(h) OVER (PARTITION BY g ORDER BY h DESC NULLS LAST RANGE BETWEEN 5000 PRECEDING AND CURRENT ROW)",
    "30 days": "sum(x) OVER (PARTITION BY g ORDER BY d RANGE BETWEEN INTERVAL '30' DAY PRECEDING AND CURRENT ROW)",
    "groups, 3 before to 2 after": "sum(x) OVER (PARTITION BY g ORDER BY d GROUPS BETWEEN 3 PRECEDING AND 2 FOLLOWING)",
    "keys, in one partition": "sum(x) OVER (ORDER BY h NULLS FIRST RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING)",
    "rows, 3 before to 2 after": "sum(x) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING)",
}


def main() -> None:
    rows, pelton, device = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    duck = duckdb.connect()
    duck.execute(
        f"""CREATE TABLE w AS SELECT i::BIGINT AS id, (hash(i) % 10007)::INT AS g,
        CASE WHEN hash(i + 7) % 23 = 0 THEN NULL ELSE (hash(i * 3) % 100000)::INT END AS h,
        (hash(i * 5) % 200001)::BIGINT - 100000 AS x, DATE '2001-01-01' + (hash(i * 11) % 3650)::INT AS d
        FROM range({rows}) AS t(i)"""
    )
    with tempfile.TemporaryDirectory() as folder:
        parquet, warehouse, queries = (pathlib.Path(folder) / name for name in ("w.parquet", "warehouse", "q.sql"))
        duck.execute(f"COPY w TO '{parquet}'")
        load = [pelton, "load", "--warehouse", warehouse, "--table", "w", parquet]
        subprocess.run(load, check=True, capture_output=True)
        for name, window in WINDOWS.items():
            sql = f"SELECT count(a), sum(a * (id % 31 + 1)) FROM (SELECT id, {window} AS a FROM w) AS t"
            times = []
            for _ in range(2):
                started = time.perf_counter()
                expected = duck.execute(sql).fetchone()
                times.append(time.perf_counter() - started)
            queries.write_text(f"{sql};\n" * 4)
            command = [pelton, "sql", "--warehouse", warehouse, "--device", device, "--stats", "--format", "csv"]
            run = subprocess.run([*command, "--file", queries], capture_output=True, text=True, check=True)
            found = [line for line in run.stdout.splitlines() if re.match(r"-?\d", line)]
            same = len(found) == 4 and all(tuple(map(int, line.split(","))) == tuple(map(int, expected)) for line in found)
            took = re.findall(r"^1 row in ([0-9.]+) s", run.stderr, re.M)
            print(
                f"{name}: {'equal' if same else f'DIFFERS: {found}, not {expected}'}; DuckDB {min(times) * 1e3:.0f} ms; "
                f"Pelton {', '.join(f'{float(s) * 1e3:.0f}' for s in took)} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
