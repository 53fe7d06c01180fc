#!/usr/bin/env python3
"""The Star Schema Benchmark on Pelton beside DuckDB over tables in DuckDB's own memory, rows in the same order.

    pelton bench queries ssb --scale 10 --dir D --cluster-by d_year,s_region,c_region --pelton-only --json pelton.json
    python3 tests/perf/golap.py duckdb --parquet D/ssb-sf10/parquet --parquet D/ssb-sf10/sorted-by-... --out duck.json
    python3 tests/perf/golap.py compare --duckdb duck.json --results pelton.json --warehouse D/ssb-sf10/warehouse-by-...

1. `duckdb` reads the Parquet files into tables (CREATE TABLE AS SELECT, insertion order kept; a later --parquet
   replaces tables of an earlier one), runs each query once to warm up and then --runs times, from text to last row,
   and writes times and answers as JSON.
2. `compare` takes Pelton's times from the file that `pelton bench queries` wrote, runs every query once more with
   `pelton sql` to hold its answer against DuckDB's, and prints one table. --pelton-args are passed to `pelton sql`,
   so that answers come from where the times came from.

Answers agree when they hold the same rows in any order: integers, decimals and text exactly, 1e-9 relative where one
side is a float. Exits 1 when an answer differs. Needs the package duckdb of tests/oracle/requirements.txt alone.
"""

import argparse
import json
import math
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from decimal import Decimal

import duckdb

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELATIVE_TOLERANCE = 1e-9
DIFFERENCES_SHOWN = 3


# ---- answers: rows of cells, a cell is None or [kind, text] with kind int, float or text (decimals are int)


def cell(value):
    if value is None:
        return None
    if isinstance(value, float):
        return ["float", repr(value)]
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return ["int", str(value)]
    return ["text", str(value)]


def answer(connection, sql: str) -> list:
    return [[cell(value) for value in row] for row in connection.execute(sql).fetchall()]


def same_cell(left, right) -> bool:
    if left is None or right is None or "text" in (left[0], right[0]):
        return left == right
    if "float" in (left[0], right[0]):
        return math.isclose(float(left[1]), float(right[1]), rel_tol=RELATIVE_TOLERANCE)
    return Decimal(left[1]) == Decimal(right[1])


def sort_key(row, exact_columns):
    """Columns without floats first, so that no rounding can misalign rows."""
    order = exact_columns + [column for column in range(len(row)) if column not in exact_columns]
    parts = []
    for column in order:
        kind, text = row[column] or ("", "")
        number = float(text) if kind == "float" else Decimal(text) if kind == "int" else 0
        parts.append((row[column] is not None, kind == "text", number, text if kind == "text" else ""))
    return parts


def row_text(row) -> str:
    return " | ".join("NULL" if value is None else value[1] for value in row)


def differences(expected: list, actual: list) -> list[str]:
    """What differs, as lines of text; none when the answers agree."""
    if len(expected) != len(actual):
        return [f"DuckDB has {len(expected)} rows, Pelton {len(actual)}"]
    widths = {len(row) for row in expected + actual}
    if len(widths) > 1:
        return [f"rows have {min(widths)} and {max(widths)} columns"]
    float_columns = {i for row in expected + actual for i, value in enumerate(row) if value and value[0] == "float"}
    exact_columns = [column for column in range(max(widths, default=0)) if column not in float_columns]
    pairs = zip(*(sorted(rows, key=lambda row: sort_key(row, exact_columns)) for rows in (expected, actual)))
    wrong = [(e, a) for e, a in pairs if not all(same_cell(left, right) for left, right in zip(e, a))]
    lines = [f"DuckDB {row_text(e)}   Pelton {row_text(a)}" for e, a in wrong[:DIFFERENCES_SHOWN]]
    return lines + ([f"and {len(wrong) - DIFFERENCES_SHOWN} more rows"] if len(wrong) > DIFFERENCES_SHOWN else [])


# ---- DuckDB


def create_tables(connection, directories) -> dict:
    """Makes the tables; returns rows by name."""
    tables = {}
    for directory in directories:
        tables |= {path.name: sorted(path.glob("*.parquet")) for path in pathlib.Path(directory).iterdir()}
    tables = {name: files for name, files in tables.items() if files}
    if not tables:
        sys.exit(f"no TABLE/*.parquet in {', '.join(directories)}; `pelton bench queries` makes them")
    rows = {}
    for name, files in tables.items():
        listed = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
        connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM read_parquet([{listed}])')
        rows[name] = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
    return rows


def run_duckdb(args) -> int:
    connection = duckdb.connect(config={"threads": args.threads})
    started = time.perf_counter()
    rows = create_tables(connection, args.parquet)
    load_s = time.perf_counter() - started
    print(f"DuckDB {duckdb.__version__}, {args.threads} threads: {rows} in memory after {load_s:.1f} s", flush=True)
    queries = []
    for path in sorted(pathlib.Path(args.queries).glob("*.sql")):
        sql = path.read_text()
        queries.append({"query": path.stem, "answer": answer(connection, sql), "ms": []})
        for _ in range(args.runs):
            started = time.perf_counter()
            connection.execute(sql).fetchall()
            queries[-1]["ms"].append((time.perf_counter() - started) * 1e3)
    machine = {"duckdb": duckdb.__version__, "threads": args.threads, "load_s": load_s, "table_rows": rows}
    pathlib.Path(args.out).write_text(json.dumps(machine | {"queries": queries}) + "\n")
    print(f"{'query':<8}{'best ms':>10}{'median ms':>11}{'rows':>7}")
    lines = [(q["query"], min(q["ms"]), statistics.median(q["ms"]), len(q["answer"])) for q in queries]
    lines.append(("total", *(sum(line[column] for line in lines) for column in (1, 2, 3))))
    for name, best, median, row_count in lines:
        print(f"{name:<8}{best:>10.2f}{median:>11.2f}{row_count:>7}")
    return 0


# ---- Pelton


def ask_pelton(args, path: pathlib.Path):
    """The answer of Pelton, or what it said instead."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "answer.parquet"
        command = [args.pelton, "sql", "--warehouse", args.warehouse, "--format", "parquet"]
        command += ["--output", str(file), "--file", str(path), *shlex.split(args.pelton_args)]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout)
        except subprocess.TimeoutExpired:
            return f"no answer after {args.timeout} s"
        if run.returncode != 0:
            return run.stderr.strip() or f"exit status {run.returncode}"
        return answer(duckdb, f"SELECT * FROM read_parquet('{file}')")


def check(args, name: str, expected: list) -> list[str]:
    actual = ask_pelton(args, pathlib.Path(args.queries) / f"{name}.sql")
    return [actual] if isinstance(actual, str) else differences(expected, actual)


def compare(args) -> int:
    peer = json.loads(pathlib.Path(args.duckdb).read_text())
    theirs = {query["query"]: query for query in peer["queries"]}
    # The file is appended to by each run: the last line of a query counts.
    ours = {row["query"]: row for row in map(json.loads, open(args.results))}
    missing = sorted(ours.keys() - theirs.keys())
    if missing or not ours:
        sys.exit(f"{args.duckdb} lacks {', '.join(missing)}" if missing else f"{args.results} holds no query")
    rows, wrong = [], {}
    for name in sorted(ours):
        row = ours[name] | {"duckdb_best_ms": min(theirs[name]["ms"])}
        row |= {"duckdb_ms": statistics.median(theirs[name]["ms"]), "duckdb_version": peer["duckdb"]}
        row |= {"duckdb_threads": peer["threads"], "pelton_args": args.pelton_args}
        if not args.no_check:
            found = check(args, name, theirs[name]["answer"])
            row["equal_to_duckdb"] = not found
            wrong |= {name: found} if found else {}
        rows.append(row)
    print_table(rows)
    for name, lines in wrong.items():
        print("\n".join(f"{name}: {line}" for line in lines))
    if args.json:
        with open(args.json, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    checked = sum("equal_to_duckdb" in row for row in rows)
    print(f"{checked - len(wrong)} of {len(rows)} answers equal DuckDB's, {len(wrong)} differ")
    return 1 if wrong else 0


def print_table(rows) -> None:
    total = {"query": "total", "equal_to_duckdb": None}
    for figure in ("duckdb_best_ms", "duckdb_ms", "pelton_ms", "raw_bytes"):
        total[figure] = sum(row[figure] for row in rows)
    headings = f"{'DuckDB ms':>11}{'(best)':>9}{'Pelton ms':>11}{'ratio':>8}{'effective GB/s':>16}{'rows':>7}  equal"
    print(f"{'query':<8}{headings}")
    for row in rows + [total]:
        ratio, rate = row["duckdb_ms"] / row["pelton_ms"], row["raw_bytes"] / row["pelton_ms"] / 1e6
        equal = {True: "yes", False: "NO", None: "-"}[row.get("equal_to_duckdb")]
        print(
            f"{row['query']:<8}{row['duckdb_ms']:>11.2f}{row['duckdb_best_ms']:>9.2f}{row['pelton_ms']:>11.2f}"
            f"{ratio:>8.2f}{rate:>16.1f}{row.get('rows', ''):>7}  {equal}"
        )
    mean = statistics.geometric_mean(row["duckdb_ms"] / row["pelton_ms"] for row in rows)
    print(f"medians; ratio is DuckDB's time over Pelton's, {mean:.2f} in the geometric mean")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("duckdb", help="time DuckDB")
    first.add_argument("--parquet", action="append", required=True, help="folder of TABLE/*.parquet; repeatable")
    first.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    first.add_argument("--runs", type=int, default=5)
    first.add_argument("--out", required=True, help="file for times and answers")
    second = commands.add_parser("compare", help="hold Pelton's times and answers against DuckDB's")
    second.add_argument("--duckdb", required=True, help="what `duckdb --out` wrote")
    second.add_argument("--results", required=True, help="what `pelton bench queries --json` wrote")
    second.add_argument("--warehouse", required=True)
    second.add_argument("--pelton", default=str(ROOT / "target" / "release" / "pelton"))
    second.add_argument("--pelton-args", default="", help="further arguments of `pelton sql`, one text")
    second.add_argument("--timeout", type=int, default=120, help="seconds for one answer")
    second.add_argument("--no-check", action="store_true", help="times alone, no answers")
    second.add_argument("--json", help="write the table to this file, one JSON object a line")
    for command in (first, second):
        command.add_argument("--queries", default=str(ROOT / "queries" / "ssb"))
    args = parser.parse_args()
    if getattr(args, "runs", 1) < 1:
        parser.error("--runs must be at least 1")
    return run_duckdb(args) if args.command == "duckdb" else compare(args)


if __name__ == "__main__":
    sys.exit(main())
