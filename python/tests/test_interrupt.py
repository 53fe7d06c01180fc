"""Work that takes long: it can be interrupted, it leaves other threads alone, and it stops when nobody reads on."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pelton
import pyarrow
import pytest
from conftest import ENDLESS


@contextmanager
def interrupted_within(seconds: float) -> Iterator[None]:
    """Sends SIGINT, as Ctrl-C does, half a second from now, and wants the block to end with KeyboardInterrupt soon."""
    # Shells start what runs in the background with SIGINT ignored, and Python then leaves it so.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sender = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    started = time.monotonic()
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        sender.join()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - started < 0.5 + seconds


def forms(con: pelton.Connection) -> list[Callable[[], object]]:
    result = con.sql(ENDLESS)
    return [
        result.arrow,
        lambda: list(result.fetch_batches()),
        lambda: repr(result),
        lambda: result.explain(analyze=True),
    ]


@pytest.mark.parametrize("form", range(4))
def test_ctrl_c_cancels_a_query_and_the_connection_goes_on(memory: pelton.Connection, form: int) -> None:
    run = forms(memory)[form]
    with interrupted_within(3):
        run()
    assert memory.sql("SELECT 1 AS a").arrow().num_rows == 1
    assert_idle()


def test_ctrl_c_cancels_what_another_library_reads(memory: pelton.Connection) -> None:
    result = memory.sql(ENDLESS)
    with interrupted_within(3):
        try:
            pyarrow.table(result)
        except pyarrow.ArrowException as error:
            assert "cancelled" in str(error)
            time.sleep(0.1)  # Python raises the interrupt that the library could not
    assert_idle()


def test_ctrl_c_cancels_a_load_and_leaves_no_table(tmp_path: Path) -> None:
    schema = pyarrow.schema([("a", pyarrow.int64())])

    def batches() -> Iterator[pyarrow.RecordBatch]:
        while True:
            yield pyarrow.record_batch({"a": list(range(1000))}, schema)

    with pelton.connect(tmp_path) as con:
        with interrupted_within(5):
            con.load("t", pyarrow.RecordBatchReader.from_batches(schema, batches()), memory_limit="64MiB")
        assert con.tables() == []
        assert con.load("t", pyarrow.table({"a": [1]})).row_count == 1


def test_a_signal_handler_of_the_program_runs_meanwhile(memory: pelton.Connection) -> None:
    class Alarm(Exception):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Alarm):
            memory.sql(ENDLESS).arrow()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_while_a_query_does() -> None:
    with pelton.connect(threads=1) as con:
        ticks: list[float] = []
        stop = threading.Event()

        def tick() -> None:
            while not stop.wait(0.01):
                ticks.append(time.monotonic())

        ticker = threading.Thread(target=tick)
        ticker.start()
        con.sql("SELECT sum(a.value * b.value) AS s FROM range(20000) AS a, range(20000) AS b").arrow()
        stop.set()
        ticker.join()
    gaps = [after - before for before, after in zip(ticks, ticks[1:], strict=False)]
    assert len(ticks) > 5
    assert max(gaps) < 0.5


def test_threads_share_a_connection(con: pelton.Connection) -> None:
    answers: list[int] = []

    def ask() -> None:
        for _ in range(5):
            answers.append(con.sql("SELECT count(*) AS n FROM trips").arrow()["n"][0].as_py())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [50_000] * 20


def assert_idle() -> None:
    """No thread of this process computes any longer."""
    deadline = time.monotonic() + 5
    while True:
        before = time.process_time()
        time.sleep(0.2)
        if time.process_time() - before < 0.05:
            return
        assert time.monotonic() < deadline, "something still runs"


def test_a_stream_that_is_dropped_or_closed_stops_its_query(memory: pelton.Connection) -> None:
    rows = "SELECT a.value + b.value AS s FROM range(10000000) AS a, range(10000000) AS b"
    batches = memory.sql(rows).fetch_batches()
    assert next(batches).num_rows > 0
    del batches
    assert_idle()
    with memory.sql(rows).fetch_batches() as open_batches:
        next(open_batches)
    assert list(open_batches) == []
    assert_idle()
    reader = pyarrow.RecordBatchReader.from_stream(memory.sql(rows))
    assert reader.read_next_batch().num_rows > 0
    reader.close()
    del reader
    assert_idle()


def test_a_forked_process_is_told_to_connect_again(memory: pelton.Connection) -> None:
    script = """
import os, pelton
con = pelton.connect()
child = os.fork()
if child == 0:
    try:
        con.sql("SELECT 1")
    except pelton.InvalidInputError as error:
        ok = "forked" in str(error) and pelton.connect().sql("SELECT 1 AS a").arrow().num_rows == 1
        del con
        os._exit(0 if ok else 1)
    os._exit(2)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert con.sql("SELECT 1 AS a").arrow().num_rows == 1
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)
