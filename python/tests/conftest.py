"""What the tests share: a small warehouse, and a query that does not end by itself."""

from collections.abc import Iterator
from pathlib import Path

import pelton
import pyarrow
import pytest

ENDLESS = "SELECT sum(a.value * b.value) FROM range(10000000) AS a, range(10000000) AS b"

TRIP_COUNT = 50_000


def trips() -> pyarrow.Table:
    """Trips of which every seventh has no tip, in the order of their distance."""
    rows = range(TRIP_COUNT)
    return pyarrow.table(
        {
            "distance": pyarrow.array([row // 100 for row in rows], pyarrow.int32()),
            "tip": pyarrow.array([None if row % 7 == 0 else row % 50 / 4 for row in rows], pyarrow.float64()),
            "payment": pyarrow.array(["cash" if row % 3 == 0 else "card" for row in rows]),
        }
    )


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the table "trips", in row groups of 4096 rows."""
    path = tmp_path_factory.mktemp("warehouse")
    with pelton.connect(path) as con:
        con.load("trips", trips(), row_group_rows=4096)
    return path


@pytest.fixture
def con(warehouse: Path) -> Iterator[pelton.Connection]:
    """A connection to it."""
    with pelton.connect(warehouse) as connection:
        yield connection


@pytest.fixture
def memory() -> Iterator[pelton.Connection]:
    """A connection without a warehouse."""
    with pelton.connect() as connection:
        yield connection
