"""One operation on DuckDB: python peer.py DIRECTORY DATABASE LIMIT THREADS SPILL SQL; an empty SQL makes the tables.

Prints one JSON line as Pelton's child does: rows, sums of integer columns, seconds, most memory resident.
"""

import json
import sys
import time

import duckdb
import pyarrow
import pyarrow.compute


def main():
    directory, database, limit, threads, spill, sql = sys.argv[1:7]
    if not sql:
        connection = duckdb.connect(database)
        for name in ("t", "u", "d"):
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM read_parquet('{directory}/{name}.parquet')")
        connection.close()
        return
    started = time.perf_counter()
    answer, error = None, None
    try:
        config = {"threads": int(threads), "temp_directory": spill}
        if limit != "none":
            config["memory_limit"] = f"{limit}B"
        connection = duckdb.connect(database, read_only=True, config=config)
        connection.execute("SET preserve_insertion_order = false")
        reader = connection.sql(sql).to_arrow_reader(8192)
        answer = {"rows": 0, "checksum": "", "sums": []}
        kinds = [field.type for field in reader.schema]
        numbers = [pyarrow.types.is_integer(kind) or (pyarrow.types.is_decimal(kind) and kind.scale == 0) for kind in kinds]
        sums = [0] * len(kinds)
        for batch in reader:
            answer["rows"] += batch.num_rows
            for index, is_number in enumerate(numbers):
                if is_number:
                    column = batch.column(index).cast(pyarrow.decimal128(38, 0))
                    sums[index] += int(pyarrow.compute.sum(column).as_py() or 0)
        answer["sums"] = [str(value) if is_number else "" for value, is_number in zip(sums, numbers)]
    except Exception as raised:
        answer, error = None, str(raised).splitlines()[0]
    seconds = time.perf_counter() - started
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
    print(json.dumps({"answer": answer, "error": error, "seconds": seconds, "peak_bytes": peak}))


main()
