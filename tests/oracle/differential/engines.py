"""The engines under test, each as `ask(sql)`: rows, or the error it gave.

Pelton runs inside this process, through its Python package, and so does DuckDB: a query takes a few milliseconds, not
the start of a process.
"""

import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import pyarrow as pa

# Far above what any of these queries needs; one that takes longer hangs, and is reported as an error.
SECONDS_MAX = 60


@dataclass(frozen=True)
class Failed:
    """An engine's refusal; the text is what it said."""

    text: str


@contextmanager
def time_limit(seconds):
    def stop(*_):
        raise TimeoutError(f"no answer after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Pelton:
    """A connection to a warehouse; `package` is the folder that holds the Python package."""

    def __init__(self, package, warehouse, device):
        if str(package) not in sys.path:
            sys.path.insert(0, str(package))
        import pelton

        self.error = pelton.Error
        self.connection = pelton.connect(
            warehouse, device=device, threads=2, memory_limit="512MiB", progress=False
        )

    def ask(self, sql):
        try:
            with time_limit(SECONDS_MAX):
                return self.connection.sql(sql).arrow()
        except (self.error, TimeoutError) as error:
            return Failed(str(error))

    def runs_on_device(self, sql):
        """Whether all of the statement's work on tables becomes kernels."""
        plan = self.ask("EXPLAIN " + sql)
        return isinstance(plan, pa.Table) and "PeltonGpuExec" in plan.column("plan")[0].as_py()


class DuckDB:
    def __init__(self):
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'; SET threads = 1; SET memory_limit = '1GB'")

    def ask(self, sql):
        try:
            return self.connection.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            return Failed(str(error))
