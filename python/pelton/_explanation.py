"""How a query is run, to read and to compute with."""

import html
import json
import re
from typing import Any

_OPERATOR = re.compile(r"^(?P<indent> *)(?P<name>\w+)(?:: |, )?(?P<detail>.*)$")


class Explanation:
    """A plan, with `analyze` also what running it took.

    `str` of it is `text`, which is also what a prompt shows.
    """

    def __init__(self, sections: list[tuple[str, str]], scans: str, analyzed: bool) -> None:
        self._sections = sections
        self._scans: list[dict[str, Any]] = json.loads(scans)
        self._analyzed = analyzed

    @property
    def text(self) -> str:
        """The plan, what runs on a device and why the rest does not, and what was skipped, as EXPLAIN prints it."""
        return "\n".join(f"── {title}\n{text}" for title, text in self._sections)

    def to_dict(self) -> dict[str, Any]:
        """The same as data.

        - "analyzed": whether the query ran
        - "plan": the tree of operators, each with "operator", "detail" and "children"
        - "sections": the texts by title
        - "scans": of each scan of a Pelton table, its row groups, bytes and times, and what skipped how much. Sizes are
          in bytes, times in nanoseconds summed over threads; figures of reading are 0 unless the query ran.
        """
        return {
            "analyzed": self._analyzed,
            "plan": _tree(self._sections[0][1]) if self._sections else None,
            "sections": dict(self._sections),
            "scans": self._scans,
        }

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


def _tree(plan: str) -> dict[str, Any] | None:
    """The operators of an indented plan, the outermost first."""
    root: dict[str, Any] | None = None
    path: list[tuple[int, dict[str, Any]]] = []
    for line in plan.splitlines():
        match = _OPERATOR.match(line)
        if match is None:
            continue
        node: dict[str, Any] = {"operator": match["name"], "detail": match["detail"], "children": []}
        indent = len(match["indent"])
        while path and path[-1][0] >= indent:
            path.pop()
        if path:
            path[-1][1]["children"].append(node)
        elif root is None:
            root = node
        path.append((indent, node))
    return root
