#!/usr/bin/env python3
"""TPC-H queries on a GPU, on the host's cores, and on both together, where columns do not lie in the GPU's memory.

    python3 tests/perf/together.py WAREHOUSE PELTON [--scale 10] [--queries Q1,Q6,Q9,Q18] [--runs 5]

One process for each way and tier; each query comes twice and then --runs times, of which the median counts.

  files    no column is cached: they come from the page cache
  pinned   tables are pinned by name (the cores alone: cached in their own memory)

Prints milliseconds, what both together take of the faster of the two, and the rows that the cores took of the largest scan
in a run of its own (EXPLAIN ANALYZE). Answers of all ways are held against each other.
"""

import argparse
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]
NO_CACHE = ["--device-cache", "0", "--pinned-cache", "0"]
PINNED = [flag for table in TABLES for flag in ("--pin", table)]
WAYS = {
    "files": {
        "gpu": ["--device", "gpu", *NO_CACHE],
        "host": ["--device", "host", "--device-memory-limit", "40GiB"],
        "gpu+host": ["--device", "gpu+host", *NO_CACHE],
        "cpu": ["--device", "cpu"],
    },
    "pinned": {
        "gpu": ["--device", "gpu", "--device-cache", "0", *PINNED],
        "host": ["--device", "host", "--device-memory-limit", "60GiB", "--device-cache", "30GiB"],
        "gpu+host": ["--device", "gpu+host", "--device-cache", "0", *PINNED],
    },
}


def text_of(args, query):
    sql = (ROOT / "queries" / "tpch" / f"{query}.sql").read_text()
    return sql.replace("0.0001 /* divided by the scale */", f"{0.0001 / args.scale:.10f}").strip().rstrip(";")


def pelton(args, flags, script):
    path = pathlib.Path(args.warehouse).parent / "together.sql"
    path.write_text(script)
    done = subprocess.run([args.pelton, "sql", "--warehouse", args.warehouse, "--stats", "--format", "csv", *flags,
                           "--file", str(path)], capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr[-2000:])
    return done


def measured(args, flags, queries):
    """Milliseconds by query, and the output."""
    script = "".join(f"{text_of(args, query)};\n" * (2 + args.runs) for query in queries)
    done = pelton(args, flags, script)
    times = [float(s) * 1e3 for s in re.findall(r"^\d+ rows? in ([0-9.]+) s", done.stderr, re.M)]
    each = 2 + args.runs
    return {q: statistics.median(times[n * each + 2 : (n + 1) * each]) for n, q in enumerate(queries)}, done.stdout


def shares(args, flags, query):
    """The rows of each worker of the largest scan that is shared."""
    sql = text_of(args, query)
    done = pelton(args, flags, f"{sql};\n{sql};\nEXPLAIN ANALYZE {sql};\n")
    found = [line.split(",") for line in re.findall(r"workers: ([0-9, ]+) rows, the last", done.stdout)]
    return max(([int(rows) for rows in line] for line in found), key=sum, default=[])


def same(one, other):
    a, b = one.split("\n"), other.split("\n")
    if len(a) != len(b):
        return False
    cells = [(x, y) for p, q in zip(a, b) for x, y in zip(p.split(","), q.split(","))]
    return all(x == y or abs(float(x) - float(y)) <= 1e-9 * abs(float(y)) for x, y in cells)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("warehouse")
    parser.add_argument("pelton")
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--queries", default="Q1,Q6,Q9,Q18")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tiers", default="files,pinned")
    args = parser.parse_args()
    queries = args.queries.split(",")
    for tier in args.tiers.split(","):
        found = {way: measured(args, flags, queries) for way, flags in WAYS[tier].items()}
        print(f"\n{tier:8}" + "".join(f"{way:>10}" for way in found) + "   of the better   rows of the cores")
        for query in queries:
            ms = {way: times.get(query, float("nan")) for way, (times, _) in found.items()}
            rows = shares(args, WAYS[tier]["gpu+host"], query)
            share = f"{rows[-1] / sum(rows):.2f}" if rows else "none"
            ratio = ms["gpu+host"] / min(ms["gpu"], ms["host"])
            print(f"{query:8}" + "".join(f"{time:10.1f}" for time in ms.values()) + f"{ratio:16.2f}{share:>20}")
        answers = [out for _, out in found.values()]
        print("answers alike" if all(same(answers[0], other) for other in answers[1:]) else "ANSWERS DIFFER")


main()
