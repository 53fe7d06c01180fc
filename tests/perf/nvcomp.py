#!/usr/bin/env python3
"""SSB from disk on a GPU, every column under one heavy codec, decompressed by the host and by nvCOMP.

    PELTON_NVCOMP=/path/to/libnvcomp.so.6 python3 tests/perf/nvcomp.py --pelton target/release/pelton --scale 1 --dir D

For each codec: loads the tables with --force-codec (found again by the next run), then `pelton bench queries
--data-tier disk` with --decompress host and with --decompress device. Every answer is held against plain DataFusion's
on Parquet by the bench itself. Prints milliseconds by query, then what EXPLAIN ANALYZE says of Q1.1's codecs. Exits 1
when an answer differs or a run did not decompress where it was told to.
"""

import argparse
import json
import pathlib
import subprocess
import sys

TABLES = ["date", "part", "supplier", "customer", "lineorder"]
CODECS = ["zstd", "lz4", "snappy", "deflate"]
Q11 = """EXPLAIN ANALYZE SELECT sum(lo_extendedprice * lo_discount) AS revenue FROM lineorder, date
    WHERE lo_orderdate = d_datekey AND d_year = 1993 AND lo_discount BETWEEN 1 AND 3 AND lo_quantity < 25"""


def run(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return done.stdout


def bench(args, directory: pathlib.Path, more: list[str]) -> dict:
    """Milliseconds and equality by query."""
    out = directory / "times.json"
    out.unlink(missing_ok=True)
    run(args.pelton, "bench", "queries", "ssb", "--scale", args.scale, "--dir", str(directory), "--runs",
        str(args.runs), "--json", str(out), *more)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return {line["query"]: (line["pelton_ms"], line["equal"]) for line in lines}


def load(args, plain: pathlib.Path, codec: str) -> pathlib.Path:
    """A folder of the bench whose tables are under `codec`, over the Parquet files of `plain`."""
    name = f"ssb-sf{args.scale}"
    directory = args.dir / codec
    (directory / name).mkdir(parents=True, exist_ok=True)
    parquet = directory / name / "parquet"
    if not parquet.exists():
        parquet.symlink_to((plain / name / "parquet").resolve())
    warehouse = directory / name / "warehouse"
    for table in TABLES:
        if not (warehouse / table).exists():
            run(args.pelton, "load", "--quiet", "--warehouse", str(warehouse), "--table", table, "--force-codec",
                codec, str(parquet / table))
    return directory


def explained(args, directory: pathlib.Path, choice: str) -> list[str]:
    """The lines on codecs of Q1.1, which reads everything from disk."""
    text = run(args.pelton, "sql", "--warehouse", str(directory / f"ssb-sf{args.scale}" / "warehouse"), "--device",
               args.device, "--device-cache", "0", "--pinned-cache", "0", "--decompress", choice, Q11)
    return [line.strip(" |") for line in text.splitlines() if "decompressed" in line]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pelton", default="target/release/pelton")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("build/nvcomp"))
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--codecs", nargs="*", default=CODECS)
    args = parser.parse_args()
    plain = args.dir / "plain"
    plain.mkdir(parents=True, exist_ok=True)
    # Makes the Parquet files.
    bench(args, plain, ["--device", "cpu", "--pelton-only", "--only", "Q1.1"])
    is_good = True
    for codec in args.codecs:
        directory = load(args, plain, codec)
        times = {}
        for choice in ["host", "device"]:
            times[choice] = bench(
                args, directory, ["--device", args.device, "--data-tier", "disk", "--decompress", choice]
            )
        print(f"\n{codec:<10} {'host ms':>10} {'device ms':>10}")
        for query, (host_ms, host_equal) in times["host"].items():
            device_ms, device_equal = times["device"][query]
            differs = "" if host_equal and device_equal else "  DIFFERS"
            is_good = is_good and not differs
            print(f"{query:<10} {host_ms:>10.2f} {device_ms:>10.2f}{differs}")
        for choice, expected in [("host", "decompressed on the host"), ("device", "decompressed by")]:
            lines = explained(args, directory, choice)
            is_good = is_good and any(expected in line for line in lines)
            print("\n".join(f"--decompress {choice}: {line}" for line in lines))
        sys.stdout.flush()
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
