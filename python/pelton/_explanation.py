"""How a query is run, to read and to compute with."""

import html
import json
from collections.abc import Iterator
from typing import Any


class Explanation:
    """A plan, with `analyze` also what running it took.

    `str` of it is `text`, which is also what a prompt shows.
    """

    def __init__(self, sections: list[tuple[str, str]], plan: str, analyzed: bool) -> None:
        self._sections = sections
        self._plan: dict[str, Any] = json.loads(plan)
        self._analyzed = analyzed

    @property
    def text(self) -> str:
        """The plan, what runs on a device and why the rest does not, and what was skipped, as EXPLAIN prints it."""
        return "\n".join(f"── {title}\n{text}" for title, text in self._sections)

    def to_dict(self) -> dict[str, Any]:
        """The same as data.

        - "analyzed": whether the query ran
        - "plan": the root of the plan. A node has its "name" and "detail", "place" ("cpu" or "device") and "reason",
          "estimated_rows", "actual_rows", "elapsed_ns", "metrics", "scan" and "children"; what running gives is None,
          0 or empty unless the query ran. `docs/specs/query-profile.md` has every field.
        - "scans": the "scan" of each node that reads a Pelton table, from the root down: its row groups, bytes and
          times, and what skipped how much

        >>> import pelton
        >>> plan = pelton.connect().sql("SELECT 1 AS a").explain(analyze=True).to_dict()["plan"]
        >>> plan["name"], plan["place"], plan["actual_rows"]
        ('ProjectionExec', 'cpu', 1)
        """
        scans = [node["scan"] for node in _nodes(self._plan) if node["scan"]]
        return {"analyzed": self._analyzed, "plan": self._plan, "scans": scans}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """`node` and all below it, parents first."""
    yield node
    for child in node["children"]:
        yield from _nodes(child)
