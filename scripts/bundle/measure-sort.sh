#!/usr/bin/env bash
# Holds the sort of the library against CUB called directly, on the first GPU: 2^28, 2^29 and 2^30 keys, or others.
#
#   ./measure-sort.sh [LOG2_COUNT...]
#
# Both run in turn, twice, so that a drift of clocks shows. What is printed goes to sort.txt too, in $OUT or else ./logs.
# Without measure/sort_cub it is compiled, by the nvcc in $CUDA_HOME, in PATH or in /usr/local/cuda, with the headers of
# $CCCL_INCLUDE if set.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
logs=${OUT:-$here/logs}
mkdir -p "$logs"
export PELTON_CUDA_LIBRARY=${PELTON_CUDA_LIBRARY:-$here/libpelton_cuda.so}
cub=$here/measure/sort_cub

if [ ! -x "$cub" ]; then
  for nvcc in ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    if [ -n "$nvcc" ] && [ -x "$nvcc" ]; then break; fi
  done
  "$nvcc" -std=c++17 -O3 -arch=native ${CCCL_INCLUDE:+-I "$CCCL_INCLUDE"} "$cub.cu" -o "$cub"
fi

{
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv || true
  for _ in 1 2; do
    "$cub" "$@"
    "$here/measure/sort_rate" "$@"
  done
} | tee "$logs/sort.txt"
