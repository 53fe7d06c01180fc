"""A connection to a warehouse: where queries begin."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pelton import _native, _progress
from pelton._arrow import ArrowStream, exporter
from pelton._errors import InvalidInputError
from pelton._result import Result

Size = int | str
"""Bytes, or a text such as "512MiB" or "4GB"."""

Name = str | os.PathLike[str]


def connect(
    dir: Name | None = None,
    *,
    threads: int | None = None,
    memory_limit: Size | None = None,
    spill_dir: str | os.PathLike[str] | None = None,
    spill_limit: Size | None = None,
    batch_rows: int = 8192,
    io: Literal["auto", "direct", "buffered"] = "auto",
    io_uring: bool = True,
    skip: str = "all",
    join_order: bool = True,
    device: str = "auto",
    devices: int = 1,
    device_memory_limit: Size | None = None,
    pin: Sequence[str] = (),
    progress: bool | None = None,
    device_mem_cap: Size | None = None,
) -> Connection:
    """Opens the warehouse in `dir`, a directory that is made where it is missing.

    Without one, the connection is over files, by path, and over what is registered.

    - `threads`: threads that a query runs in; None: one a core
    - `memory_limit`: memory for queries, a size, a share such as "50%", or "none"; None: 80 % of what machine, container
      and ulimit leave
    - `spill_dir`, `spill_limit`: where sorts and aggregates spill beyond it, and how much; None: the environment
      variables PELTON_SPILL_DIR and PELTON_SPILL_LIMIT, else a folder in the temporary one and 80 % of what is free there
    - `batch_rows`: rows in a batch
    - `io`: how table files are read: through the page cache ("buffered"), past it ("direct"), or as suits their size;
      `io_uring=False` reads with plain positioned reads
    - `skip`: metadata that may skip row groups: "all", "none", or some of "nulls,minmax,histogram,bloom,sideways,dynamic"
    - `join_order`: whether joins are reordered by cost
    - `device`: where queries run: "auto" (on a GPU where that turned out to be faster; without one, in kernels
      compiled for this machine's cores likewise), "cpu", "gpu" or "gpu:0"
    - `devices`: GPUs that work on a query together, from that one on
    - `device_memory_limit`: memory of each device that queries and the column cache may take; None: what is free
    - `pin`: tables to load into pinned memory first, from which a GPU reads at the full rate of its link
    - `progress`: show it while a query or load takes long; None: on terminals and in notebooks
    - `device_mem_cap`: the old name of `device_memory_limit`

    >>> import pelton
    >>> with pelton.connect(threads=1, memory_limit="1GiB") as con:
    ...     con.sql("SELECT count(*) AS n FROM range(10)").arrow().to_pylist()
    [{'n': 10}]
    """
    options = {
        "threads": threads,
        "memory_limit": memory_limit,
        "spill_dir": None if spill_dir is None else os.fspath(spill_dir),
        "spill_limit": spill_limit,
        "batch_rows": batch_rows,
        "io": io,
        "io_uring": io_uring,
        "skip": skip,
        "join_order": join_order,
        "device": device,
        "devices": devices,
        "device_memory_limit": device_mem_cap if device_memory_limit is None else device_memory_limit,
        "pin": list(pin),
    }
    directory = None if dir is None else Path(dir)
    return Connection(_native.Session(directory, options), directory, progress)


class Connection:
    """A warehouse that is open, with tables and views of its own beside it; `connect` makes one.

    Threads may share a connection. A process that is forked may not: its threads stay behind.
    """

    def __init__(self, session: _native.Session, directory: Path | None, progress: bool | None) -> None:
        self._session = session
        self._directory = directory
        self._progress = progress

    def sql(self, query: str) -> Result:
        """Plans a query; it runs when its rows are asked for.

        `query` may be several statements, separated by semicolons: all but the last run now, in order. So does the last
        one if it changes something. Tables are found by name, files as 'path/file.parquet'.

        >>> import pelton
        >>> con = pelton.connect()
        >>> con.sql("CREATE VIEW v AS SELECT 2 AS a; SELECT a * 21 AS b FROM v")
        ┌───────┐
        │     b │
        │ int64 │
        ├───────┤
        │    42 │
        └───────┘
        """
        return Result(self._session.run(query), self._progress)

    def register(self, name: str, rows: ArrowStream) -> None:
        """Makes `rows` a table of this connection, in place of one registered as `name` before.

        Whatever exports Arrow will do: a `pyarrow.Table`, a frame of Polars or pandas, a relation of DuckDB, a `Result`.
        Memory is shared, not copied; a stream is read to its end. A name of letters, digits and underscores is found
        whatever its case; any other is written in double quotes in SQL.

        >>> import pelton, pyarrow
        >>> con = pelton.connect()
        >>> con.register("pets", pyarrow.table({"name": ["Ada", "Bo"], "legs": [4, 2]}))
        >>> con.sql("SELECT max(legs) AS legs FROM pets").arrow().to_pylist()
        [{'legs': 4}]
        """
        self._session.register(name, exporter(rows))

    def unregister(self, name: str) -> None:
        """Forgets a table that was registered, or a view."""
        if not self._session.unregister(name):
            raise InvalidInputError(f"nothing is registered as '{name}'")

    def load(
        self,
        table: str,
        source: Name | Sequence[Name] | ArrowStream,
        *,
        mode: Literal["create", "append", "replace"] = "create",
        cluster_by: str | Sequence[str] | None = None,
        star: Sequence[str] = (),
        format: Literal["parquet", "csv", "json", "arrow"] | None = None,
        delimiter: str | None = None,
        header: bool | None = None,
        null: str | Sequence[str] | None = None,
        quote: str | None = None,
        escape: str | None = None,
        comment: str | None = None,
        encoding: str = "utf-8",
        infer_rows: int | Literal["auto", "all"] = "auto",
        column_types: Mapping[str, str] | str | None = None,
        purpose: Literal["auto", "gpu", "cpu", "archive"] | None = None,
        objective: Literal["fastest", "smallest"] | None = None,
        storage_rate: Size | None = None,
        sample: float = 0.1,
        row_group_rows: int | Sequence[int] = 131072,
        page_rows: int = 16384,
        force_codec: str | None = None,
        memory_limit: Size | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
        spill_limit: Size | None = None,
        threads: int | None = None,
        seed: int = 42,
    ) -> LoadReport:
        """Loads files, or rows that another library holds, into a table of the warehouse.

        `source` is a file, directory or glob, a list of them, or whatever `register` takes. Nothing is visible before
        the load is complete; a failed or interrupted one leaves the table as it was.

        - `mode`: make the table, add to it, or replace it
        - `cluster_by`: sort rows so that more can be skipped: "auto", "auto:a,b,c", "a,b,c" or ["a", "b", "c"];
          attributes of dimensions are named "dimension.column"
        - `star`: dimensions, each "fact_column=dimension.key", so that filters on them skip row groups of this table
        - `format`: of the files, where their ending does not say
        - `delimiter`, `header`, `null` (one text or several), `quote` ("" for none), `escape` and `comment` are of CSV;
          `encoding` is of CSV and JSON: utf-8, latin1, windows-1252, utf-16 or utf-16be
        - `infer_rows`: rows that column types of CSV and JSON are inferred from, "all" or a number; "auto" is all of
          inputs up to 64 MiB, else 100000. `column_types` names types instead: {"zip": "VARCHAR"}
        - `purpose`: which way the bytes will come to those who read them, as `pelton load --for` has it; it takes the
          place of `objective` and `storage_rate`
        - `objective`: what the choice of encodings aims at; "fastest" assumes a storage of `storage_rate` ("1GB") a second;
          with neither it is as `purpose` "auto"
        - `sample`: share of the rows that encodings are tried on, which `seed` picks
        - `row_group_rows`: rows of a row group, the unit of skipping; of several, the best on the sample
        - `page_rows`: rows of a page inside a column chunk; `force_codec`: this codec for all, without a choice
        - `memory_limit`, `spill_dir`, `spill_limit`: memory for rows, beyond which they spill, to the warehouse unless
          a folder is named; None: as of `connect`
        - `threads`: None: one a core

        >>> import pelton, pyarrow, tempfile
        >>> with tempfile.TemporaryDirectory() as dir, pelton.connect(dir) as con:
        ...     report = con.load("squares", pyarrow.table({"n": [1, 2, 3], "square": [1, 4, 9]}))
        ...     report.row_count, [table["table"] for table in con.tables()]
        (3, ['squares'])
        """
        files, rows = _files_or_rows(source)
        args = {
            "table": table,
            "files": files,
            "mode": mode,
            "cluster_by": cluster_by if cluster_by is None or isinstance(cluster_by, str) else ",".join(cluster_by),
            "star": list(star),
            "format": format,
            "delimiter": delimiter,
            "header": header,
            "null": [null] if isinstance(null, str) else list(null or ()),
            "quote": quote,
            "escape": escape,
            "comment": comment,
            "encoding": encoding,
            "infer_rows": str(infer_rows),
            "column_types": _types_text(column_types),
            "purpose": purpose,
            "objective": objective,
            "storage_rate": storage_rate,
            "sample": sample,
            "row_group_rows": [row_group_rows] if isinstance(row_group_rows, int) else list(row_group_rows),
            "page_rows": page_rows,
            "force_codec": force_codec,
            "memory_limit": memory_limit,
            "spill_dir": None if spill_dir is None else os.fspath(spill_dir),
            "spill_limit": spill_limit,
            "threads": threads,
            "seed": seed,
        }
        with _progress.shown(self._progress) as display:
            report = self._session.load(args, rows, display)
        return LoadReport(**json.loads(report))

    def tables(self) -> list[dict[str, Any]]:
        """The tables of the warehouse: "table", "rows", "columns", "row_groups", "raw_bytes", "stored_bytes" and
        "metadata_bytes" of each."""
        found: list[dict[str, Any]] = json.loads(self._session.tables())
        return found

    def inspect(self, table: str) -> dict[str, Any]:
        """How a table is stored: of each of its "columns" the encoding, sizes, bounds, and what else was "tried"; under
        "sideways" the attributes of dimensions that row groups are skipped by."""
        found: dict[str, Any] = json.loads(self._session.inspect(table))
        return found

    def drop(self, table: str) -> None:
        """Deletes a table of the warehouse. Queries that read it go on."""
        self._session.drop_table(table)

    def close(self) -> None:
        """Closes the connection. Results that it gave out can still be read."""
        self._session.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        place = "files and memory" if self._directory is None else f"'{self._directory}'"
        return f"<pelton.Connection to {place}{', closed' if self._session.closed else ''}>"


def _files_or_rows(source: Any) -> tuple[list[str], Any]:
    if isinstance(source, str | os.PathLike):
        return [os.fspath(source)], None
    if isinstance(source, list | tuple) and all(isinstance(name, str | os.PathLike) for name in source):
        return [os.fspath(name) for name in source], None
    return [], exporter(source)


def _types_text(types: Mapping[str, str] | str | None) -> str:
    """Column types as the command takes them."""
    if types is None or isinstance(types, str):
        return types or ""
    quoted = {name: name.replace('"', '""') for name in types}
    return ",".join(f'"{quoted[name]}"={kind}' for name, kind in types.items())


@dataclass(frozen=True)
class LoadReport:
    """What a load did, of its own rows only; sizes are in bytes."""

    table: str
    row_count: int
    row_group_count: int
    raw_bytes: int
    stored_bytes: int
    metadata_bytes: int
    spilled_bytes: int
    seconds: float
    cluster_by: list[str]
    warnings: list[str]
