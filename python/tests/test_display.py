"""What people see: drawn tables, notebooks, explanations, progress."""

import io
import re
import signal
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pelton
import pyarrow
import pytest
from pelton import _progress


def test_a_result_is_drawn_with_names_types_and_first_rows(con: pelton.Connection) -> None:
    drawn = repr(con.sql("SELECT distance, tip, payment FROM trips ORDER BY distance, tip NULLS FIRST, payment"))
    lines = drawn.splitlines()
    assert lines[1].split() == ["│", "distance", "│", "tip", "│", "payment", "│"]
    assert lines[2].split() == ["│", "int32", "│", "float64", "│", "string", "│"]
    assert lines[4] == "│        0 │    NULL │ card    │"
    assert lines[-1] == "the first 20 rows; there are more"
    assert len(lines) == 4 + 20 + 2
    assert len({len(line) for line in lines[:-1]}) == 1


def test_no_rows_and_no_columns_are_drawn_as_such(memory: pelton.Connection) -> None:
    assert repr(memory.sql("SELECT 1 AS a WHERE false")).splitlines()[-1] == "no rows"
    assert repr(memory.sql("CREATE VIEW v AS SELECT 1 AS a")) == "done"


def test_wide_long_and_unprintable_cells_keep_the_box_whole(memory: pelton.Connection) -> None:
    drawn = repr(memory.sql("SELECT 'é' AS a, repeat('x', 100) AS b, E'one\\ntwo' AS c, '日本' AS d, NULL AS e"))
    assert len(drawn.splitlines()) == 6
    assert "x" * 59 + "…" in drawn
    assert "one two" in drawn
    assert " 日本   │" in drawn
    assert "│ NULL │" in drawn


def test_a_notebook_gets_an_html_table_with_what_it_must_escape(memory: pelton.Connection) -> None:
    html = memory.sql("SELECT '<b>&' AS \"a<b\", NULL::INT AS n")._repr_html_()
    assert html is not None
    assert "&lt;b&gt;&amp;" in html and "a&lt;b" in html and "<i>NULL</i>" in html
    assert "<b>&" not in html


def test_a_notebook_gets_text_and_html_of_one_run(memory: pelton.Connection) -> None:
    bundle = memory.sql("SELECT random() AS r")._repr_mimebundle_()
    (number,) = re.findall(r"0\.\d+", bundle["text/plain"])
    assert number in bundle["text/html"]
    assert memory.sql("EXPLAIN SELECT 1")._repr_mimebundle_().keys() == {"text/plain"}


def test_an_explanation_is_text_and_data(con: pelton.Connection) -> None:
    query = con.sql("SELECT count(*) AS n FROM trips WHERE distance < 40")
    planned, ran = query.explain(), query.explain(analyze=True)
    assert "PeltonScanExec" in planned.text and "actual=" not in planned.text
    assert "effective" in ran.text and repr(ran) == str(ran) == ran.text
    assert (planned.to_dict()["analyzed"], ran.to_dict()["analyzed"]) == (False, True)
    (scan,) = ran.to_dict()["scans"]
    assert scan["table"] == "trips"
    assert scan["row_groups_read"] == 1
    assert [(by["by"], by["row_groups"]) for by in scan["skipped"]] == [("minmax", scan["row_groups_total"] - 1)]
    assert "<pre>" in ran._repr_html_()


def test_an_explanation_has_rows_times_and_metrics_only_where_the_query_ran(con: pelton.Connection) -> None:
    query = con.sql("SELECT payment, count(*) AS n FROM trips WHERE distance < 40 GROUP BY payment")
    planned, ran = (list(nodes(query.explain(analyze=analyze).to_dict()["plan"])) for analyze in (False, True))
    assert [node["id"] for node in ran] == list(range(len(ran)))
    assert [node["name"] for node in planned] == [node["name"] for node in ran]
    assert ran[-1]["name"] == "PeltonScanExec" and ran[-1]["scan"]["table"] == "trips"
    for node in planned:
        assert (node["place"], node["actual_rows"] or 0, node["metrics"]) == ("cpu", 0, []), node
    assert planned[-1]["estimated_rows"] == ran[-1]["estimated_rows"] > 0
    assert ran[0]["actual_rows"] == 2
    assert ran[-1]["actual_rows"] == 4000 and ran[-1]["elapsed_ns"] > 0
    assert {"name": "output_rows", "unit": "rows", "value": 4000} in ran[-1]["metrics"]


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node["children"]:
        yield from nodes(child)


def test_explain_as_sql_reads_as_text(con: pelton.Connection) -> None:
    explained = con.sql("EXPLAIN SELECT * FROM trips")
    assert repr(explained).startswith("── physical plan\n")
    assert explained._repr_html_() is None
    with pytest.raises(pelton.InvalidInputError, match="only a query can be explained"):
        explained.explain()


# Long enough for any machine; these tests end it.
LONG = "SELECT sum(length(payment) * a.value) AS s FROM trips, range(1000000000) AS a"


class Seen(Exception):
    """Raised from where progress is shown, which ends the query."""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    is_seen = False

    def flush(self) -> None:
        if self.getvalue().count("row groups") == 2 and not self.is_seen:
            self.is_seen = True
            raise Seen


def test_a_long_query_shows_its_progress_on_a_terminal(
    con: pelton.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    con.sql("SELECT 1 AS a").arrow()
    assert terminal.getvalue() == ""
    with pytest.raises(Seen):
        con.sql(LONG).arrow()
    blank, first, second, erased = terminal.getvalue().split("\r")
    assert (blank, erased) == ("", "\x1b[K")
    for line in (first, second):
        assert re.match(r"\d\.\d s  \d+ of 13 row groups, \d+ rows, .* read, .* skipped, .*B/s effective\x1b\[K", line)


def test_a_line_of_progress_is_erased_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with _progress.shown(None) as display:
        assert display is not None
        display.show("half")
    assert terminal.getvalue() == "\rhalf\x1b[K\r\x1b[K"


def test_progress_is_silent_where_nobody_looks_or_wants_it(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run_for_a_second(progress: bool | None) -> None:
        with pelton.connect(warehouse, progress=progress) as con, pytest.raises(Seen), stopped_after(1):
            con.sql(LONG).arrow()

    run_for_a_second(None)
    assert capfd.readouterr().err == ""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run_for_a_second(False)
    assert terminal.getvalue() == ""


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Seen

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A kernel of Jupyter, as far as displays need one; the texts that it was told to show."""
    shown: list[str] = []

    class Handle:
        def update(self, pretty: str) -> None:
            shown.append(pretty)
            if len(shown) == 3:
                raise Seen

    def display(pretty: str, display_id: bool) -> Handle:
        assert display_id
        shown.append(pretty)
        return Handle()

    ipython: Any = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display, ipython.display.Pretty = display, str
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    yield shown


def test_a_notebook_gets_one_output_that_is_updated_and_emptied(con: pelton.Connection, kernel: list[str]) -> None:
    with pytest.raises(Seen):
        con.sql(LONG).arrow()
    *texts, last = kernel
    assert len(texts) == 3
    assert all("row groups" in text for text in texts)
    assert last == ""


def test_a_long_load_shows_its_progress(tmp_path: Path, kernel: list[str]) -> None:
    schema = pyarrow.schema([("a", pyarrow.int64())])
    batch = pyarrow.record_batch({"a": list(range(1000))}, schema)
    endless = pyarrow.RecordBatchReader.from_batches(schema, iter(lambda: batch, None))
    with pelton.connect(tmp_path) as con, pytest.raises(Seen):
        con.load("t", endless)
    assert re.match(r"\d\.\d s  reading: \d+ rows, .*B raw", kernel[0])
