"""The `pelton` command, for `python -m pelton` and the script that installers make."""

import signal
import sys

from pelton._native import run_command


def main() -> int:
    """Runs the command with this process's arguments; returns its exit status."""
    # Python's own handler would only note a Ctrl-C until the command has returned.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command(["pelton", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
