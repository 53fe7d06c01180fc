#!/usr/bin/env python3
"""What the first round of TPC-H costs without any flag, beside --device cpu.

    python3 tests/perf/first_round.py WAREHOUSE target/release/pelton --scale 10 [--pairs 5]

WAREHOUSE holds the tables of TPC-H (`pelton bench queries tpch --dir DIR` makes DIR/tpch-sf10/warehouse). Each process runs
the 22 queries once, in order; processes with and without `--device cpu` take turns, so that both meet the same machine. The
first process without the flag compiles kernels, the others find them on disk; `--compile` gives each an empty cache folder.
Prints the medians of each query and of the sum, and which queries are slower by more than 10 % and 5 ms. A time that says
little is marked: where the processes of `--device cpu` differ from each other by more than that, too.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = [f"Q{number}" for number in range(1, 23)]


def statements(scale):
    texts = [(ROOT / "queries" / "tpch" / f"{name}.sql").read_text() for name in NAMES]
    fraction = f"{0.0001 / scale:.10f}"
    return ";\n".join(
        text.replace("0.0001 /* divided by the scale */", fraction).strip().rstrip(";") for text in texts) + ";\n"


def round_of(args, script, *flags):
    """Milliseconds of each query, of one process."""
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ, PELTON_CACHE=cache) if args.compile else None
        command = [args.pelton, "sql", "--warehouse", args.warehouse, "--stats", "--format", "none", *flags, "--file", script]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
    times = [float(text) * 1e3 for text in re.findall(r"^\d+ rows? in ([0-9.]+) s", done.stderr, re.M)]
    if done.returncode != 0 or len(times) != len(NAMES):
        sys.exit(f"pelton: {len(times)} of {len(NAMES)} queries; {done.stderr[-2000:]}")
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warehouse", type=pathlib.Path)
    parser.add_argument("pelton")
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="an empty cache of kernels for each process")
    args = parser.parse_args()
    cpu, default = [], []
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "once.sql"
        script.write_text(statements(args.scale))
        round_of(args, script, "--device", "cpu")  # files come into the page cache
        for _ in range(args.pairs):
            cpu.append(round_of(args, script, "--device", "cpu"))
            default.append(round_of(args, script))
    slower = []
    print(f"{'ms':5} {'cpu':>8} {'least':>7} {'most':>7} {'no flag':>8} {'ratio':>6}")
    for at, name in enumerate(NAMES):
        ours, theirs = [times[at] for times in default], [times[at] for times in cpu]
        a, b = statistics.median(ours), statistics.median(theirs)
        is_slower = a > 1.1 * b + 5
        is_noisy = max(theirs) > 1.1 * b + 5
        slower += [name] * is_slower
        mark = " slower" * is_slower + ", and so is --device cpu at times" * (is_slower and is_noisy)
        print(f"{name:5} {b:8.1f} {min(theirs):7.1f} {max(theirs):7.1f} {a:8.1f} {a / b:6.2f}{mark}")
    a, b = (statistics.median(map(sum, rounds)) for rounds in (default, cpu))
    print(f"sum   {b:8.1f} {min(map(sum, cpu)):7.1f} {max(map(sum, cpu)):7.1f} {a:8.1f} {a / b:6.2f}")
    print(f"{len(slower)} of {len(NAMES)} slower by more than 10 % and 5 ms: {', '.join(slower) or 'none'}")


if __name__ == "__main__":
    main()
