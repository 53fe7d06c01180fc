"""What is shown while a query or a load takes long: a line on a terminal, or an output in a notebook.

The native half calls `show` a few times a second from half a second on, from the thread that waits.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Display(Protocol):
    """Where a text about the work is shown, in place of the one before."""

    def show(self, text: str) -> None:
        """Shows `text`."""


class _Terminal:
    def __init__(self) -> None:
        self._shown = False

    def show(self, text: str) -> None:
        # Back to the start of the line, and what is left of the last text erased.
        sys.stderr.write(f"\r{text}\x1b[K")
        sys.stderr.flush()
        self._shown = True

    def close(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class _Notebook:
    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        from IPython.display import Pretty, display

        if self._handle is None:
            self._handle = display(Pretty(text), display_id=True)
        else:
            self._handle.update(Pretty(text))

    def close(self) -> None:
        from IPython.display import Pretty

        if self._handle is not None:
            self._handle.update(Pretty(""))


@contextmanager
def shown(wanted: bool | None) -> Iterator[Display | None]:
    """Where to show progress: nowhere if `wanted` is False, nor, if it is None, where nobody would see it."""
    display = _Notebook() if _is_notebook() else _Terminal()
    if wanted is False or (wanted is None and isinstance(display, _Terminal) and not _is_terminal()):
        yield None
        return
    try:
        yield display
    finally:
        display.close()


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _is_notebook() -> bool:
    """Whether code runs in a kernel of Jupyter, which alone can replace what it has shown."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
