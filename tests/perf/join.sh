#!/usr/bin/env bash
# Joins on a GPU machine: correctness first, then the figures of docs/perf/join.md.
#
#   tests/perf/join.sh PELTON OUT [TEST-PROGRAM...]
#
# PELTON is the command, OUT a folder for reports as JSON. Test programs are those of `cargo test --release --no-run -p
# pelton-join -p pelton-kernels`; they fail where a GPU gives another answer, and say SKIPPED where they find none. Needs
# some 24 GB of pinned memory and 60 GB of GPU memory; ROWS=small divides all sizes by 16.
set -euo pipefail

[ $# -ge 2 ] || { echo "usage: $0 PELTON OUT [TEST-PROGRAM...]" >&2; exit 2; }
pelton=$1
out=$2
shift 2
mkdir -p "$out"
for test in "$@"; do "$test" --nocapture 2>&1 | tee "$out/$(basename "$test").log"; done

shrink=1
[ "${ROWS:-}" != small ] || shrink=16
build=$((134217728 / shrink))
probe=$((536870912 / shrink))

# join NAME ARGUMENTS...: a row of the table; what fails is said and does not end the script.
join() {
  local name=$1
  shift
  echo "== $name: $*"
  "$pelton" bench join --machine cuda --json "$out/$name.json" "$@" 2>&1 || echo "FAILED: $name"
}

# In device memory: one table and partitions, general and by key, skewed, with pairs, 4/4 bytes.
join device --tier device --algorithm gpu,radix --build $build --probe $probe
join device-dense --tier device --algorithm gpu --dense --build $build --probe $probe
join device-4 --tier device --algorithm gpu,radix --width 4 --build $build --probe $probe
join device-zipf --tier device --algorithm gpu,radix --zipf 1.0 --build $build --probe $probe
join device-half --tier device --algorithm gpu,radix --selectivity 0.5 --build $build --probe $probe
join device-pairs --tier device --algorithm gpu,radix --pairs --build $build --probe $((build * 2))
join device-small --tier device --algorithm gpu,radix --build $((build / 8)) --probe $((probe / 2))

# Over the link, beside the host's cores and the choice.
join pinned --algorithm auto,gpu,hybrid --build $build --probe $probe --repetitions 2
join host --algorithm nopa,pro --build $((build / 8)) --probe $((probe / 8)) --repetitions 2

# Beyond the limit: the table of 2^26 build rows takes 52 bytes a row, 3.25 GiB; limits of 10 to 1/16 of it.
rows=$((67108864 / shrink))
table=$((52 * rows))
for tenths in 100 20 14 12 10 8 5; do
  join "limit-$tenths" --algorithm hybrid --build $rows --probe $((2 * rows)) --repetitions 2 \
    --device-memory-limit $((table * tenths / 10))B
done
for part in 4 8 16; do
  join "limit-1-$part" --algorithm hybrid --build $rows --probe $((2 * rows)) --repetitions 2 \
    --device-memory-limit $((table / part))B
done
join limit-zipf --algorithm hybrid --build $rows --probe $((2 * rows)) --zipf 1.5 --repetitions 2 \
  --device-memory-limit $((table / 4))B
