#!/usr/bin/env python3
"""TPC-H or hits on Pelton, from device memory, from pinned memory and by default, beside DuckDB with its tables in memory.

    python3 tests/perf/queries.py tpch build/bench target/release/pelton --scale 10 --runs 3 [--modes device,pinned,default,cpu]

One run: generates and loads the data set where it is missing (`pelton bench queries`), reads the same Parquet files
into DuckDB's memory, takes the median of its warm runs, and then, mode by mode:

  device, pinned   `pelton bench queries --device gpu --data-tier ...`: one session, warm medians
  cpu              the same with --device cpu
  default          no flag, one new process: all queries three times in a row, as `pelton sql --stats` tells them
  cpu-rounds       the same with --device cpu
  parquet-rounds   no flag, one new process: all queries --rounds times over the Parquet files in place, DuckDB over the
                   same files beside it; --pause seconds pass between two rounds

Then each query's answer with --device gpu (or --device of the command line) is held against DuckDB's: rows in the
order of the query, integers and text exactly, numbers with a point to 1e-6 of each other. Of a limited answer, the
sorted columns may be all that is equal, for rows tie: those queries are named (`tests/oracle` looks closer). Prints a
table; --json writes all figures. Needs the package duckdb of tests/oracle/requirements.txt.
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
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
from statement import parse  # noqa: E402

QUERIES = {"tpch": [f"Q{number}" for number in range(1, 23)], "hits": [f"Q{number}" for number in range(43)]}


def text_of(args, query):
    sql = (ROOT / "queries" / args.dataset / f"{query}.sql").read_text()
    sql = sql.replace("0.0001 /* divided by the scale */", f"{0.0001 / args.scale:.10f}")
    return sql.replace("100000 /* times the scale */", str(int(100000 * args.scale)))


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
    run(args.pelton, "bench", "queries", args.dataset, "--scale", args.scale, "--dir", args.dir, "--pelton-only",
        "--runs", args.runs, "--json", results, *flags, *args.extra)
    if not results.exists():
        return {}
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    return {row["query"]: row["pelton_ms"] for row in rows}


def rounds(args, warehouse, *flags):
    """Milliseconds by round and query, of one process."""
    names = QUERIES[args.dataset]
    script = ";\n".join(text_of(args, query).strip().rstrip(";") for query in names * 3) + ";\n"
    path = warehouse.parent / "three-rounds.sql"
    path.write_text(script)
    found = run(args.pelton, "sql", "--warehouse", warehouse, "--stats", "--format", "csv", *flags, "--file", path)
    times = [float(seconds) * 1e3 for seconds in re.findall(r"^\d+ rows? in ([0-9.]+) s", found.stderr, re.M)]
    of_round = [times[start : start + len(names)] for start in range(0, len(times), len(names))]
    word = "cpu" if flags else "round"
    return {f"{word} {number}": dict(zip(names, times)) for number, times in enumerate(of_round, 1)}


def parquet_tables(directory):
    return sorted(path for path in (directory / "parquet").iterdir() if path.is_dir())


def duckdb_over_parquet(args, directory):
    """Medians of warm runs over the files in place, and the answers."""
    connection = duckdb.connect(config={"threads": os.cpu_count()})
    for path in parquet_tables(directory):
        connection.execute(f"CREATE VIEW {path.name} AS SELECT * FROM read_parquet('{path}/*.parquet')")
    times, answers = {}, {}
    for query in QUERIES[args.dataset]:
        samples = []
        for _ in range(args.runs + 1):
            started = time.perf_counter()
            answers[query] = connection.execute(text_of(args, query)).fetchall()
            samples.append((time.perf_counter() - started) * 1e3)
        times[query] = statistics.median(samples[1:])
    connection.close()
    return times, answers


def parquet_rounds(args, directory, *flags):
    """Milliseconds by round and query, of one process over the files in place; with its answers of the last round."""
    names, found, times = QUERIES[args.dataset], [], []
    out = open(directory / "parquet-rounds.csv", "w+")
    command = [args.pelton, "shell", *flags]
    process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE, text=True)
    send = lambda text: (process.stdin.write(text), process.stdin.flush())  # noqa: E731
    for path in parquet_tables(directory):
        send(f"CREATE EXTERNAL TABLE {path.name} STORED AS PARQUET LOCATION '{path.resolve()}/';\n")
    send(".mode csv\n.timer on\n")
    mark = "SELECT '==== {}' AS query_name;\n"
    last = args.rounds - 1
    for number in range(args.rounds):
        times.clear()
        for query in names:
            # In the last round its rows go out; what marks them is not timed.
            send((mark.format(query) if number == last else "") + text_of(args, query).strip().rstrip(";") + ";\n")
        wanted = len(names) * (2 if number == last else 1)
        if number == last:
            process.stdin.close()
        for line in process.stderr:
            took = re.match(r"\d+ rows? in ([0-9.]+) s", line)
            if took:
                times.append(float(took[1]) * 1e3)
            elif "rror" in line:
                print(line, end="", file=sys.stderr)
            if len(times) == wanted:
                break
        found.append(dict(zip(names, times[1::2] if number == last else times)))
        if number < last:
            time.sleep(args.pause)
    process.wait()
    out.seek(0)
    return {f"parquet {number}": of_round for number, of_round in enumerate(found, 1)}, by_mark(out.read())


def close(ours, theirs):
    if theirs in (ours, ours.replace("T", " ")):  # timestamps, as both print them
        return True
    try:
        a, b = float(ours), float(theirs)
    except (TypeError, ValueError):
        return False
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=0.011 if "." in ours else 0)


def ties(sql, ours, rows, names):
    """Whether the answers of a limited query are equal in what they are sorted by."""
    statement = parse(sql)
    keys = [key for key in statement.key_columns(names) if key is not None]
    return statement.limit is not None and len(ours) == len(rows) and all(
        close(a[key], b[key]) for a, b in zip(ours, rows) for key in keys)


def answered(args, warehouse):
    """The answers of one process by query, each below its header."""
    mark = "SELECT '==== {}' AS query_name;\n"
    script = "".join(mark.format(query) + text_of(args, query).strip().rstrip(";") + ";\n"
                     for query in QUERIES[args.dataset])
    path = warehouse.parent / "answers.sql"
    path.write_text(script)
    found = run(args.pelton, "sql", "--warehouse", warehouse, "--device", args.device, "--format", "csv", "--file", path)
    return by_mark(found.stdout)


def by_mark(text):
    """Rows by query, where a row of its own names each."""
    by_query, current = {}, []
    for row in csv.reader(io.StringIO(text)):
        if len(row) == 1 and row[0].startswith("==== "):
            current = by_query.setdefault(row[0][5:], [])
        elif row != ["query_name"]:
            current.append(row or [""])  # a line of one NULL is empty
    return by_query


def answers(args, found, theirs):
    wrong, tied, names = [], [], QUERIES[args.dataset]
    for query in names:
        header, *ours = found.get(query) or [[]]
        rows = [["" if cell is None else str(cell) for cell in row] for row in theirs[query]]
        same = len(ours) == len(rows) and all(
            len(a) == len(b) and all(map(close, a, b)) for a, b in zip(ours, rows))
        if not same and ties(text_of(args, query), ours, rows, header):
            tied.append(query)
        elif not same:
            pair = next((pair for pair in zip(ours, rows) if not all(map(close, *pair))), None)
            wrong.append(query)
            print(f"{query}: {len(ours)} rows and {len(rows)}, first difference {pair}")
    print(f"{len(names) - len(wrong) - len(tied)} of {len(names)} answers equal DuckDB's, "
          f"{len(tied)} in what they are sorted by: {', '.join(tied)}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=sorted(QUERIES))
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("pelton")
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--modes", default="device,pinned,default,cpu")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of parquet-rounds, at least 3")
    parser.add_argument("--pause", type=float, default=0, help="seconds between two rounds of parquet-rounds")
    parser.add_argument("--parquet-flags", default="", help="flags of `pelton sql` in parquet-rounds, none by default")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("extra", nargs="*", help="further arguments for `pelton bench queries`, after --")
    args = parser.parse_args()
    args.scale = int(args.scale) if args.scale == int(args.scale) else args.scale

    queries = QUERIES[args.dataset]
    directory = args.dir / f"{args.dataset}-sf{args.scale}"
    warehouse = directory / "warehouse"
    if not (directory / "parquet").exists():
        started = time.perf_counter()
        run(args.pelton, "bench", "queries", args.dataset, "--scale", args.scale, "--dir", args.dir, "--runs", 1, "--only", "Q6",
            "--pelton-only")
        print(f"generated and loaded in {time.perf_counter() - started:.0f} s", flush=True)
    connection = duckdb.connect(config={"threads": os.cpu_count()})
    for path in parquet_tables(directory):
        connection.execute(f"CREATE TABLE {path.name} AS SELECT * FROM read_parquet('{path}/*.parquet')")
    figures, theirs = {"duckdb": {}}, {}
    for query in queries:
        samples = []
        for _ in range(args.runs + 1):
            started = time.perf_counter()
            theirs[query] = connection.execute(text_of(args, query)).fetchall()
            samples.append((time.perf_counter() - started) * 1e3)
        figures["duckdb"][query] = statistics.median(samples[1:])
    connection.close()
    wrong = 0
    for mode in filter(None, args.modes.split(",")):
        if mode == "parquet-rounds":
            figures["duckdb pq"], over_parquet = duckdb_over_parquet(args, directory)
            of_rounds, found = parquet_rounds(args, directory, *args.parquet_flags.split())
            figures |= of_rounds
            wrong += len(answers(args, found, over_parquet))
            ratio = sum(figures["duckdb pq"].values()) / max(sum(figures["parquet 3"].values()), 1e-9)
            print(f"third round over Parquet in place: {ratio:.2f} times DuckDB over the same files")
        elif mode in ("default", "cpu-rounds"):
            figures |= rounds(args, warehouse, *(["--device", "cpu"] if mode == "cpu-rounds" else []))
        else:
            figures[mode] = bench(args, mode, directory)
    names = list(figures)
    print(f"{'ms':<8}" + "".join(f"{name:>10}" for name in names))
    for query in queries + ["sum"]:
        of = {name: sum(figures[name].values()) if query == "sum" else figures[name].get(query, math.nan) for name in names}
        print(f"{query:<8}" + "".join(f"{of[name]:>10.1f}" for name in names))
    print(f"{'DuckDB /':<8}" + "".join(
        f"{sum(figures['duckdb'].values()) / max(sum(figures[name].values()), 1e-9):>10.2f}" for name in names), flush=True)
    for name in names[1:]:
        ratios = [figures["duckdb"][query] / figures[name][query] for query in queries if figures[name].get(query)]
        if ratios:
            worst = min(zip(ratios, queries))
            print(f"{name}: geometric mean {statistics.geometric_mean(ratios):.2f}, worst {worst[0]:.2f} ({worst[1]})")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1))
    return wrong + len(answers(args, answered(args, warehouse), theirs))


if __name__ == "__main__":
    sys.exit(main())
