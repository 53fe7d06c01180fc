"""What this machine is made of, and what it lacks."""

import json
import os
from pathlib import Path
from typing import Any, cast

from pelton import _native
from pelton._folders import NVRTC_FOLDERS


def topology(preset: str | None = None) -> dict[str, Any]:
    """The machine as a graph: host nodes, devices, links and their bandwidths.

    `preset` names a machine of the literature instead: ac922, delta, dgx-a100, dgx1, edr-cluster, h200-x2. The keys are
    "topology", "profile" (what `pelton topology --measure` has measured here, or None) and "notes" (what could not be
    found out). The two documents are those of the command's `--json`.

    >>> import pelton
    >>> len(pelton.topology("h200-x2")["topology"]["devices"])
    2
    """
    return cast(dict[str, Any], json.loads(_native.topology(preset)))


def doctor(dir: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """What was found on this machine, what is missing, what that would give, and the command that installs it.

    `dir` is a warehouse, whose disk is then looked at as well. The document is that of `pelton doctor --json`.

    >>> import pelton
    >>> sorted(pelton.doctor())
    ['findings', 'is_usable']
    """
    directory = None if dir is None else Path(dir)
    return cast(dict[str, Any], json.loads(_native.doctor(directory, list(map(str, NVRTC_FOLDERS)))))
