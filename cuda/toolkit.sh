#!/usr/bin/env bash
# Installs the CUDA compiler and NVRTC, the compiler as a library, from PyPI into a Python environment of its own,
# once, and prints its CUDA_HOME.
#
#   cuda/toolkit.sh FOLDER
#
# Needs Python 3 with its venv module, the network for some 200 MB, and no GPU. What is installed is pinned in
# requirements.txt beside this script.
set -euo pipefail

[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
requirements=$here/requirements.txt
stamp=$folder/installed.txt

if ! cmp -s "$requirements" "$stamp"; then
  echo "installing the CUDA compiler into $folder" >&2
  rm -rf "$folder"
  python3 -m venv "$folder" >&2 || {
    echo "Python's venv module is needed: apt-get install python3-venv, or dnf install python3" >&2
    exit 1
  }
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements" >&2
fi

nvcc=$(echo "$folder"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc)
[ -x "$nvcc" ] || { echo "no nvcc in $folder; remove that folder and try again" >&2; exit 1; }
home=$(dirname "$(dirname "$nvcc")")
[ -e "$home/lib/libnvrtc.so.13" ] || { echo "no NVRTC in $folder; remove that folder and try again" >&2; exit 1; }
# The compiler's profile links from lib64, which the wheels lack.
ln -sfn lib "$home/lib64"
cp "$requirements" "$stamp"
echo "$home"
