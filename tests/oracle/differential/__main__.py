"""Random expressions and statements, answered by Pelton's CPU, by its kernels on the host target and by DuckDB.

    python tests/oracle/differential --package DIR [--seed S] [--cases 10000] [--case ROUND.NUMBER]

`cargo xtask differential` runs it as CI does. The seed is printed; `--seed S` makes the same cases again and
`--seed S --case 3.141` one of them. A case that differs is made smaller and printed with all three answers.
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SHOWN_MAX = 20


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", type=Path, required=True, help="folder with the Python package `pelton`")
    parser.add_argument("--seed", default=None, help="of an earlier run; default: a new one")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--case", default=None, metavar="ROUND.NUMBER", help="this one alone")
    parser.add_argument("--cases-per-round", type=int, default=1000, help="cases over the same tables")
    parser.add_argument("--host-statements", type=int, default=6, help="statements of a round that run as kernels too")
    parser.add_argument("--host-errors", type=int, default=4, help="expressions of a round that must fail as kernels too")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="rounds at a time")
    parser.add_argument("--round", type=int, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_round(options, number, scratch):
    """A process of its own: a crash ends one round, and what it took is given back."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__).parent), "--package", str(options.package), "--seed", options.seed,
               "--round", str(number), "--scratch", str(scratch), "--cases-per-round", str(options.cases_per_round),
               "--host-statements", str(options.host_statements), "--host-errors", str(options.host_errors)]  # fmt: skip
    if options.case is not None:
        command += ["--case", str(options.case)]
    run = subprocess.run(command, capture_output=True, text=True)
    result = scratch / f"round-{number}.json"
    if run.returncode == 0 and result.exists():
        return json.loads(result.read_text())
    at = scratch / f"at-{number}"
    case = at.read_text() if at.exists() else f"{number}.?"
    said = run.stderr if len(run.stderr) < 4000 else f"{run.stderr[:2000]}\n[...]\n{run.stderr[-2000:]}"
    text = f"round {number} ended with status {run.returncode}\n{said}"
    failure = {"case": case, "beside": "nothing", "found": text, "made": "", "pelton": "", "duckdb": "", "answers": {}}
    return {"counts": {}, "excused": {}, "failures": [failure], "seconds": 0}


def show(failure, seed):
    print(f"\n== case {failure['case']} differs from {failure['beside']}: {failure['found']}")
    print(f"  again:  --seed {seed} --case {failure['case']}")
    print(f"  made:   {failure['made']}\n  pelton: {failure['pelton']}\n  duckdb: {failure['duckdb']}")
    for engine, answer in failure["answers"].items():
        print(f"  {engine}: {answer}")


def main():
    options = parse_arguments()
    if options.round is not None:
        import rounds

        options.case = None if options.case is None else int(options.case)
        rounds.main(options, options.round)
    options.seed = options.seed or secrets.token_hex(4)
    numbers = range(-(-options.cases // options.cases_per_round))
    if options.case:
        chosen, options.case = options.case.split(".")
        numbers = [int(chosen)]
    print(f"seed {options.seed}", flush=True)
    started = time.monotonic()
    counts, excused, failures = Counter(), Counter(), []
    with tempfile.TemporaryDirectory(prefix="pelton-differential-") as scratch, ThreadPoolExecutor(options.workers) as pool:
        for result in pool.map(lambda number: run_round(options, number, Path(scratch)), numbers):
            counts.update(result["counts"])
            excused.update(result["excused"])
            failures += result["failures"]
    for failure in failures[:SHOWN_MAX]:
        show(failure, options.seed)
    if len(failures) > SHOWN_MAX:
        print(f"\n… and {len(failures) - SHOWN_MAX} more")
    print("\n" + ", ".join(f"{count} {what}" for what, count in counts.items()))
    for name, count in excused.most_common():
        print(f"known difference {name}: {count}")
    print(f"{len(failures)} failed, {time.monotonic() - started:.0f} s, seed {options.seed}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
