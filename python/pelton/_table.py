"""The first rows of a result, drawn for terminals and for notebooks."""

import html
import unicodedata

# Rows that are drawn, and characters of a cell.
ROWS_SHOWN = 20
_CELL_CHARS_MAX = 60

Preview = tuple[list[str], list[str], list[list[str | None]], bool]

_NUMBERS = ("int", "uint", "float", "decimal")


def text(preview: Preview) -> str:
    """A box of names, types and cells; numbers to the right, all else to the left."""
    names, types, rows, has_more = preview
    if not names:
        return "done"
    cells = [[_cut(cell) for cell in row] for row in rows]
    columns = list(zip(names, types, *cells, strict=True))
    widths = [max(map(_width, column)) for column in columns]
    right = [name.startswith(_NUMBERS) for name in types]
    lines = [_rule("┌", "┬", "┐", widths), _line(names, widths, right), _line(types, widths, right)]
    if rows:
        lines.append(_rule("├", "┼", "┤", widths))
        lines.extend(_line(row, widths, right) for row in cells)
    lines.append(_rule("└", "┴", "┘", widths))
    remark = _remark(len(rows), has_more)
    return "\n".join([*lines, remark] if remark else lines)


def as_html(preview: Preview) -> str:
    """The same as an HTML table."""
    names, types, rows, has_more = preview
    if not names:
        return "<p>done</p>"
    right = [name.startswith(_NUMBERS) for name in types]
    head = "".join(f"<th>{html.escape(name)}<br><small>{html.escape(kind)}</small></th>"
                   for name, kind in zip(names, types, strict=True))
    body = "".join(f"<tr>{''.join(map(_html_cell, row, right))}</tr>" for row in rows)
    remark = _remark(len(rows), has_more)
    note = f"<p>{remark}</p>" if remark else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _html_cell(cell: str | None, is_right: bool) -> str:
    align = "right" if is_right else "left"
    content = "<i>NULL</i>" if cell is None else html.escape(cell)
    return f'<td style="text-align: {align}">{content}</td>'


def _remark(shown: int, has_more: bool) -> str:
    if has_more:
        return f"the first {shown} rows; there are more"
    return "no rows" if shown == 0 else ""


def _cut(cell: str | None) -> str:
    if cell is None:
        return "NULL"
    shown = "".join(char if char.isprintable() else " " for char in cell)
    return shown if len(shown) <= _CELL_CHARS_MAX else shown[: _CELL_CHARS_MAX - 1] + "…"


def _width(cell: str) -> int:
    """Columns of a terminal: some characters take two, combining ones none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in cell)
    return len(cell) + wide - sum(unicodedata.combining(char) != 0 for char in cell)


def _line(cells: list[str], widths: list[int], right: list[bool]) -> str:
    padded = []
    for cell, width, is_right in zip(cells, widths, right, strict=True):
        space = " " * (width - _width(cell))
        padded.append(f" {space}{cell} " if is_right else f" {cell}{space} ")
    return "│" + "│".join(padded) + "│"


def _rule(left: str, middle: str, right: str, widths: list[int]) -> str:
    return left + middle.join("─" * (width + 2) for width in widths) + right
