#!/usr/bin/env python3
"""Measures texts as they may be stored: bytes beside Parquet with Zstd, and the time of a scan of all on one core.

    pelton generate tpch --tables lineitem,orders,partsupp,customer --out DIR/tpch
    pelton generate hits --out DIR/hits
    python3 tests/perf/texts.py DIR

Writes each column as lines and as a Parquet file with Zstd level 1 (pyarrow), and runs the example `text_rate` of the store over
the lines.
"""

import pathlib
import subprocess
import sys

import pyarrow.parquet as parquet

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = [
    ("tpch/lineitem", "l_comment"),
    ("tpch/orders", "o_comment"),
    ("tpch/partsupp", "ps_comment"),
    ("tpch/customer", "c_comment"),
    ("hits/hits", "URL"),
    ("hits/hits", "Title"),
    ("hits/hits", "Referer"),
]


def main() -> None:
    directory = pathlib.Path(sys.argv[1])
    files = []
    for table, column in COLUMNS:
        rows = parquet.read_table(directory / table, columns=[column])
        zstd = directory / f"{column}.parquet"
        parquet.write_table(rows, zstd, compression="zstd", compression_level=1)
        print(f"{column}: {rows.num_rows} rows, {zstd.stat().st_size / 1e6:.1f} MB as Parquet with Zstd", flush=True)
        zstd.unlink()
        file = directory / f"{column}.txt"
        with file.open("w", newline="\n") as out:
            for chunk in rows.column(0).chunks:
                out.writelines(f"{text or ''}\n" for text in chunk.to_pylist())
        files.append(file)
    command = ["cargo", "run", "--release", "--locked", "-q", "-p", "pelton-store", "--example", "text_rate", "--"]
    command += [str(directory / "warehouse"), *map(str, files)]
    subprocess.run(command, check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
