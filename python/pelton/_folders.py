"""Where native libraries lie that the package brings or that were installed with it, and how its command is started.

The package's own folder may hold `libpelton_cuda.so`. NVIDIA's wheels (`pip install pelton[cuda13]`) put NVRTC into the
namespace package `nvidia`, one folder in each place that Python imports from. The dynamic loader knows none of these.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

from pelton._native import set_command, set_folders

# Of wheels for CUDA 13, then for 12.
_WHEELS = ("cu13/lib", "cuda_nvrtc/lib")


def _nvrtc_folders() -> list[Path]:
    found = PathFinder.find_spec("nvidia")
    places = list(found.submodule_search_locations or []) if found else []
    folders = [Path(place, folder).absolute() for folder in _WHEELS for place in places]
    return [folder for folder in folders if folder.is_dir()]


NVRTC_FOLDERS = _nvrtc_folders()

set_folders(Path(__file__).absolute().parent, NVRTC_FOLDERS)
# Kernels are compiled by processes of their own. A program that has Python in it names none.
if sys.executable:
    set_command([sys.executable, "-m", "pelton"])
