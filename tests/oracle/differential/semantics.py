"""The tables of docs/guide/semantics.md, line by line, and what an engine gives for one.

A line is an expression, or a whole SELECT, and what Pelton, DuckDB and PostgreSQL make of it. In a table headed "Type of"
the cells are types. Several values of a row, or rows, are separated by commas; an error is `error`.

    python semantics.py --package DIR --postgres "host=… user=…" [--write]

says which cells are no longer true, or puts them right; PostgreSQL's column is checked this way alone, with psql.
"""

import argparse
import csv
import io
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import isinf, isnan
from pathlib import Path

import pyarrow as pa
from pyarrow import types

from engines import DuckDB, Failed, Pelton

PAGE = Path(__file__).parents[3] / "docs/guide/semantics.md"


@dataclass(frozen=True)
class Line:
    expression: str
    pelton: str
    duckdb: str
    postgres: str
    of_type: bool


def lines(page) -> Iterator[Line]:
    """The lines of the tables with a column for each engine; in code, `\\|` is a bar."""
    of_type = False
    for text in page.splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", text)[1:-1]]
        if len(cells) == 4 and cells[1] == "Pelton":
            of_type = cells[0].startswith("Type of")
        elif len(cells) == 4 and not set(text) <= set("|-: "):
            expression, *values = (cell.strip("`") for cell in cells)
            yield Line(expression, *values, of_type)


def statement(expression):
    return expression if re.match(r"(?i)select|with", expression) else f"SELECT {expression} AS x"


def value(engine, expression, of_type=False):
    """What `engine` gives for it, as a cell of the page."""
    outcome = engine.ask(statement(expression))
    if isinstance(outcome, Failed):
        return "error"
    if of_type:
        return type_name(outcome.schema.field(0).type)
    rows = zip(*(shown(column) for column in outcome.columns))
    return ", ".join(", ".join(row) for row in rows) or "no rows"


def shown(column):
    if types.is_date32(column.type) or types.is_timestamp(column.type):
        texts = column.cast(pa.string()).to_pylist()
        return ["NULL" if text is None else re.sub(r"\.?0+$", "", text) if "." in text else text for text in texts]
    return [cell(item) for item in column.to_pylist()]


def cell(item):
    if item is None:
        return "NULL"
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, float):
        if isnan(item) or isinf(item):
            return "NaN" if isnan(item) else "inf" if item > 0 else "-inf"
        return repr(item)
    if isinstance(item, Decimal):
        return f"{item:f}"
    return f"'{item}'" if isinstance(item, str) else str(item)


NAMES = {
    pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT", pa.bool_(): "BOOLEAN",
    pa.float32(): "REAL", pa.float64(): "DOUBLE", pa.date32(): "DATE", pa.string(): "VARCHAR", pa.string_view(): "VARCHAR",
    pa.timestamp("us"): "TIMESTAMP(6)", pa.timestamp("ns"): "TIMESTAMP(9)", pa.month_day_nano_interval(): "INTERVAL",
    pa.duration("ns"): "INTERVAL",
}  # fmt: skip


def type_name(data_type):
    if types.is_decimal(data_type):
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    return NAMES.get(data_type, str(data_type))


# ---- PostgreSQL

POSTGRES_NAMES = {
    "bigint": "BIGINT", "integer": "INTEGER", "smallint": "SMALLINT", "double precision": "DOUBLE", "real": "REAL",
    "boolean": "BOOLEAN", "date": "DATE", "timestamp without time zone": "TIMESTAMP(6)", "text": "VARCHAR",
    "character varying": "VARCHAR", "interval": "INTERVAL", "numeric": "NUMERIC",
}  # fmt: skip


def postgres_value(connection, line):
    """As psql prints it, text and all, in the form of the other columns where they agree with it."""
    query = f"SELECT pg_typeof(({statement(line.expression)}))" if line.of_type else statement(line.expression)
    command = ["psql", connection, "--no-psqlrc", "--csv", "--tuples-only", "--pset", "null=NULL", "--command", query]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        return "error"
    if line.of_type:
        return POSTGRES_NAMES.get(run.stdout.strip(), run.stdout.strip())
    rows = list(csv.reader(io.StringIO(run.stdout)))
    if not rows and run.stdout == "\n":
        rows = [[""]]
    printed = [item for row in rows for item in row]
    for shown in (line.pelton, line.duckdb):
        forms = shown.split(", ")
        if len(forms) == len(printed) and all(is_form_of(*pair) for pair in zip(forms, printed)):
            return shown
    return ", ".join(printed) or "no rows"


def is_form_of(shown, printed):
    named = {"true": "t", "false": "f", "inf": "Infinity", "-inf": "-Infinity"}
    return named.get(shown, re.sub(r"^'(.*)'$", r"\1", shown)) == printed or re.sub(r"\.0$", "", shown) == printed


# ---- by hand


def rewritten(page, pelton, duckdb, postgres):
    """The page with every cell as it is now; PostgreSQL's only where there is a server."""
    known = {line.expression: line for line in lines(page)}
    for text in page.splitlines():
        cells = re.split(r"(?<!\\)\|", text)
        expression = cells[1].strip().strip("`").replace("\\|", "|") if len(cells) == 6 else None
        line = known.get(expression)
        if line is None:
            yield text
            continue
        now = Line(
            line.expression,
            value(pelton, line.expression, line.of_type),
            value(duckdb, line.expression, line.of_type),
            line.postgres,
            line.of_type,
        )
        third = postgres_value(postgres, now) if postgres else line.postgres
        if [now.pelton, now.duckdb, third] != [line.pelton, line.duckdb, line.postgres]:
            print(f"{line.expression}: {line.pelton}, {line.duckdb}, {line.postgres} -> {now.pelton}, {now.duckdb}, {third}")
        yield f"|{cells[1]}| {now.pelton} | {now.duckdb} | {third} |"


def main():
    parser = argparse.ArgumentParser(description="Fills the cells of docs/guide/semantics.md with what engines give now.")
    parser.add_argument("--package", type=Path, required=True, help="folder with the Python package `pelton`")
    parser.add_argument("--postgres", help="a connection string of psql; without it that column stays")
    parser.add_argument("--write", action="store_true", help="write the page; without it, only say what would change")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pelton = Pelton(options.package, Path(folder, "warehouse"), "cpu")
        page = "\n".join(rewritten(PAGE.read_text(), pelton, DuckDB(), options.postgres)) + "\n"
        pelton.connection.close()
    if options.write:
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
