"""Fixed statements by topic, answered by Pelton and by DuckDB in one process.

    python tests/oracle/differential/fixed_statements.py --package DIR [--device host] [joins windows.sql:12 …]

```text
    fixed/TOPIC.sql         both engines give the same rows
    fixed/differences.sql   they differ for a reason that stands above the statement: semantics.md, or DuckDB alone
    fixed/defects.sql       Pelton is wrong; what is right stands above the statement
    fixed/unsupported.sql   Pelton refuses what DuckDB and, unless said otherwise, PostgreSQL answer
```

A statement ends with a semicolon at the end of a line. `-- duckdb: …` above one is the same in DuckDB's words, where the
two differ. Rows are compared in sequence where the statement itself ends in ORDER BY, which has to be a total order, and
as multisets otherwise.

What is listed as a defect or not supported has to be so still: one that is mended fails here until it is moved to its topic.
"""

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import answers
import fixed_tables
from engines import DuckDB, Failed, Pelton

FOLDER = Path(__file__).parent / "fixed"
DIFFERENCES, DEFECTS, UNSUPPORTED = "differences", "defects", "unsupported"


@dataclass(frozen=True)
class Statement:
    topic: str
    line: int
    pelton: str
    duckdb: str
    # The comment above it.
    reason: str

    @property
    def place(self):
        return f"{self.topic}.sql:{self.line}"

    @property
    def in_sequence(self):
        return is_ordered(self.pelton)


def is_ordered(sql):
    """Whether the statement itself has an ORDER BY, not one of its subqueries, windows or aggregates."""
    outer, count = re.sub(r"'[^']*'|\"[^\"]*\"", "", sql), 1
    while count:
        outer, count = re.subn(r"\([^()]*\)", "", outer)
    return re.search(r"\border\s+by\b", outer, re.IGNORECASE) is not None


def read(folder=FOLDER):
    """All statements, in the order of their files."""
    return [statement for path in sorted(folder.glob("*.sql")) for statement in parse(path.stem, path.read_text())]


def parse(topic, text):
    comment, duckdb, statement, began = [], None, [], 0
    for number, line in enumerate(text.splitlines(), 1):
        if not statement and line.startswith("-- duckdb: "):
            duckdb = line.removeprefix("-- duckdb: ").removesuffix(";")
        elif not statement and line.startswith("--"):
            comment.append(line.removeprefix("--").strip())
        elif not statement and not line.strip():
            comment = []
        else:
            began = began if statement else number
            statement.append(line)
            if line.endswith(";"):
                sql = "\n".join(statement).removesuffix(";")
                yield Statement(topic, began, sql, duckdb or sql, " ".join(comment))
                duckdb, statement = None, []
    if statement:
        raise ValueError(f"{topic}.sql:{began}: no semicolon ends the statement")


@dataclass(frozen=True)
class Outcome:
    statement: Statement
    duckdb: object
    pelton: object
    # What differs between the two; None where they agree.
    found: str | None

    def failure(self):
        """Why the statement is not what its file says; None where it is."""
        topic, refused = self.statement.topic, isinstance(self.pelton, Failed)
        if isinstance(self.duckdb, Failed) and topic not in (DIFFERENCES, DEFECTS):
            return "DuckDB refuses it"
        if topic == UNSUPPORTED:
            return None if refused else "Pelton answers it now: move it to its topic, or to the defects if the answer is wrong"
        if topic in (DEFECTS, DIFFERENCES):
            return None if self.found else "the engines agree now: move it to its topic"
        return self.found

    def text(self):
        """For people: what was asked, and both answers."""
        statement = self.statement
        lines = [statement.pelton]
        if statement.duckdb != statement.pelton:
            lines.append(f"  in DuckDB: {statement.duckdb}")
        lines.append(f"  DuckDB: {answers.text(self.duckdb, statement.in_sequence)}")
        lines.append(f"  Pelton: {answers.text(self.pelton, statement.in_sequence)}")
        return "\n".join(lines)


def duckdb(tables):
    """DuckDB with the tables and views, and with NULL where Pelton and PostgreSQL put it."""
    engine = DuckDB()
    engine.connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    fixed_tables.give_to_duckdb(engine, tables)
    return engine


class Engines:
    """Both, with the same tables and views."""

    def __init__(self, package, warehouse, device="cpu"):
        tables = fixed_tables.make()
        self.duckdb = duckdb(tables)
        self.pelton = Pelton(package, warehouse, device)
        fixed_tables.give_to_pelton(self.pelton.connection, tables)

    def run(self, statement):
        expected, actual = self.duckdb.ask(statement.duckdb), self.pelton.ask(statement.pelton)
        return Outcome(statement, expected, actual, answers.compare(expected, actual, statement.in_sequence))

    def close(self):
        self.pelton.connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", type=Path, required=True, help="folder with the Python package `pelton`")
    parser.add_argument("--device", default="cpu", choices=["cpu", "host"], help="host: kernels compiled for the CPU")
    parser.add_argument("which", nargs="*", metavar="TOPIC[.sql:LINE]", help="these alone")
    options = parser.parse_args()
    started = time.monotonic()
    counts, failed = Counter(), 0
    with tempfile.TemporaryDirectory(prefix="pelton-fixed-") as folder:
        engines = Engines(options.package, Path(folder, "warehouse"), options.device)
        for statement in read():
            if options.which and not {statement.topic, f"{statement.topic}.sql", statement.place} & set(options.which):
                continue
            # What is wrong on the CPU alone may be right in a kernel.
            if options.device == "host" and statement.topic in (DEFECTS, UNSUPPORTED):
                continue
            outcome = engines.run(statement)
            counts[statement.topic] += 1
            if outcome.failure():
                failed += 1
                print(f"\n== {statement.place}: {outcome.failure()}\n{outcome.text()}")
        engines.close()
    print(f"\n{sum(counts.values())} statements: " + ", ".join(f"{count} {topic}" for topic, count in counts.items()))
    print(f"{failed} failed, {time.monotonic() - started:.0f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
